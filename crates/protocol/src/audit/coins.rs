//! Which answers a participant checks.

use core::fmt;

use crate::Round;
use crate::domain;
use crate::secret::Secret;

/// Of so many rounds, a participant checks an answer of one in the mean.
pub const AUDITED: u64 = 128;
/// The same while its person wants answers to be checked.
pub const AUDITED_WHEN_ASKED: u64 = 8;

/// Draws the rounds and the buckets that an account checks.
///
/// What is drawn follows from the account's secret and the number of the round, and from nothing that the account does.
/// So a server cannot tell, when it answers, whether anybody will look at that answer, and learns nothing from the fact
/// that somebody does; and after a restart the same is drawn.
pub struct AuditCoins(Secret);

impl AuditCoins {
    /// The coins of the account with this seed.
    #[must_use]
    pub fn new(account_seed: &[u8; 32]) -> Self {
        Self(Secret::extract(domain::AUDIT_COINS, [&Secret::new(*account_seed), &Secret::new([0; 32])]))
    }

    /// The bucket of which the answer in this round is to be checked, if one is: that is so in one round of `of`, and a
    /// round drawn for some number is drawn for every divisor of it, too. No bucket if there is none.
    #[must_use]
    pub fn draw(&self, round: Round, buckets: u16, of: u64) -> Option<u16> {
        let mut drawn = [0; 16];
        self.0.expand_into(domain::AUDIT_COINS, &[&round.0.to_le_bytes()], &mut drawn);
        let ([whether, which], _) = drawn.as_chunks::<8>() else { return None };
        let bucket = (u128::from(u64::from_le_bytes(*which)) * u128::from(buckets)) >> 64;
        // Below the number of buckets; favours none by more than one in 2^54.
        let bucket = u16::try_from(bucket).ok().filter(|_| buckets > 0)?;
        (u64::from_le_bytes(*whether) % of.max(1) == 0).then_some(bucket)
    }
}

impl fmt::Debug for AuditCoins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditCoins(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{AUDITED, AUDITED_WHEN_ASKED, AuditCoins};
    use crate::Round;

    #[test]
    fn every_bucket_is_drawn_and_one_round_in_so_many() {
        let coins = AuditCoins::new(&[1; 32]);
        let rounds = 40 * AUDITED;
        let drawn: Vec<(u64, u16)> = (0..rounds)
            .filter_map(|round| Some((round, coins.draw(Round(round), 24, AUDITED_WHEN_ASKED)?)))
            .collect();
        // 640 expected, a deviation of 24.
        assert!((520..760).contains(&drawn.len()), "{}", drawn.len());
        let buckets: BTreeSet<u16> = drawn.iter().map(|(_, bucket)| *bucket).collect();
        assert_eq!(buckets, (0..24).collect());
        let seldom: Vec<(u64, u16)> =
            (0..rounds).filter_map(|round| Some((round, coins.draw(Round(round), 24, AUDITED)?))).collect();
        // 40 expected, a deviation of 6.3.
        assert!((8..72).contains(&seldom.len()), "{}", seldom.len());
        assert!(seldom.iter().all(|seldom| drawn.contains(seldom)));
    }

    #[test]
    fn accounts_draw_apart_and_always_the_same() {
        let rounds = |seed| {
            let coins = AuditCoins::new(&[seed; 32]);
            (0..1000).map(|round| coins.draw(Round(round), 12, 8)).collect::<Vec<_>>()
        };
        assert_eq!(rounds(1), rounds(1));
        assert_ne!(rounds(1), rounds(2));
        assert_eq!(AuditCoins::new(&[1; 32]).draw(Round(1), 0, 1), None);
        assert_eq!(format!("{:?}", AuditCoins::new(&[1; 32])), "AuditCoins(..)");
    }
}
