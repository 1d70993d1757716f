//! Seeds of rounds that were fixed before anybody deposited anything.
//!
//! The rounds of a server are cut into segments of [`SEGMENT_ROUNDS`]. The seeds of a segment are a hash chain that is
//! walked backwards: the seed of a round is the hash of the next round's, and the *end* of the segment is the hash of its
//! first round's. The ends are the leaves of a hash tree whose root the cluster's root key has signed with the server's
//! parameters. So a server cannot choose a seed after it has seen deposits, and whoever has an end with its path checks any
//! seed of the segment with at most 4,096 hashes, without having seen any other.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Malformed, ManifestError, NegotiationError};
use crate::{Error, Round};

/// Rounds of a segment.
pub const SEGMENT_ROUNDS: u64 = 4096;
/// Most segments of a server's seeds: at 2 s a round, 272 years.
pub const SEGMENTS_MAX: u32 = 1 << 20;
/// Most hashes on the way from a segment's end to the root.
pub const PATH_MAX: usize = 20;
const HASH_BYTES: usize = 32;

const STEP_DOMAIN: &[u8] = b"sotto/seed/v2/step\0";
const LEAF_DOMAIN: &[u8] = b"sotto/seed/v2/segment\0";
const NODE_DOMAIN: &[u8] = b"sotto/seed/v2/node\0";
const UNLIKE: Error = Error::Manifest(ManifestError::OtherSeed);

/// What the cluster's root has signed of the seeds: which rounds there are seeds for, and the root of the tree over the
/// ends of their segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedCommitment {
    /// The first round with a seed.
    pub first: Round,
    /// Segments, 1 to [`SEGMENTS_MAX`].
    pub segments: u32,
    /// Root of the tree.
    pub root: [u8; 32],
}

/// The end of one segment and its path in the tree: the hash beside it, the one beside the hash of both, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEnd {
    /// The hash of the first round's seed.
    pub end: [u8; 32],
    /// The path, from the leaves up.
    pub path: Vec<[u8; 32]>,
}

impl SeedCommitment {
    /// Whether its numbers are possible ones.
    ///
    /// # Errors
    /// [`Error::Negotiation`].
    pub fn check(&self) -> Result<(), Error> {
        let there = (1..=SEGMENTS_MAX).contains(&self.segments);
        if there && self.first.0.checked_add(self.rounds()).is_some() {
            Ok(())
        } else {
            Err(Error::Negotiation(NegotiationError::NoSeeds))
        }
    }

    /// The first round without a seed.
    #[must_use]
    pub const fn end(&self) -> Round {
        Round(self.first.0.saturating_add(self.rounds()))
    }

    /// The segment of a round, and its place there; `None` if there is no seed for it.
    #[must_use]
    pub fn place(&self, round: Round) -> Option<(u32, u64)> {
        let number = round.0.checked_sub(self.first.0).filter(|number| *number < self.rounds())?;
        Some((u32::try_from(number / SEGMENT_ROUNDS).ok()?, number % SEGMENT_ROUNDS))
    }

    /// Whether this is the seed that was fixed for a round, by the end of its segment. At most 4,117 hashes.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it is not, or nothing shows that it is.
    pub fn verify(&self, round: Round, seed: &[u8; 32], segment: &SegmentEnd) -> Result<(), Error> {
        let (number, place) = self.place(round).ok_or(Error::Manifest(ManifestError::NoSeed))?;
        if segment.path.len() != depth(self.segments) {
            return Err(UNLIKE);
        }
        let end = (0..=place).fold(*seed, |seed, _| step(&seed));
        let climb = |(at, below): (u32, [u8; 32]), beside: &[u8; 32]| {
            let above = if at.is_multiple_of(2) { node(&below, beside) } else { node(beside, &below) };
            (at / 2, above)
        };
        let (_, root) = segment.path.iter().fold((number, leaf(number, &segment.end)), climb);
        if end == segment.end && root == self.root { Ok(()) } else { Err(UNLIKE) }
    }

    const fn rounds(&self) -> u64 {
        self.segments as u64 * SEGMENT_ROUNDS
    }
}

impl SegmentEnd {
    /// The end, then the path.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [self.end.as_slice(), self.path.as_flattened()].concat()
    }

    /// Reads what [`SegmentEnd::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] for any other size.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
        match hashes.split_first() {
            Some((end, path)) if rest.is_empty() && path.len() <= PATH_MAX => {
                Ok(Self { end: *end, path: path.to_vec() })
            }
            _ => Err(Error::Malformed(Malformed::SegmentEnd)),
        }
    }
}

/// The tree over the ends of all segments.
#[derive(Clone, Debug)]
pub struct SeedTree {
    first: Round,
    ends: Vec<[u8; 32]>,
    /// From the leaves up; each as long as half of the one below, rounded up. What is not there counts as zeros.
    levels: Vec<Vec<[u8; 32]>>,
}

impl SeedTree {
    /// The tree over the ends of segments of which the first begins with the round `first`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for none, or more than [`SEGMENTS_MAX`].
    pub fn new(first: Round, ends: Vec<[u8; 32]>) -> Result<Self, Error> {
        let segments = u32::try_from(ends.len()).ok().filter(|number| (1..=SEGMENTS_MAX).contains(number));
        let segments = segments.ok_or(Error::Malformed(Malformed::SegmentEnds))?;
        let mut level: Vec<[u8; 32]> = (0..).zip(&ends).map(|(number, end)| leaf(number, end)).collect();
        let mut levels = Vec::with_capacity(depth(segments) + 1);
        while level.len() > 1 {
            let pair = |pair: &[[u8; 32]]| match pair {
                [one, other] => node(one, other),
                [one, ..] => node(one, &MISSING),
                [] => MISSING,
            };
            let above = level.chunks(2).map(pair).collect();
            levels.push(core::mem::replace(&mut level, above));
        }
        levels.push(level);
        Ok(Self { first, ends, levels })
    }

    /// The ends of the segments.
    #[must_use]
    pub fn ends(&self) -> &[[u8; 32]] {
        &self.ends
    }

    /// What is signed.
    #[must_use]
    pub fn commitment(&self) -> SeedCommitment {
        let root = self.levels.last().and_then(|level| level.first()).copied().unwrap_or(MISSING);
        let segments = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        SeedCommitment { first: self.first, segments, root }
    }

    /// By what the seed of a round is known to be the one that was fixed; `None` if it has none.
    #[must_use]
    pub fn of(&self, round: Round) -> Option<SegmentEnd> {
        self.segment(self.commitment().place(round)?.0)
    }

    /// The end of a segment with its path; `None` if there is no such segment.
    #[must_use]
    pub fn segment(&self, number: u32) -> Option<SegmentEnd> {
        let end = *self.ends.get(usize::try_from(number).ok()?)?;
        let below = self.levels.split_last().map_or(&[][..], |(_, below)| below);
        let beside = |(height, level): (u32, &Vec<[u8; 32]>)| {
            let at = usize::try_from((number >> height) ^ 1).ok();
            at.and_then(|at| level.get(at)).copied().unwrap_or(MISSING)
        };
        Some(SegmentEnd { end, path: (0..).zip(below).map(beside).collect() })
    }
}

/// What stands beside the last where there is nothing.
const MISSING: [u8; 32] = [0; 32];

/// The seed of the round before the one with this seed; of the first round of a segment, the segment's end.
#[must_use]
pub fn step(seed: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(STEP_DOMAIN).chain_update(seed).finalize().into()
}

fn leaf(number: u32, end: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(LEAF_DOMAIN)
        .chain_update(number.to_le_bytes())
        .chain_update(end)
        .finalize()
        .into()
}

fn node(one: &[u8; 32], other: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(NODE_DOMAIN).chain_update(one).chain_update(other).finalize().into()
}

/// Hashes between a leaf and the root.
const fn depth(segments: u32) -> usize {
    segments.next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::{SEGMENT_ROUNDS, SeedCommitment, SeedTree, SegmentEnd, depth};
    use crate::client::{Client, Notice, Settings, Warning};
    use crate::manifest::{MAPPING_BLOOM, Manifest, SignedManifest};
    use crate::server::{seeds_of, segment_end};
    use crate::{
        CodeKind, MANIFEST_VERSION, PROTOCOL_VERSION, Round, RoundMode, ServerParameters, UnixMillis,
    };

    const SECRET: [u8; 32] = [7; 32];
    const FIRST: Round = Round(1000);

    fn tree(segments: u32) -> (SeedTree, SeedCommitment) {
        let ends = (0..segments).map(|number| segment_end(&SECRET, FIRST, number)).collect();
        let tree = SeedTree::new(FIRST, ends).unwrap();
        let commitment = tree.commitment();
        commitment.check().unwrap();
        (tree, commitment)
    }

    #[test]
    fn every_seed_that_was_fixed_is_known_again_by_who_sees_nothing_else() {
        for segments in [1, 2, 3, 5, 8] {
            let (tree, commitment) = tree(segments);
            for number in 0..segments {
                let (seeds, segment) = (seeds_of(&SECRET, FIRST, number), tree.segment(number).unwrap());
                assert_eq!(segment.path.len(), depth(segments));
                assert_eq!(SegmentEnd::decode(&segment.encode()), Ok(segment.clone()));
                for place in [0, 1, 77, SEGMENT_ROUNDS - 1] {
                    let round = Round(FIRST.0 + u64::from(number) * SEGMENT_ROUNDS + place);
                    let seed = seeds[place as usize];
                    assert_eq!(commitment.place(round), Some((number, place)));
                    assert_eq!(tree.of(round).as_ref(), Some(&segment));
                    assert_eq!(commitment.verify(round, &seed, &segment), Ok(()));
                    // For no other round, in no other way, and nothing like it.
                    assert!(commitment.verify(round.next(), &seed, &segment).is_err());
                    let mut other = seed;
                    other[31] ^= 1;
                    assert!(commitment.verify(round, &other, &segment).is_err());
                }
            }
            assert!(tree.segment(segments).is_none());
            assert_eq!(commitment.place(commitment.end()), None);
            assert_eq!(commitment.place(Round(FIRST.0 - 1)), None);
        }
    }

    /// The server makes another chain after it has seen what was deposited.
    #[test]
    fn attack_a1_a_seed_chosen_afterwards_is_refused_whatever_comes_with_it() {
        let (tree, commitment) = tree(4);
        let round = Round(FIRST.0 + SEGMENT_ROUNDS + 5);
        let ground = seeds_of(&[8; 32], FIRST, 1)[5];
        let honest = tree.segment(1).unwrap();
        assert!(commitment.verify(round, &ground, &honest).is_err());
        let own = SegmentEnd { end: segment_end(&[8; 32], FIRST, 1), ..honest.clone() };
        assert!(commitment.verify(round, &ground, &own).is_err());
        for wrong in [tree.segment(0).unwrap(), SegmentEnd { path: Vec::new(), ..honest.clone() }] {
            assert!(commitment.verify(round, &seeds_of(&SECRET, FIRST, 1)[5], &wrong).is_err());
        }
        for at in 0..honest.path.len() {
            let mut spoilt = honest.clone();
            spoilt.path[at][0] ^= 1;
            assert!(commitment.verify(round, &seeds_of(&SECRET, FIRST, 1)[5], &spoilt).is_err());
        }
    }

    /// The client checks it, and has seen no manifest before.
    #[test]
    fn attack_a1_a_client_takes_no_round_under_a_seed_of_the_servers_choice() {
        let (tree, commitment) = tree(2);
        let key = SigningKey::from_bytes(&[1; 32]);
        let server = ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: key.verifying_key().to_bytes(),
            seeds: commitment,
            engine: "none".into(),
            security_bits: 128,
            code: CodeKind::Single,
            retrieve: 1,
            buckets: 1,
            choices: 1,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 100,
            query_ms: 200,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: crate::KeyEpoch::ENDLESS,
        };
        let round = Round(FIRST.0 + 7);
        let signed = |seed: [u8; 32]| {
            let manifest = Manifest {
                version: MANIFEST_VERSION,
                round,
                entries: 0,
                engine: "none".into(),
                code: CodeKind::Single,
                retrieve: 1,
                buckets: 1,
                choices: 1,
                mapping_kind: MAPPING_BLOOM,
                bucket_size: 1,
                round_seed: seed,
                mapping_digest: [0; 32],
                deposits_digest: [0; 32],
                buckets_digest: [0; 32],
                profile: [0; 16],
                hint_digest: [0; 32],
                previous: [0; 32],
            };
            SignedManifest::sign(&manifest, &key)
        };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let joined = (round, UnixMillis(0));
        let settings = Settings { conversations: 1 };
        let mut client = Client::new("alice", server, settings, joined, &mut rng).unwrap();
        client.open_round(round, UnixMillis(0), &mut rng).unwrap();
        let mut warned = |manifest: &SignedManifest| {
            let notices = client.ready(manifest);
            !notices.is_empty()
                && notices.iter().all(|notice| matches!(notice, Notice::Warning(Warning::BadManifest(_))))
        };
        let (fixed, end) = (seeds_of(&SECRET, FIRST, 0)[7], tree.of(round));
        let ground = [9; 32];
        assert!(warned(&signed(ground).with_segment(end.clone())));
        assert!(warned(&signed(ground)) && warned(&signed(fixed)), "nothing shows that it was fixed");
        assert!(!warned(&signed(fixed).with_segment(end.clone())));
        let filled = client.supply_manifests(&[signed(ground).with_segment(end)]);
        assert!(matches!(filled[..], [Notice::Warning(Warning::BadManifest(_))]));
    }

    #[test]
    fn ends_of_other_sizes_are_refused() {
        for bytes in [0, 1, 31, 33, 63, 22 * 32] {
            assert!(SegmentEnd::decode(&vec![1; bytes]).is_err(), "{bytes}");
        }
        assert!(SegmentEnd::decode(&[1; 21 * 32]).is_ok());
        assert!(SeedTree::new(FIRST, Vec::new()).is_err());
        for (first, segments) in [(1, 0), (1, (1 << 20) + 1), (u64::MAX - 1, 1)] {
            assert!(SeedCommitment { first: Round(first), segments, root: [0; 32] }.check().is_err());
        }
    }

    /// Who writes another client needs a chain to compare with.
    #[test]
    fn the_chain_is_the_published_one() {
        let (_, commitment) = tree(3);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines = [
            hex(&seeds_of(&SECRET, FIRST, 1)[0]),
            hex(&segment_end(&SECRET, FIRST, 1)),
            hex(&commitment.root),
        ];
        assert_eq!(lines.join("\n") + "\n", include_str!("../../tests/golden/seeds.hex"));
    }
}
