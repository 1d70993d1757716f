//! When a client may react: what it says follows in one block of rounds only from what it had read before the block
//! began.
//!
//! What a client reads depends on which boxes it could fetch in a round, and that may depend on its other conversations.
//! Were it to react at once, a contact would see of every round whether something was read in it; so a contact sees one
//! reaction to a whole block. Listening may change at once, since it does not show.

use crate::Round;

/// Rounds in a block.
pub(crate) const REACTION_ROUNDS: u64 = 8;

/// The block that a round belongs to.
pub(crate) fn block(round: Round) -> u64 {
    round.0 / REACTION_ROUNDS
}

#[cfg(test)]
mod tests {
    use super::{REACTION_ROUNDS, block};
    use crate::Round;

    #[test]
    fn blocks_begin_at_multiples_of_their_length() {
        assert_eq!(block(Round(0)), block(Round(REACTION_ROUNDS - 1)));
        assert_eq!(block(Round(REACTION_ROUNDS)), 1);
    }
}
