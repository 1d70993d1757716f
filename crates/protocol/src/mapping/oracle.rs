//! Which positions may serve which wanted label.

use core::fmt;

use pbc::{BucketIndex, HashedCode, Oracle};

use super::{Hits, Mapping};
use crate::Label;

/// What a mapping says about a wanted label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At least one candidate bucket shows it at exactly one position.
    Found,
    /// Some candidate bucket does not show it at all, hence no bucket has it.
    Absent,
    /// Every candidate bucket shows it several times: it was deposited more than once, or the filters err.
    Ambiguous,
}

/// The oracle of a round for one client's wanted labels.
///
/// Candidate buckets that show a label at more positions than another candidate does are dropped. An ambiguous label is
/// wanted twice, since somebody may have deposited under another's label: its first position in some bucket, and with
/// the lowest priority its last position in another. Nobody chooses which boxes those are: [`crate::deposit::arrange`].
///
/// The whole oracle is secret: it follows from the labels that a client wants.
pub struct LabelOracle {
    keys: Vec<Key>,
    outcomes: Vec<Outcome>,
}

struct Key {
    label: Label,
    wanted: usize,
    positions: Vec<(BucketIndex, usize)>,
}

impl LabelOracle {
    /// Looks up labels given in order of priority, the most important first.
    #[must_use]
    pub fn new(mapping: &dyn Mapping, code: &dyn HashedCode, wanted: &[Label]) -> Self {
        let mut keys = Vec::with_capacity(wanted.len());
        let mut repeated = Vec::new();
        let mut outcomes = Vec::with_capacity(wanted.len());
        for (number, label) in wanted.iter().enumerate() {
            let hits = mapping.lookup(code, label);
            let least = hits.iter().map(|(_, hits)| hits.count).min().unwrap_or(0);
            let key = |place: fn(&Hits) -> usize| Key {
                label: *label,
                wanted: number,
                positions: hits
                    .iter()
                    .filter(|(_, hits)| hits.count == least && least > 0)
                    .map(|(bucket, hits)| (*bucket, place(hits)))
                    .collect(),
            };
            keys.push(key(|hits| hits.first));
            if least > 1 && hits.len() > 1 {
                repeated.push(key(|hits| hits.last));
            }
            outcomes.push(match least {
                0 => Outcome::Absent,
                1 => Outcome::Found,
                _ => Outcome::Ambiguous,
            });
        }
        keys.append(&mut repeated);
        Self { keys, outcomes }
    }

    /// The keys to schedule, for [`pbc::Plan::new`]: the wanted labels in their order, then repeated ones.
    #[must_use]
    pub fn keys(&self) -> Vec<&[u8]> {
        self.keys.iter().map(|key| key.label.0.as_slice()).collect()
    }

    /// Which wanted label a key of [`LabelOracle::keys`] is.
    #[must_use]
    pub fn wanted(&self, key_number: usize) -> Option<usize> {
        self.keys.get(key_number).map(|key| key.wanted)
    }

    /// What was found out about each wanted label, in their order.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }
}

impl Oracle for LabelOracle {
    fn position(&self, key_number: usize, _: &[u8], bucket: BucketIndex) -> Option<usize> {
        let key = self.keys.get(key_number)?;
        key.positions.iter().find_map(|(place, position)| (*place == bucket).then_some(*position))
    }
}

impl fmt::Debug for LabelOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabelOracle").finish_non_exhaustive()
    }
}
