//! Whether all nodes say the same of every round.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use sotto_protocol::{Round, SignedManifest};

use super::tell::Compared;

/// Rounds that are remembered.
const ROUNDS: usize = 4096;

/// Digests of manifests, by round and node.
pub(super) struct Manifests {
    rounds: BTreeMap<Round, Vec<Option<[u8; 32]>>>,
    nodes: usize,
    /// Rounds of which two nodes have different manifests.
    different: u64,
}

/// Two nodes, counted from 1, that differ in a round.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) round: Round,
    pub(super) nodes: (usize, usize),
}

impl Manifests {
    pub(super) fn new(nodes: usize) -> Self {
        Self { rounds: BTreeMap::new(), nodes, different: 0 }
    }

    /// Notes what a node, counted from 0, has of a round.
    pub(super) fn note(&mut self, node: usize, manifest: &SignedManifest) -> Option<Difference> {
        let round = manifest.claimed_round();
        let digest: [u8; 32] = Sha256::digest(manifest.bytes).into();
        let seen = self.rounds.entry(round).or_insert_with(|| vec![None; self.nodes]);
        let place = seen.get_mut(node)?;
        let before = place.replace(digest);
        let other = seen.iter().position(|other| other.is_some_and(|other| other != digest));
        let difference = other.map(|other| Difference { round, nodes: (other + 1, node + 1) });
        // Every difference once, also between what a node says now and what it said before.
        let difference = match before {
            Some(before) if before == digest => None,
            Some(_) => Some(Difference { round, nodes: (node + 1, node + 1) }),
            None => difference,
        };
        self.different += u64::from(difference.is_some());
        while self.rounds.len() > ROUNDS {
            self.rounds.pop_first();
        }
        difference
    }

    /// How far all nodes have the same manifests, from a round on.
    pub(super) fn compared(&self, first: Round) -> Compared {
        let same = |seen: &[Option<[u8; 32]>]| {
            seen.first().is_some_and(|one| one.is_some() && seen.iter().all(|other| other == one))
        };
        let all = || self.rounds.range(first..);
        let newest = all().rev().find(|(_, seen)| same(seen)).map_or(Round(0), |(round, _)| *round);
        let until = || all().take_while(|(round, _)| **round <= newest);
        Compared {
            nodes: self.nodes,
            newest: newest.0,
            rounds: until().count(),
            same: until().filter(|(_, seen)| same(seen)).count(),
            different: self.different,
        }
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};
    use sotto_protocol::{Round, SignedManifest};

    use super::{Difference, Manifests};

    fn manifest(round: u8, content: u8) -> SignedManifest {
        let mut bytes = [content; MANIFEST_BYTES];
        bytes[8..16].copy_from_slice(&u64::from(round).to_le_bytes());
        SignedManifest { bytes, signature: [0; SIGNATURE_BYTES], segment: None }
    }

    #[test]
    fn a_node_that_differs_from_another_or_from_itself_is_found_once() {
        let mut manifests = Manifests::new(3);
        for node in 0..3 {
            assert_eq!(manifests.note(node, &manifest(1, 7)), None);
        }
        assert_eq!(manifests.note(0, &manifest(2, 7)), None);
        let compared = |manifests: &Manifests, first| {
            let compared = manifests.compared(Round(first));
            (compared.newest, compared.rounds, compared.same, compared.different)
        };
        assert_eq!(compared(&manifests, 1), (1, 1, 1, 0));
        let differ = |nodes| Some(Difference { round: Round(2), nodes });
        assert_eq!(manifests.note(2, &manifest(2, 8)), differ((1, 3)));
        assert_eq!(manifests.note(2, &manifest(2, 8)), None);
        assert_eq!(manifests.note(0, &manifest(2, 8)), differ((1, 1)));
        assert_eq!(compared(&manifests, 2), (0, 0, 0, 2));
        for node in 0..3 {
            assert_eq!(manifests.note(node, &manifest(3, 7)), None);
        }
        assert_eq!(compared(&manifests, 1), (3, 3, 2, 2));
    }
}
