//! What a server that lies tells, to whom, and when: data, from which a world follows exactly.

use core::ops::Range;

use sotto_wire::Refused;

/// A round far ahead of all others.
pub(crate) const FAR: u64 = 1 << 40;

/// Calls to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Register,
    Upload,
    Watch,
    Deposit,
    Mapping,
    Hint,
    Retrieve,
    RetrieveAgain,
    Unit,
    Manifests,
}

/// How a round that is built and signed for one person differs from everybody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// The same deposits under a seed that was chosen when they were known.
    OtherSeed,
    /// Deposits that nobody made stand among the others.
    MoreDeposits,
    /// What the others deposited is left out.
    OnlyTheirOwn,
    /// There is nothing in it.
    Empty,
    /// Every deposit of somebody else stands there twice, under one label.
    Twice,
    /// Every bucket's content stands in the next bucket.
    OtherBuckets,
    /// The order within every bucket is turned round.
    OtherPositions,
    /// Each label has the next label's box.
    SwappedBoxes,
    /// One box that somebody else deposited stands everywhere.
    OneBoxEverywhere,
    /// The filters show every label everywhere.
    AllOnes,
    /// The filters show no label anywhere.
    AllZeros,
    /// The filters show every other deposit only.
    SomeLabels,
    /// The mapping is the one with all ones, the manifest that of the honest one.
    OtherMapping,
    /// It has so many deposits and so large buckets, as far as the manifest goes.
    Counts(u64, u32),
    /// The engine arranges its databases in a way that there is not.
    Profile,
    /// The hint is not what is announced.
    Hint,
    /// The hint is announced, and not what the buckets have.
    WrongHint,
    /// The digest of the manifest before is another one.
    Chain,
}

/// How the bytes of a mapping or an answer are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A bit of every element is another one.
    Flip,
    /// The same in every other bucket only.
    FlipSome,
    Noise,
    Short,
    Long,
}

/// A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Calls of one kind are refused.
    Refuse(Call, Refused),
    /// Calls of one kind are answered so many milliseconds later.
    Delay(Call, u64),
    /// Calls of one kind are never answered.
    Withhold(Call),
    /// So many milliseconds pass before the server reads the next part of what is uploaded.
    SlowRead(u64),
    /// All of a mapping but its last byte comes at once, and that so many milliseconds later.
    LastByte(u64),
    Forge(Forgery),
    Answer(Change),
    Mapping(Change),
    /// The manifest's signature is broken.
    Unsigned,
    /// Opened rounds are announced again, with the one before.
    Again,
    /// A round far in the future is announced.
    Far,
    /// All rounds are announced as if that had been so many milliseconds ago.
    Elapsed(u32),
    /// As if it had been another time with every round.
    ElapsedAny,
    /// The next round is announced as open soon after a round is opened.
    EarlyOpen,
    /// A round is announced as ready as soon as it is opened, and again as another one when it is.
    ReadyFirst,
    /// Everything is announced so many milliseconds late, as if it had just happened.
    Late(u64),
    /// Every two rounds are announced as ready in the wrong order.
    WrongOrder,
    /// With every event all events before it are announced again.
    OldEvents,
    /// With every round's end, thousands of others are announced, most of them for rounds that are past.
    Flood,
    /// Rounds that are past are announced as ready once more, under new seeds.
    ReplaySeeds,
    /// Nothing is announced.
    Silence,
    /// Whoever begins to watch is told what the server is, and no more.
    Curt,
}

/// The people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Alice,
    Bob,
    Everybody,
}

/// A lie, the rounds in which it is told (counted from the world's first), and whom.
pub(crate) type Told = (Lie, Range<u64>, Who);

/// What the server makes of itself from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pretence {
    /// What it is.
    None,
    /// Another root key.
    Root,
    Retrieve,
    Buckets,
    Choices,
    Engine,
    ClosedLoop,
    ManyBuckets,
    /// Whoever registers is given a slot, also who has one.
    Slot,
}

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// All connections of somebody break.
    Cut(Who),
    /// The server loses everything but its keys, and begins with this round, counted from the world's first.
    Restart(u64),
    /// Whoever asks is told this.
    Pretend(Pretence),
    /// Alice's clock is wrong by so many milliseconds from now on.
    Clock(i64),
    /// Alice's program is stopped.
    Stop,
    /// It is started again, with what is on the disk.
    Start,
    /// It is started with what was on the disk when the world began.
    Restore,
}
