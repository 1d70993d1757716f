//! The lies, and to whom they are told when.

use std::ops::Range;

use sotto_protocol::Round;
use sotto_wire::Refused;

use crate::forgery::Forgery;

/// The round a liar's far announcement names.
pub(crate) const FAR: Round = Round(1 << 40);

/// An account's public key.
pub(crate) type Account = [u8; 32];

/// A kind of call that belongs to a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Deposit,
    Mapping,
    Retrieve,
    Manifests,
}

/// A lie, which `malicious.rs` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// None: an honest relay.
    Honest,
    /// One byte in the middle of every answer is flipped.
    CorruptElement,
    /// All answers are cut short.
    ShortAnswer,
    /// All answers are noise of the right size.
    NoiseAnswer,
    /// The mapping is noise of the right size.
    NoiseMapping,
    /// The mapping is cut short.
    ShortMapping,
    /// The manifest's signature is broken.
    UnsignedManifest,
    /// Another round seed than the one the database was built with, well signed.
    WrongSeed,
    /// Another number of entries and another bucket size, well signed.
    WrongCounts,
    /// Counts that contradict each other, well signed.
    ImpossibleCounts,
    /// A previous manifest's digest that is not the last one's, well signed.
    ForkedChain,
    /// Opened rounds are announced again and again.
    ReplayedRound,
    /// A round far in the future is announced.
    FarRound,
    /// All rounds, opened and ready, are announced as if that had been long ago.
    LongAgo,
    /// Retrieval is refused.
    RefusedRetrieval,
    /// Deposits are refused.
    RefusedDeposit,
    /// Calls of one kind are refused for this reason.
    Refuse(Call, Refused),
    /// Calls of one kind are not answered for so many milliseconds, and then as they should be.
    Delay(Call, u64),
    /// The round is built and signed anew, in another way.
    Forge(Forgery),
    /// A round is announced as ready as soon as it is opened, and again as another one when it is.
    ReadyFirst,
    /// The next round is announced as open soon after a round is opened.
    EarlyOpen,
    /// Everything is announced late, as if it had just happened.
    LateNews,
    /// Every two rounds are announced as ready in the wrong order.
    WrongOrder,
    /// How long ago something happened is told at random.
    Elapsed,
    /// With every event all events before it are announced again.
    OldEvents,
    /// With every round's end, thousands of others are announced, most of them for rounds that are past.
    Flood,
    /// Rounds that are past are announced as ready once more, under new seeds.
    ReplaySeeds,
}

/// What is told to whom in which rounds.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) lie: Lie,
    pub(crate) rounds: Range<u64>,
    /// Whom the lie is told; `None` for everybody.
    pub(crate) target: Option<Account>,
}
