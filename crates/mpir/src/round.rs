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
    /// Public randomness under which queries are made, fixed before the deposits were known: of this round alone or, where queries
    /// stand for several rounds, of these.
    pub seed: [u8; 32],
    /// Public randomness of this round alone, which no depositor knew.
    pub whitening: [u8; 32],
    /// The round's number.
    pub round: u64,
    /// The form of its databases.
    pub form: Form,
    /// How the engine arranges them.
    pub profile: Profile,
}

impl RoundSpec {
    /// Whether what is asked of one is asked of the other, in the same bytes.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        let what = |spec: &Self| (spec.seed, spec.form, spec.profile);
        what(self) == what(other)
    }
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

    /// Which part concerns a unit: the unit's own, or the only one there is.
    #[must_use]
    pub const fn number(&self, unit: usize) -> usize {
        if self.count == 1 { 0 } else { unit }
    }

    /// Where the part lies that concerns a unit.
    #[must_use]
    pub const fn range(&self, unit: usize) -> Range<usize> {
        let first = self.number(unit).saturating_mul(self.each);
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

/// The units of work of a round, what the server answers, and anybody computes again, by itself: runs of buckets of one
/// length, of which the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    each: usize,
    buckets: usize,
}

impl Units {
    /// Units of `each` buckets out of `buckets`.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there are no buckets, in a unit or at all, or a unit is longer than all there are.
    pub const fn new(each: usize, buckets: usize) -> Result<Self, Error> {
        if each == 0 || each > buckets { Err(Error::Bucket) } else { Ok(Self { each, buckets }) }
    }

    /// Number of units, at least 1.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.buckets.div_ceil(self.each)
    }

    /// Number of buckets, at least as many.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.buckets
    }

    /// The buckets of a unit; none if there is no such unit.
    #[must_use]
    pub fn range(&self, unit: usize) -> Range<usize> {
        let end = |units: usize| units.saturating_mul(self.each).min(self.buckets);
        end(unit)..end(unit.saturating_add(1))
    }
}

/// How large everything is that is sent for a round, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Units of work.
    pub units: Units,
    /// The public keys of a client, for all rounds.
    pub keys: usize,
    /// A client's request.
    pub request: Parts,
    /// The answer to it: one part for each unit.
    pub answer: Parts,
    /// What the server publishes beside, for everybody: one part for each unit, of 0 bytes for most engines.
    pub hint: Parts,
}

impl Sizes {
    /// The parts of a hint, one for each unit.
    ///
    /// # Errors
    /// [`Error::Count`] if it is of another size.
    pub fn hints<'a>(&self, hint: &'a [u8]) -> Result<Vec<&'a [u8]>, Error> {
        (0..self.units.count()).map(|unit| self.hint.part("bytes of the hint", hint, unit)).collect()
    }
}

/// What a round's parameters promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assurance {
    /// Estimated security, bits; 0 for an engine without privacy.
    pub security_bits: u32,
    /// Upper bound on the probability that one correctly computed element is read wrongly, as a logarithm to base 2.
    pub failure_log2: f64,
}

#[cfg(test)]
mod tests {
    use super::{Parts, Units};

    #[test]
    fn every_bucket_is_in_one_unit() {
        for (each, buckets) in [(1, 1), (1, 12), (8, 12), (5, 5), (8, 24), (7, 1024)] {
            let units = Units::new(each, buckets).unwrap();
            let all: Vec<usize> = (0..units.count()).flat_map(|unit| units.range(unit)).collect();
            assert_eq!(all, (0..buckets).collect::<Vec<_>>());
            assert!((0..units.count()).all(|unit| (1..=each).contains(&units.range(unit).len())));
            assert!(units.range(units.count()).is_empty() && units.range(usize::MAX).is_empty());
        }
        for (each, buckets) in [(0, 1), (1, 0), (0, 0), (2, 1)] {
            assert!(Units::new(each, buckets).is_err());
        }
    }

    #[test]
    fn a_part_that_concerns_all_units_is_everybodys() {
        let (own, shared) = (Parts::new(2, 3).unwrap(), Parts::new(4, 1).unwrap());
        assert_eq!((own.bytes(), shared.bytes()), (6, 4));
        assert_eq!(own.part("p", b"aabbcc", 2), Ok(&b"cc"[..]));
        assert_eq!(shared.part("p", b"aabb", 2), Ok(&b"aabb"[..]));
        assert!(own.part("p", b"aabbcc", 3).is_err() && own.part("p", b"aabbccd", 0).is_err());
        assert!(Parts::new(usize::MAX, 2).is_err());
    }
}
