//! The secret half of the seeds of rounds, see [`crate::manifest::seed`].

use core::fmt;
use std::sync::Arc;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::error::Malformed;
use crate::manifest::seed::{SEGMENT_ROUNDS, SeedTree, step};
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
    tree: Arc<SeedTree>,
    /// The segment whose seeds were asked for last.
    cached: Option<(u32, Zeroizing<Vec<[u8; 32]>>)>,
}

impl SeedChain {
    /// Those that follow from a secret; `tree` is over what [`segment_end`] gives for every segment.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the tree is of another secret.
    pub fn new(secret: Zeroizing<[u8; 32]>, tree: SeedTree) -> Result<Self, Error> {
        // All ends were made together: one tells.
        if tree.ends().first() != Some(&segment_end(&secret, tree.commitment().first, 0)) {
            return Err(Error::Malformed(Malformed::SeedSecret));
        }
        Ok(Self { secret, tree: Arc::new(tree), cached: None })
    }

    /// The seed of a round, which nobody else may know before its deposits are fixed; `None` if it has none.
    pub fn seed(&mut self, round: Round) -> Option<[u8; 32]> {
        let commitment = self.tree.commitment();
        let (segment, place) = commitment.place(round)?;
        if self.cached.as_ref().is_none_or(|(cached, _)| *cached != segment) {
            self.cached = Some((segment, seeds_of(&self.secret, commitment.first, segment)));
        }
        self.cached.as_ref()?.1.get(usize::try_from(place).ok()?).copied()
    }

    /// The tree over the ends of the segments, which everybody may know.
    #[must_use]
    pub fn tree(&self) -> &Arc<SeedTree> {
        &self.tree
    }
}

// Whoever knows the secret knows where every future deposit will stand.
impl fmt::Debug for SeedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedChain").field("commitment", &self.tree.commitment()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{SeedChain, seeds_of, segment_end};
    use crate::Round;
    use crate::manifest::seed::{SEGMENT_ROUNDS, SeedTree};

    /// A round under a seed of another segment is refused by everybody.
    #[test]
    fn each_segment_has_seeds_of_its_own_in_whatever_order_they_are_asked_for() {
        let (secret, first) = ([9; 32], Round(100));
        let ends = [0, 1].map(|segment| segment_end(&secret, first, segment));
        let tree = SeedTree::new(first, ends.to_vec()).unwrap();
        let mut chain = SeedChain::new(secret.into(), tree).unwrap();
        let seeds = [0, 1].map(|segment| seeds_of(&secret, first, segment));
        let last = SEGMENT_ROUNDS as usize - 1;
        for (segment, place) in [(0, 0), (1, 0), (1, last), (0, last), (0, 5), (1, 5)] {
            let round = Round(100 + segment as u64 * SEGMENT_ROUNDS + place as u64);
            assert_eq!(chain.seed(round), Some(seeds[segment][place]), "{segment}, {place}");
        }
        assert_eq!([99, 100 + 2 * SEGMENT_ROUNDS].map(|round| chain.seed(Round(round))), [None; 2]);
    }
}
