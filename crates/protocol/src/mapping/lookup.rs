//! Which position to read in which bucket: scheduled first, looked up second.

use core::fmt;

use pbc::{BucketIndex, HashedCode};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::BloomMapping;
use crate::Label;

/// What a mapping says about a wanted label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every bucket that would hold it shows it, the one to be read at one position.
    Found,
    /// Some bucket that would hold it does not show it, hence no bucket has it.
    Absent,
    /// Every bucket that would hold it shows it, the one to be read at several positions: it was deposited more than
    /// once, or the filter errs. One of them is read.
    Ambiguous,
    /// Other wanted labels have its buckets. It is not read in this round.
    Deferred,
}

/// For each of the b buckets the position to read, or `None` where any will do. They are erased on drop, and nothing may
/// be pushed: a vector that grows leaves a copy behind.
pub type Targets = Zeroizing<Vec<Option<usize>>>;

/// A wanted label in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the mapping says.
    pub outcome: Outcome,
    /// The buckets that are read for it together, whatever the mapping says of them; none if it is deferred.
    pub buckets: Vec<BucketIndex>,
    /// How many of the buckets that would hold it show it at more than one position, and how many there are, if all of
    /// them show it. Of honest filters few do.
    pub crowded: (usize, usize),
}

/// Which positions to read in a round, for labels that are wanted.
///
/// First every wanted label is given a bucket by hashes alone, drawn so that each of its candidates is as likely as the
/// others, whatever else is wanted ([`pbc::BatchCode::schedule_drawn`]). Only then is the mapping looked at, for each
/// label in its bucket, and nothing that it says moves a label to another. So whoever writes the mapping can hide the box
/// of a label from its reader, but cannot make it depend on the other labels that the reader wants.
///
/// A label at several positions of its bucket is read at one of them, drawn at random: of two boxes deposited under one
/// label neither can suppress the other for good.
///
/// The whole is secret. No position is left in memory when it is dropped.
pub struct Lookup {
    targets: Targets,
    readings: Vec<Reading>,
}

impl Lookup {
    /// Schedules `wanted`, then looks them up; and looks up as many random labels as make a batch of `code`, for nothing
    /// but the time it takes.
    #[must_use]
    pub fn new(
        code: &dyn HashedCode,
        mapping: &BloomMapping,
        wanted: &[Label],
        rng: &mut impl CryptoRng,
    ) -> Self {
        let keys: Vec<&[u8]> = wanted.iter().map(|label| label.0.as_slice()).collect();
        let schedule = code.schedule_drawn(&keys, &mut || rng.next_u64());
        let mut targets = Targets::new(vec![None; code.bucket_count()]);
        let mut readings = Vec::with_capacity(wanted.len());
        for (number, label) in wanted.iter().enumerate() {
            let buckets = schedule.assignment(number);
            readings.push(look_up(code, mapping, label, buckets, rng.next_u64(), &mut targets));
        }
        for _ in wanted.len()..code.batch_size() {
            let mut label = Label([0; 16]);
            rng.fill_bytes(&mut label.0);
            core::hint::black_box(look_up(code, mapping, &label, &[], 0, &mut []));
        }
        Self { targets, readings }
    }

    /// For each of the b buckets the position to read, or `None` where any position will do.
    #[must_use]
    pub fn targets(&self) -> &[Option<usize>] {
        &self.targets
    }

    /// The same, taken out.
    #[must_use]
    pub fn into_targets(self) -> Targets {
        self.targets
    }

    /// What became of the wanted labels, in their order.
    #[must_use]
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// How many of the wanted labels had this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.readings.iter().filter(|reading| reading.outcome == outcome).count()
    }
}

/// Writes among the targets where to read a label in its buckets, by a private `coin` where there is a choice.
fn look_up(
    code: &dyn HashedCode,
    mapping: &BloomMapping,
    label: &Label,
    buckets: &[BucketIndex],
    coin: u64,
    targets: &mut [Option<usize>],
) -> Reading {
    let shown: Vec<(usize, Zeroizing<Vec<usize>>)> = code
        .holders(&label.0)
        .into_iter()
        .map(|content| (content, mapping.hits(code, content, label)))
        .collect();
    let mut several = false;
    for bucket in buckets {
        let holder = code.content_of(code.holder(&label.0, *bucket));
        let hits =
            shown.iter().find(|(content, _)| *content == holder).map_or(&[][..], |(_, hits)| hits.as_slice());
        several |= hits.len() > 1;
        // Biased by less than 2^-50: a window has a few thousand positions at most.
        let chosen = (u128::from(coin) * hits.len() as u128) >> 64;
        if let Some(target) = targets.get_mut(bucket.to_usize()) {
            *target = hits.get(chosen as usize).copied();
        }
    }

    let everywhere = shown.iter().all(|(_, hits)| !hits.is_empty());
    let crowded = shown.iter().filter(|(_, hits)| hits.len() > 1).count();
    let outcome = match (everywhere, buckets.is_empty(), several) {
        (false, _, _) => Outcome::Absent,
        (true, true, _) => Outcome::Deferred,
        (true, false, true) => Outcome::Ambiguous,
        (true, false, false) => Outcome::Found,
    };
    let crowded = if everywhere { (crowded, shown.len()) } else { (0, 0) };
    Reading { outcome, buckets: buckets.to_vec(), crowded }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}
