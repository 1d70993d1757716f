//! Every domain string of the client side, in one place, so that no two uses of a key can be mistaken for each other.
//!
//! A key derivation takes `domain | 0x00 | fields`, and the fields behind one domain always have the same sizes.

/// From the chain key of a round to that of the next.
pub(crate) const CHAIN_STEP: &str = "sotto v1 chain step";
/// From the chain key of a round to the key that serves this round only.
pub(crate) const ROUND_KEY: &str = "sotto v1 round key";
/// From a round key and a message number to the label.
pub(crate) const MESSAGE_LABEL: &str = "sotto v1 message label";
/// From a round key and a message number to the key of the box.
pub(crate) const MESSAGE_KEY: &str = "sotto v1 message key";
/// What an acknowledgement says of the message it names.
pub(crate) const MESSAGE_CHECK: &str = "sotto v1 message check";
/// Associated data of every box.
pub(crate) const BOX: &str = "sotto v1 box";
/// What two people compare of their identities.
pub(crate) const VERIFICATION: &str = "sotto v1 verification";
/// From an invitation's secret to the mark by which its holder knows it again.
pub(crate) const INVITATION_MARK: &str = "sotto v1 invitation mark";
/// From an invitation's secret to the chain of requests.
pub(crate) const REQUEST_CHAIN: &str = "sotto v1 request chain";
/// From an invitation's secret to what the inviter keeps of it until a request has come.
pub(crate) const HANDSHAKE_BASE: &str = "sotto v1 handshake base";
/// From that and the X25519 secret to the secret of a handshake.
pub(crate) const HANDSHAKE_SECRET: &str = "sotto v1 handshake secret";
/// From the secret of a handshake to the key that seals the identity in a request.
pub(crate) const REQUEST_KEY: &str = "sotto v1 request key";
/// What both sign in their hellos.
pub(crate) const HANDSHAKE_SIGNATURE: &str = "sotto v1 handshake signature";
/// From the secret of a handshake to the root of a conversation of two.
pub(crate) const PAIR_ROOT: &str = "sotto v1 pair root";
/// From that root to its two chains.
pub(crate) const PAIR_CHAIN: &str = "sotto v1 pair chain";
/// From a side's share of a renewal and new randomness to the share of the next round.
pub(crate) const RENEWAL_SHARE: &str = "sotto v1 renewal share";
/// From a share to the seed of its key pair of ML-KEM-768.
pub(crate) const RENEWAL_KEY: &str = "sotto v1 renewal key";
/// From the same to the randomness of an encapsulation.
pub(crate) const RENEWAL_RANDOMNESS: &str = "sotto v1 renewal randomness";
/// From the same to its X25519 secret.
pub(crate) const RENEWAL_EXCHANGE: &str = "sotto v1 renewal exchange";
/// From the secrets of ML-KEM-768 and X25519 to the secret of a renewal.
pub(crate) const RENEWAL_SECRET: &str = "sotto v1 renewal secret";
/// From that to the root of the new keys.
pub(crate) const RENEWED_ROOT: &str = "sotto v1 renewed root";
/// From a group's secret to a member's chain.
pub(crate) const GROUP_CHAIN: &str = "sotto v1 group chain";
/// From a group's secret to what is kept of it for the next epoch.
pub(crate) const GROUP_BASE: &str = "sotto v1 group base";
/// From that and a fresh secret to the secret of the next epoch.
pub(crate) const GROUP_REKEY: &str = "sotto v1 group rekey";
/// From a group's secret to the mark by which members compare what they were given.
pub(crate) const GROUP_MARK: &str = "sotto v1 group mark";
/// What a member signs.
pub(crate) const GROUP_SIGNATURE: &str = "sotto v1 group signature";
/// What a member signs who leaves.
pub(crate) const GROUP_FAREWELL: &str = "sotto v1 group farewell";
/// Checksum of an invitation or a group card.
pub(crate) const STRING_CHECKSUM: &str = "sotto v1 string checksum";
/// From the cycle secret and the number of a cycle to the order of its places.
pub(crate) const SEND_CYCLE: &str = "sotto v1 send cycle";
/// The same for polling.
pub(crate) const POLL_CYCLE: &str = "sotto v1 poll cycle";
/// From a client's store of randomness to a fresh secret, and to the rest of the store.
pub(crate) const FRESH: &str = "sotto v1 fresh secret";
/// From an account's seed to the coins by which it draws what it checks.
pub(crate) const AUDIT_COINS: &str = "sotto v1 audit coins";
/// From an account and a round to when in the round the account's calls leave.
pub(crate) const SLOT: &str = "sotto v1 slot";
/// Checksum of the stored state.
pub(crate) const STATE_CHECKSUM: &str = "sotto v1 client state";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Two uses under one string would let a key of one stand in for a key of the other.
    #[test]
    fn domains_are_distinct_and_free_of_zeros() {
        let lines = include_str!("domain.rs").lines().filter(|line| line.starts_with("pub(crate) const"));
        let all = lines.filter_map(|line| line.split_once("&str = "));
        let strings: Vec<&str> = all.map(|(_, string)| string.trim_matches([';', '"'])).collect();
        let distinct: BTreeSet<&str> = strings.iter().copied().collect();
        assert_eq!((strings.len(), distinct.len()), (34, 34));
        assert!(strings.iter().all(|string| string.starts_with("sotto v1 ") && !string.contains('\0')));
    }
}
