//! The secret half of the seeds of rounds, see [`crate::manifest::seed`].

use core::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::manifest::seed::{SEGMENT_ROUNDS, SeedCommitment, SeedTree, SegmentEnd, step};
use crate::{Error, Round};

const DOMAIN: &[u8] = b"sotto/seed/v2/last\0";

/// The seeds of one segment's rounds, ascending; the last follows from a secret and everything else from that.
#[must_use]
pub fn seeds_of(secret: &[u8; 32], first: Round, segment: u32) -> Zeroizing<Vec<[u8; 32]>> {
    // As long as it will be, so that no part of it stays behind in memory that was given back.
    let mut seeds = Zeroizing::new(vec![[0; 32]; SEGMENT_ROUNDS as usize]);
    let mut seed = last(secret, first, segment);
    for place in seeds.iter_mut().rev() {
        *place = *seed;
        *seed = step(&seed);
    }
    seeds
}

/// The end of a segment.
#[must_use]
pub fn segment_end(secret: &[u8; 32], first: Round, segment: u32) -> [u8; 32] {
    let mut seed = last(secret, first, segment);
    for _ in 0..SEGMENT_ROUNDS {
        *seed = step(&seed);
    }
    *seed
}

/// The seed of a segment's last round.
fn last(secret: &[u8; 32], first: Round, segment: u32) -> Zeroizing<[u8; 32]> {
    let mut seed = Zeroizing::new([0; 32]);
    let info = [DOMAIN, &first.0.to_le_bytes(), &segment.to_le_bytes()];
    Hkdf::<Sha256>::from_prk(secret)
        .and_then(|secret| {
            secret.expand_multi_info(&info, seed.as_mut_slice()).map_err(|_| hkdf::InvalidPrkLength)
        })
        .expect("a secret of 32 bytes is a key, and 32 bytes are not too many");
    seed
}

/// The seeds of a server's rounds.
pub struct SeedChain {
    secret: Zeroizing<[u8; 32]>,
    first: Round,
    tree: SeedTree,
    /// The segment whose seeds were asked for last.
    cached: Option<(u32, Zeroizing<Vec<[u8; 32]>>)>,
}

impl SeedChain {
    /// Those that follow from a secret; `ends` has what [`segment_end`] gives for every segment.
    ///
    /// # Errors
    /// As for [`SeedTree::new`].
    pub fn new(secret: Zeroizing<[u8; 32]>, first: Round, ends: Vec<[u8; 32]>) -> Result<Self, Error> {
        Ok(Self { secret, first, tree: SeedTree::new(ends)?, cached: None })
    }

    /// What is to be signed.
    #[must_use]
    pub fn commitment(&self) -> SeedCommitment {
        self.tree.commitment(self.first)
    }

    /// The seed of a round, which nobody else may know before its deposits are fixed; `None` if it has none.
    pub fn seed(&mut self, round: Round) -> Option<[u8; 32]> {
        let (segment, place) = self.commitment().place(round)?;
        if self.cached.as_ref().is_none_or(|(cached, _)| *cached != segment) {
            self.cached = Some((segment, seeds_of(&self.secret, self.first, segment)));
        }
        self.cached.as_ref()?.1.get(usize::try_from(place).ok()?).copied()
    }

    /// The tree over the ends of the segments, which everybody may know.
    #[must_use]
    pub fn tree(&self) -> &SeedTree {
        &self.tree
    }

    /// By what the seed of a round is known to be the one that was fixed.
    #[must_use]
    pub fn segment(&self, round: Round) -> Option<SegmentEnd> {
        self.tree.segment(self.commitment().place(round)?.0)
    }
}

// Whoever knows the secret knows where every future deposit will stand.
impl fmt::Debug for SeedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedChain").field("first", &self.first).finish_non_exhaustive()
    }
}
