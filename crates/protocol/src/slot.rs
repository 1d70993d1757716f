//! When in a round an account's calls leave, so that thousands of clients do not act in the same millisecond.
//!
//! An account's slot is new in every round and follows from what the server knows anyway, so that it tells nothing.

use core::time::Duration;

use sha2::{Digest, Sha256};

use crate::{Round, domain};

/// By how much the calls of an account in a round are put off: `SHA-256(domain, 0, account, round)`, of which the first 8
/// bytes are a number, modulo the spread in milliseconds; 0 without a spread. The account is its Ed25519 public key.
#[must_use]
pub fn slot(account: &[u8; 32], round: Round, spread_ms: u32) -> Duration {
    let hash = Sha256::new_with_prefix(domain::SLOT).chain_update([0]);
    let digest: [u8; 32] = hash.chain_update(account).chain_update(round.0.to_le_bytes()).finalize().into();
    let (words, _) = digest.as_chunks::<8>();
    let number = u64::from_le_bytes(words[0]).checked_rem(spread_ms.into());
    Duration::from_millis(number.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::slot;
    use crate::Round;

    #[test]
    fn slots_are_spread_evenly_and_new_in_every_round() {
        const SPREAD: usize = 8;
        let account = |number: u64| -> [u8; 32] {
            core::array::from_fn(|at| if at < 8 { number.to_le_bytes()[at] } else { 0 })
        };
        let mut counts = [0_u32; SPREAD];
        for number in 0..8_000 {
            let slot = slot(&account(number), Round(5), SPREAD as u32);
            counts[usize::try_from(slot.as_millis()).unwrap()] += 1;
        }
        // A fixed set; 1,000 in the mean, with a deviation of 30.
        assert!(counts.iter().all(|count| (880..1120).contains(count)), "{counts:?}");
        let rounds = (0..64).map(|round| slot(&account(1), Round(round), 1 << 20));
        assert_eq!(rounds.collect::<std::collections::BTreeSet<_>>().len(), 64);
        assert_eq!(slot(&account(1), Round(1), 0), Duration::ZERO);
        assert_eq!(slot(&account(1), Round(1), 1), Duration::ZERO);
    }
}
