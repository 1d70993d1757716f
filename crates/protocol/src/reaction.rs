//! When what a client has read may change what it says.
//!
//! A contact who works with the server can make one retrieval fail, and watch for the difference. So what a client says
//! in a *block* of rounds follows from what it had read when the block began: the results of all rounds of a block show
//! together, as one acknowledgement, on a schedule that everybody knows.

use crate::Round;

/// Rounds of a block.
pub(crate) const REACTION_ROUNDS: u64 = 8;

/// The block of a round.
pub(crate) const fn block(round: Round) -> u64 {
    round.0 / REACTION_ROUNDS
}
