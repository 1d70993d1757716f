//! The batch code of a round: which one, with what dimensions.

use pbc::{CuckooCode, HashedCode, HybridCode, PartitionedCode, ReplicationCode};
use serde::{Deserialize, Serialize};

use crate::Round;
use crate::error::ShapeError;
use crate::reaction::REACTION_ROUNDS;

/// Which batch code the rounds of a server have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodeKind {
    /// w-way cuckoo hashing.
    #[default]
    Cuckoo,
    /// Pung's hybrid of two-choice hashing and the subcube code. Only to compare with: it costs server and network
    /// several times what cuckoo hashing does.
    Hybrid,
    /// None: k queries of one database of all elements. The only one for k = 1; otherwise only to compare with.
    Single,
    /// w-way cuckoo hashing of places in a table, which clients compute: boxes are found by slots and not by labels, and
    /// there is no mapping.
    Partitioned,
    /// The same, with places that stay, and queries that stand, for [`STANDING_ROUNDS`] rounds: an *epoch*.
    Standing,
}

/// Rounds of an epoch in which queries stand: those whose numbers, divided by this, have one quotient.
///
/// They are those of a block, so that what a client says changes where the places change.
pub const STANDING_ROUNDS: u64 = REACTION_ROUNDS;

impl CodeKind {
    /// The byte that stands for it.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Cuckoo => 0,
            Self::Hybrid => 1,
            Self::Single => 2,
            Self::Partitioned => 3,
            Self::Standing => 4,
        }
    }

    /// What a byte stands for.
    #[must_use]
    pub const fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Cuckoo),
            1 => Some(Self::Hybrid),
            2 => Some(Self::Single),
            3 => Some(Self::Partitioned),
            4 => Some(Self::Standing),
            _ => None,
        }
    }

    /// Whether boxes are found by slots.
    #[must_use]
    pub const fn has_slots(self) -> bool {
        matches!(self, Self::Partitioned | Self::Standing)
    }

    /// Rounds for which places stay and queries stand.
    #[must_use]
    pub const fn epoch_rounds(self) -> u64 {
        if matches!(self, Self::Standing) { STANDING_ROUNDS } else { 1 }
    }

    /// The first round of the epoch of a round: that round itself, unless queries stand.
    #[must_use]
    pub const fn epoch(self, round: Round) -> Round {
        Round(round.0 - round.0 % self.epoch_rounds())
    }
}

/// A batch code with its dimensions; everything of a round is sized by them and the size of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeShape {
    /// Which code.
    pub kind: CodeKind,
    /// Messages a client retrieves (k).
    pub retrieve: u16,
    /// Buckets, each of which gets one query (b).
    pub buckets: u16,
    /// Copies of every element (w).
    pub choices: u8,
}

/// Most messages that a client may retrieve.
pub const RETRIEVE_MAX: u16 = 256;
/// Most buckets.
pub const BUCKETS_MAX: u16 = 1024;

/// Buckets of one cube of the hybrid code, and those of them that hold copies.
const CUBE_BUCKETS: u16 = 9;
const CUBE_COPYING: u16 = 4;

impl CodeShape {
    /// Whether there is such a code within the bounds that hold for all servers.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), ShapeError> {
        let Self { kind, retrieve, buckets, choices } = *self;
        if retrieve == 0 || retrieve > RETRIEVE_MAX {
            return Err(ShapeError::Retrieve);
        }
        if buckets < retrieve || buckets > BUCKETS_MAX {
            return Err(ShapeError::Buckets);
        }
        if choices == 0 || usize::from(choices) > pbc::MAX_CHOICES || u16::from(choices) > buckets {
            return Err(ShapeError::Choices);
        }
        match kind {
            CodeKind::Single if buckets != retrieve || choices != 1 => Err(ShapeError::Single),
            CodeKind::Cuckoo | CodeKind::Hybrid if retrieve == 1 => Err(ShapeError::OneMessage),
            CodeKind::Hybrid
                if choices != 2 || !buckets.is_multiple_of(CUBE_BUCKETS) || buckets == CUBE_BUCKETS =>
            {
                Err(ShapeError::Hybrid)
            }
            CodeKind::Partitioned | CodeKind::Standing if !buckets.is_multiple_of(choices.into()) => {
                Err(ShapeError::Groups)
            }
            _ => Ok(()),
        }
    }

    /// The number of different contents that hold copies of elements, not sums of them: what a mapping describes.
    #[must_use]
    pub const fn copying(&self) -> u16 {
        match self.kind {
            CodeKind::Cuckoo | CodeKind::Partitioned | CodeKind::Standing => self.buckets,
            CodeKind::Hybrid => self.buckets / CUBE_BUCKETS * CUBE_COPYING,
            CodeKind::Single => 1,
        }
    }

    /// The code of a seed, by which boxes are found under labels.
    ///
    /// # Errors
    /// If there is none, which [`CodeShape::check`] excludes but with slots.
    pub fn code(&self, seed: [u8; 32]) -> Result<Box<dyn HashedCode>, pbc::Error> {
        let (k, b, w) = (self.retrieve.into(), usize::from(self.buckets), self.choices.into());
        Ok(match self.kind {
            CodeKind::Cuckoo => Box::new(CuckooCode::new(k, b, w, seed)?),
            CodeKind::Hybrid => Box::new(HybridCode::new(k, b / usize::from(CUBE_BUCKETS), seed)?),
            CodeKind::Single => Box::new(ReplicationCode::new(k, seed)?),
            CodeKind::Partitioned | CodeKind::Standing => {
                return Err(pbc::Error::Parameters("boxes are found by slots"));
            }
        })
    }

    /// The code of a seed, by which boxes are found in a table of so many places.
    ///
    /// # Errors
    /// If there is none: but with slots, of a shape that [`CodeShape::check`] passes.
    pub fn slot_code(&self, seed: [u8; 32], places: usize) -> Result<PartitionedCode, pbc::Error> {
        if !self.kind.has_slots() {
            return Err(pbc::Error::Parameters("boxes are found by labels"));
        }
        PartitionedCode::new(self.retrieve.into(), self.buckets.into(), self.choices.into(), places, seed)
    }
}

#[cfg(test)]
mod tests {
    use pbc::BatchCode as _;

    use super::{CodeKind, CodeShape};
    use crate::Round;
    use crate::reaction::block;

    const KINDS: [CodeKind; 5] =
        [CodeKind::Cuckoo, CodeKind::Hybrid, CodeKind::Single, CodeKind::Partitioned, CodeKind::Standing];

    /// A shape that passes sizes buffers and calls: it must be exactly that of the code.
    #[test]
    fn every_shape_that_passes_is_that_of_its_code() {
        let mut passed = [0; 5];
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(CodeKind::of_byte(kind.byte()), Some(kind));
            for retrieve in [0, 1, 2, 3, 8, 9, 16, 256, 257] {
                for buckets in [0, 1, 2, 3, 8, 9, 16, 17, 18, 27, 28, 144, 256, 1017, 1024, 1026] {
                    for choices in [0, 1, 2, 3, 8, 9] {
                        let shape = CodeShape { kind, retrieve, buckets, choices };
                        if shape.check().is_err() {
                            continue;
                        }
                        passed[number] += 1;
                        assert!(retrieve <= buckets && buckets <= 1024 && choices <= 8);
                        if kind.has_slots() {
                            let code = shape.slot_code([1; 32], 99).unwrap();
                            assert_eq!(code.batch_size(), usize::from(retrieve));
                            assert_eq!(code.bucket_count(), usize::from(buckets));
                            assert_eq!(code.places(98).as_slice().len(), usize::from(choices));
                            assert_eq!(code.elements(), 99);
                            assert!(shape.code([1; 32]).is_err());
                            continue;
                        }
                        let code = shape.code([1; 32]).unwrap();
                        assert_eq!(code.batch_size(), usize::from(retrieve));
                        assert_eq!(code.bucket_count(), usize::from(buckets));
                        assert_eq!(code.holders(b"key").len(), usize::from(choices));
                        assert_eq!(code.copying().len(), usize::from(shape.copying()));
                        assert!(retrieve > 1 || kind == CodeKind::Single);
                        assert!(shape.slot_code([1; 32], 99).is_err());
                    }
                }
            }
        }
        assert_eq!(passed[2], 7, "one shape for each k");
        // With 2, 3, 8, 9, 16 and 256 messages in as many buckets or more, and up to eight copies in as many.
        assert_eq!(passed[0], 49 + 47 + 44 + 40 + 36 + 12);
        assert!(passed[1] > 10 && passed[3] > 100, "{passed:?}");
        assert_eq!(passed[3], passed[4], "that queries stand changes no shape");
        assert_eq!(CodeKind::of_byte(5), None);
    }

    /// An epoch that began within a block of reactions would show what was read in the middle of it.
    #[test]
    fn an_epoch_is_a_block_of_reactions() {
        for round in [0, 1, 7, 8, 9, 1_000, 1_007, u64::MAX] {
            for kind in KINDS {
                let (epoch, rounds) = (kind.epoch(Round(round)), kind.epoch_rounds());
                assert!(epoch.0 <= round && round - epoch.0 < rounds && epoch.0.is_multiple_of(rounds));
                assert_eq!(rounds, if kind == CodeKind::Standing { 8 } else { 1 });
            }
            let epoch = CodeKind::Standing.epoch(Round(round));
            assert_eq!(block(epoch), block(Round(round)));
            assert!(epoch.0 == 0 || block(Round(epoch.0 - 1)) != block(epoch));
        }
    }
}
