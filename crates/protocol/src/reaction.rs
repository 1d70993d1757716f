//! When a client answers to what it has read: what it says in a block of rounds follows only from what it had read before
//! that block, so that no single round's retrieval shows in the next deposit.

use crate::Round;

/// Rounds in a block.
pub(crate) const REACTION_ROUNDS: u64 = 8;

/// The block of a round.
pub(crate) fn block(round: Round) -> u64 {
    round.0 / REACTION_ROUNDS
}
