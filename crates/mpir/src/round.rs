//! What a round is to an engine: its specification, and how large everything is that is sent.

use core::ops::Range;

use crate::Error;

/// The arrangement of an engine's databases as the server announces it: bytes that only the engine understands, zeros
/// behind them.
///
/// It is announced, and checked by the client ([`crate::Engine::assurance`]), so that a server may choose another one
/// without a change of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Profile(pub [u8; Profile::BYTES]);

impl Profile {
    /// Bytes of a profile.
    pub const BYTES: usize = 16;
}

/// How a round's databases look before an engine is chosen for them: `b` buckets, padded to one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Number of buckets.
    pub buckets: usize,
    /// Elements of each bucket.
    pub elements: usize,
    /// Bytes of each element.
    pub element_bytes: usize,
}

/// Everything that both ends agree on before anything is asked of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSpec {
    /// Public randomness of this round alone, fixed before the deposits were known.
    pub seed: [u8; 32],
    /// The round's number.
    pub round: u64,
    /// The form of its databases.
    pub form: Form,
    /// How the engine arranges them.
    pub profile: Profile,
}

/// Something that is sent, in parts of one size: one for every unit of work, or a single one that concerns all units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    each: usize,
    count: usize,
}

impl Parts {
    /// So many parts of so many bytes.
    ///
    /// # Errors
    /// [`Error::Size`] if they are more bytes than there can be.
    pub fn new(each: usize, count: usize) -> Result<Self, Error> {
        each.checked_mul(count).ok_or(Error::Size)?;
        Ok(Self { each, count })
    }

    /// All bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        // Checked when it was made.
        self.each * self.count
    }

    /// Where the part lies that concerns a unit.
    #[must_use]
    pub const fn range(&self, unit: usize) -> Range<usize> {
        let first = if self.count == 1 { 0 } else { unit.saturating_mul(self.each) };
        first..first.saturating_add(self.each)
    }

    /// The part of `bytes` that concerns a unit.
    ///
    /// # Errors
    /// [`Error::Count`] if there is none, or the bytes are not as many as all parts have.
    pub fn part<'a>(&self, what: &'static str, bytes: &'a [u8], unit: usize) -> Result<&'a [u8], Error> {
        let part = if bytes.len() == self.bytes() { bytes.get(self.range(unit)) } else { None };
        part.ok_or(Error::Count { what, expected: self.bytes(), actual: bytes.len() })
    }
}

/// How large everything is that is sent for a round, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Units of work: what the server answers, and anybody computes again, by itself.
    pub units: usize,
    /// The public keys of a client, for all rounds.
    pub keys: usize,
    /// A client's request.
    pub request: Parts,
    /// The answer to it: one part for each unit.
    pub answer: Parts,
    /// What the server publishes beside, for everybody.
    pub hint: usize,
}

/// What a round's parameters promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assurance {
    /// Estimated security, bits; 0 for an engine without privacy.
    pub security_bits: u32,
    /// Upper bound on the probability that one correctly computed element is read wrongly, as a logarithm to base 2.
    pub failure_log2: f64,
}
