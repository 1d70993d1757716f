//! Which position to read in which bucket: scheduled first, looked up second.

use core::fmt;
use core::hint::black_box;
use core::ops::Deref;

use pbc::oblivious::{NONE, below, equal, mask, put, select};
use pbc::{BatchCode, BucketIndex, HashedCode, PartitionedCode};
use rand_core::CryptoRng;
use zeroize::{Zeroize as _, Zeroizing};

use super::BloomMapping;
use super::hits::Hits;
use crate::Label;

/// What becomes of a wanted box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every bucket that would hold it shows it, the one to be read at one position.
    Found,
    /// Some bucket that would hold it does not show it, hence no bucket has it; or nobody knows where it would lie.
    Absent,
    /// Every bucket that would hold it shows it, the one to be read at several positions: it was deposited more than
    /// once, or the filter errs. One of them is read.
    Ambiguous,
    /// Other wanted boxes have its buckets. It is not read in this round.
    Deferred,
}

/// For each of the b buckets the position to read, or `None` where any will do. They are erased on drop, also which of them are
/// `None`, and without looking which.
#[derive(Clone)]
pub struct Targets(Vec<Option<usize>>);

impl Targets {
    /// Targets that are all known.
    #[must_use]
    pub const fn new(targets: Vec<Option<usize>>) -> Self {
        Self(targets)
    }
}

impl Deref for Targets {
    type Target = [Option<usize>];

    fn deref(&self) -> &[Option<usize>] {
        &self.0
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        // What erases an `Option` asks first whether there is something.
        self.0.iter_mut().for_each(|target| *target = Some(0));
        self.0.zeroize();
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Targets(..)")
    }
}

/// A box that is wanted from a table.
#[derive(Clone, Copy, Default)]
pub struct Sought {
    /// Its place; anything where that is not known.
    pub place: u32,
    /// Whether it is known.
    pub is_known: bool,
}

/// What is read for a wanted box in a round. What it says, in masks and numbers, is secret; only what it tells by name takes
/// branches.
#[derive(Clone)]
pub struct Reading {
    /// The buckets that are read for it together, whatever the mapping says of them; behind them [`NONE`].
    buckets: Zeroizing<Vec<u32>>,
    /// Whether any of them is read.
    is_read: u32,
    /// Whether it is shown wherever it should be.
    is_shown: u32,
    /// Whether a bucket that is read shows it at several positions.
    is_ambiguous: u32,
    crowded: (u32, u32),
}

impl Reading {
    /// What becomes of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.is_shown != 0, self.is_read != 0, self.is_ambiguous != 0) {
            (false, _, _) => Outcome::Absent,
            (true, false, _) => Outcome::Deferred,
            (true, true, true) => Outcome::Ambiguous,
            (true, true, false) => Outcome::Found,
        }
    }

    /// The buckets that are read for it together, whatever the mapping says of them; none if it is deferred.
    #[must_use]
    pub fn buckets(&self) -> Vec<BucketIndex> {
        let read = self.buckets.iter().filter(|bucket| **bucket != NONE);
        read.map(|bucket| BucketIndex(*bucket)).collect()
    }

    /// How many of the buckets that would hold it show it at more than one position, and how many there are, if all of
    /// them show it. Of honest filters few do.
    #[must_use]
    pub const fn crowded(&self) -> (u32, u32) {
        self.crowded
    }

    /// The codewords that make its box, of what the buckets hold, one after the other: all of that is read for each. If one
    /// bucket makes a box, as in all codes but the hybrid one, this takes no branches: where none is read, there are zeros.
    ///
    /// Nothing if the elements are not of one size.
    #[must_use]
    pub fn codewords(&self, elements: &[&[u8]]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let bytes = elements.first()?.len();
        if elements.iter().any(|element| element.len() != bytes) {
            return None;
        }
        let only = self.buckets.len() == 1;
        let read = self.buckets.iter().filter(|bucket| only || **bucket != NONE);
        let codeword = |bucket: &u32| {
            let mut codeword = Zeroizing::new(vec![0; bytes]);
            for (here, element) in (0..).zip(elements) {
                // A mask for bytes.
                let is_here = equal(here, black_box(*bucket)) as u8;
                codeword.iter_mut().zip(*element).for_each(|(byte, of_bucket)| *byte |= of_bucket & is_here);
            }
            codeword
        };
        Some(read.map(codeword).collect())
    }

    /// How many have this outcome, without a branch on any of them.
    #[must_use]
    pub fn count(readings: &[Self], outcome: Outcome) -> usize {
        readings.iter().map(|reading| (reading.has(outcome) & 1) as usize).sum()
    }

    fn has(&self, outcome: Outcome) -> u32 {
        let Self { is_shown, is_read, is_ambiguous, .. } = *self;
        match outcome {
            Outcome::Absent => !is_shown,
            Outcome::Deferred => is_shown & !is_read,
            Outcome::Ambiguous => is_shown & is_read & is_ambiguous,
            Outcome::Found => is_shown & is_read & !is_ambiguous,
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

/// Which positions to read in a round, for boxes that are wanted.
///
/// First every one is given a bucket by hashes alone, drawn so that each of its candidates is as likely as the
/// others, whatever else is wanted ([`pbc::BatchCode::schedule_drawn`]). Only then is the mapping looked at, for each
/// label in its bucket, and nothing that it says moves a label to another. So whoever writes the mapping can hide the box
/// of a label from its reader, but cannot make it depend on the other labels that the reader wants.
///
/// A label at several positions of its bucket is read at one of them, drawn at random: of two boxes deposited under one
/// label neither can suppress the other for good.
///
/// What is wanted is filled up to a batch with what is not. How much is wanted shows in how long its list is; but for that
/// neither branches nor addresses of all this depend on what is wanted, on what the mapping says, or on what is drawn, except
/// with the hybrid code.
///
/// The whole is secret. No position is left in memory when it is dropped.
pub struct Lookup {
    targets: Targets,
    readings: Vec<Reading>,
    places: Option<Places>,
}

/// Which places of a table are read, and in which bucket each. The whole is secret.
#[derive(Clone)]
pub struct Places {
    places: Zeroizing<Vec<u32>>,
    /// Masks: the places that are wanted, each once.
    are_first: Zeroizing<Vec<u32>>,
    /// Of each place the bucket in which it is read, or [`NONE`].
    served: Zeroizing<Vec<u32>>,
}

impl Places {
    /// What is read for boxes that are wanted, if these places are read and no others. A box elsewhere is deferred. Neither branches nor
    /// addresses depend on what is wanted.
    #[must_use]
    pub fn readings(&self, wanted: &[Sought]) -> Vec<Reading> {
        let reading = |sought: &Sought| {
            let is_known = mask(sought.is_known);
            let of_place = self.places.iter().zip(self.are_first.iter()).zip(self.served.iter());
            let bucket = of_place.fold(NONE, |bucket, ((other, is_first), served)| {
                select(equal(sought.place, *other) & is_first & is_known, *served, bucket)
            });
            Reading {
                buckets: Zeroizing::new(vec![bucket]),
                is_read: !equal(bucket, NONE),
                is_shown: is_known,
                is_ambiguous: 0,
                crowded: (0, 0),
            }
        };
        wanted.iter().map(reading).collect()
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Places(..)")
    }
}

impl Lookup {
    /// Schedules labels that are `wanted`, then looks them up, and as many random labels as make a batch of `code`.
    #[must_use]
    pub fn new(
        code: &dyn HashedCode,
        mapping: &BloomMapping,
        wanted: &[Label],
        rng: &mut impl CryptoRng,
    ) -> Self {
        let batch = code.batch_size().max(wanted.len());
        let mut labels = Vec::with_capacity(batch);
        labels.extend_from_slice(wanted);
        labels.resize_with(batch, || {
            let mut label = Label([0; 16]);
            rng.fill_bytes(&mut label.0);
            label
        });
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let are_wanted: Vec<bool> = (0..batch).map(|number| number < wanted.len()).collect();
        let drawn = code.schedule_wanted(&keys, &are_wanted, &mut || rng.next_u64());

        // The contents that would hold each label, as many for every one.
        let mut contents = Zeroizing::new(Vec::with_capacity(batch));
        labels.iter().for_each(|label| contents.push(code.holders(&label.0)));
        let each = contents.iter().map(Vec::len).max().unwrap_or(0);
        let mut sought = Zeroizing::new(Vec::with_capacity(batch * each));
        for (label, contents) in labels.iter().zip(contents.iter()) {
            let (order, fingerprint) = (code.order(&label.0), mapping.fingerprint(label));
            sought.extend(contents.iter().map(|content| mapping.sought(*content, order, fingerprint)));
        }
        let hits = mapping.search(&sought);

        let mut positions = Zeroizing::new(vec![NONE; code.bucket_count()]);
        let mut readings = Vec::with_capacity(batch);
        for (number, (label, contents)) in labels.iter().zip(contents.iter()).enumerate() {
            let shown = shown(contents, &hits, number * each, rng.next_u64());
            readings.push(read_label(code, label, &shown, drawn.row(number), &mut positions));
        }
        readings.truncate(wanted.len());
        Self { targets: targets(&positions), readings, places: None }
    }

    /// Schedules the places of boxes that are `wanted` from a table, each place once for all boxes that would lie there, and
    /// computes their positions; and of as many other places as make a batch.
    #[must_use]
    pub fn in_table(code: &PartitionedCode, wanted: &[Sought], rng: &mut impl CryptoRng) -> Self {
        let batch = code.batch_size().max(wanted.len());
        let mut places = Zeroizing::new(Vec::with_capacity(batch));
        let mut are_known = Zeroizing::new(Vec::with_capacity(batch));
        for sought in wanted.iter().copied().chain(core::iter::repeat(Sought::default())).take(batch) {
            places.push(sought.place);
            are_known.push(mask(sought.is_known));
        }
        // Those that are the first of their place.
        let mut are_first = Zeroizing::new(Vec::with_capacity(batch));
        for (number, (place, is_known)) in places.iter().zip(are_known.iter()).enumerate() {
            let before = places.iter().zip(are_first.iter()).take(number);
            let again = before.fold(0, |again, (other, is_first)| again | (equal(*place, *other) & is_first));
            are_first.push(is_known & !again);
        }
        let keys: Zeroizing<Vec<[u8; 8]>> =
            Zeroizing::new(places.iter().map(|place| PartitionedCode::key((*place).into())).collect());
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let are_wanted: Vec<bool> = are_first.iter().map(|is_first| black_box(is_first & 1) == 1).collect();
        let drawn = code.schedule_wanted(&keys, &are_wanted, &mut || rng.next_u64());

        let mut positions = Zeroizing::new(vec![NONE; code.bucket_count()]);
        for (number, place) in places.iter().enumerate() {
            for served in drawn.row(number) {
                let of_groups = code.places(*place).into_iter();
                let position = of_groups.fold(0, |found, (bucket, position)| {
                    // A bucket has fewer than 2^32 positions.
                    found | (position as u32 & equal(bucket.0, *served))
                });
                put(&mut positions, *served, position, u32::MAX);
            }
        }
        let served = |number| drawn.row(number).first().copied().unwrap_or(NONE);
        let served = Zeroizing::new((0..batch).map(served).collect());
        let places = Places { places, are_first, served };
        let readings = places.readings(wanted);
        Self { targets: targets(&positions), readings, places: Some(places) }
    }

    /// Of a look-up in a table, which places are read.
    #[must_use]
    pub fn places(&self) -> Option<&Places> {
        self.places.as_ref()
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

    /// What becomes of the wanted boxes, in their order.
    #[must_use]
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// Shows all numbers that the readings keep to whoever watches what becomes of secrets.
    #[doc(hidden)]
    pub fn each_secret(&mut self, mut show: impl FnMut(&mut [u32])) {
        for Reading { buckets, is_read, is_shown, is_ambiguous, crowded: (crowded, all) } in
            &mut self.readings
        {
            show(buckets);
            for number in [is_read, is_shown, is_ambiguous, crowded, all] {
                show(core::slice::from_mut(number));
            }
        }
    }

    /// How many of the wanted boxes have this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        Reading::count(&self.readings, outcome)
    }
}

/// Where something is to be read.
fn targets(positions: &[u32]) -> Targets {
    let target = |position: &u32| {
        let is_none = equal(*position, NONE);
        (black_box(is_none) == 0).then_some(*position as usize)
    };
    Targets::new(positions.iter().map(target).collect())
}

/// Of each content that would hold a label: its number, at how many positions it shows the label, and the one of them to be read,
/// by a private `coin` where there is a choice.
fn shown(contents: &[usize], hits: &Hits, first: usize, coin: u64) -> Zeroizing<Vec<[u32; 3]>> {
    let show = |(number, content): (usize, &usize)| {
        let count = hits.count(number);
        // Biased by less than 2^-50: a window has a few thousand positions at most.
        let chosen = (u128::from(coin) * u128::from(count)) >> 64;
        // A code has at most 2^16 contents.
        [*content as u32, count, hits.position(number, chosen as u32)]
    };
    Zeroizing::new((first..).zip(contents).map(show).collect())
}

/// Writes among the positions where to read a label in its buckets.
fn read_label(
    code: &dyn HashedCode,
    label: &Label,
    shown: &[[u32; 3]],
    buckets: &[u32],
    positions: &mut [u32],
) -> Reading {
    let (mut is_ambiguous, mut is_read) = (0, 0);
    for bucket in buckets {
        let holder = code.content_of(code.holder(&label.0, BucketIndex(*bucket)));
        for [content, hits, position] in shown.iter() {
            let is_here = equal(*content, holder as u32) & !equal(*bucket, NONE);
            is_ambiguous |= is_here & below(1, *hits);
            put(positions, *bucket, *position, is_here & below(0, *hits));
        }
        is_read |= !equal(*bucket, NONE);
    }
    let is_shown = shown.iter().fold(u32::MAX, |all, [_, hits, _]| all & below(0, *hits));
    let crowded = shown.iter().map(|[_, hits, _]| 1 & below(1, *hits) & is_shown).sum();
    Reading {
        buckets: Zeroizing::new(buckets.to_vec()),
        is_read,
        is_shown,
        is_ambiguous,
        // At most 8 contents.
        crowded: (crowded, shown.len() as u32 & is_shown),
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pbc::PartitionedCode;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;
    use zeroize::Zeroizing;

    use super::{Hits, Lookup, NONE, Outcome, Reading, Sought, shown};

    /// Of two boxes under one label each is read by the same chance, wherever in the mapping the label is looked for.
    #[test]
    fn the_coin_decides_which_of_several_is_read() {
        let mut hits = Hits::new(3, 4);
        for (number, there) in [[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1]].into_iter().enumerate() {
            let stretch = hits.stretch(number, 10);
            stretch.iter_mut().zip(there).for_each(|(hit, there)| *hit = u32::wrapping_neg(there));
        }
        let read = |coin| shown(&[7, 8], &hits, 1, coin).to_vec();
        assert_eq!(read(0), [[7, 2, 11], [8, 4, 10]]);
        assert_eq!(read(u64::MAX / 2), [[7, 2, 11], [8, 4, 11]]);
        assert_eq!(read(u64::MAX / 2 + 1), [[7, 2, 13], [8, 4, 12]]);
        assert_eq!(read(u64::MAX), [[7, 2, 13], [8, 4, 13]]);
        assert_eq!(*shown(&[6], &hits, 0, u64::MAX), [[6, 0, 0]]);
    }

    /// Places where several are heard are read once, for all of them, and those that nobody knows for nobody.
    #[test]
    fn a_place_is_read_once_for_all_who_are_there() {
        let code = PartitionedCode::new(4, 12, 3, 594, [5; 32]).unwrap();
        let sought = |place: Option<u32>| Sought { place: place.unwrap_or(7), is_known: place.is_some() };
        let wanted = [Some(3), Some(7), Some(3), None, Some(500)].map(sought);
        let lookup = Lookup::in_table(&code, &wanted, &mut ChaCha20Rng::seed_from_u64(3));
        let outcomes: Vec<Outcome> = lookup.readings().iter().map(Reading::outcome).collect();
        let found = Outcome::Found;
        assert_eq!(outcomes, [found, found, found, Outcome::Absent, found]);
        let buckets: Vec<_> = lookup.readings().iter().map(Reading::buckets).collect();
        assert_eq!((&buckets[0], buckets[3].is_empty()), (&buckets[2], true));
        assert!(buckets[0] != buckets[1] && buckets[1] != buckets[4] && buckets[4] != buckets[0]);
        for (sought, bucket) in wanted.iter().zip(&buckets).filter(|(sought, _)| sought.is_known) {
            let places = code.places(sought.place);
            let (_, position) = places.as_slice().iter().find(|(here, _)| [*here] == bucket[..]).unwrap();
            assert_eq!(lookup.targets()[bucket[0].to_usize()], Some(*position));
        }
        assert_eq!(lookup.targets().len(), 12);
        let are_first = &lookup.places().unwrap().are_first;
        let are_first: Vec<bool> = are_first.iter().map(|is_first| *is_first != 0).collect();
        assert_eq!(are_first, [true, true, false, false, true]);
        let again = lookup.places().unwrap().readings(&[sought(Some(7)), sought(Some(8)), sought(None)]);
        assert_eq!((again[0].buckets(), again[1].outcome()), (buckets[1].clone(), Outcome::Deferred));
        assert_eq!(again[2].outcome(), Outcome::Absent);
    }

    /// Where one bucket makes a box nothing tells whether it is read; where several do, those are taken that are.
    #[test]
    fn the_codewords_of_a_box_are_those_of_its_buckets() {
        let elements: [&[u8]; 3] = [&[1, 2], &[3, 4], &[5, 6]];
        let codewords = |buckets: &[u32], elements: &[&[u8]]| {
            let buckets = Zeroizing::new(buckets.to_vec());
            let reading = Reading { buckets, is_read: 0, is_shown: 0, is_ambiguous: 0, crowded: (0, 0) };
            reading.codewords(elements).map(|all| all.iter().map(|one| one.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(codewords(&[1], &elements), Some(vec![vec![3, 4]]));
        assert_eq!(codewords(&[NONE], &elements), Some(vec![vec![0, 0]]));
        assert_eq!(codewords(&[2, 0, NONE], &elements), Some(vec![vec![5, 6], vec![1, 2]]));
        assert_eq!(codewords(&[NONE, NONE], &elements), Some(vec![]));
        assert_eq!((codewords(&[1], &[]), codewords(&[1], &[&[1, 2][..], &[3]])), (None, None));
    }

    /// Who retrieves is told by these counts what became of everything that was wanted.
    #[test]
    fn a_reading_has_one_outcome_whatever_its_masks_are() {
        let mask = |is: bool| u32::from(is).wrapping_neg();
        for (number, expected) in
            [Outcome::Absent, Outcome::Deferred, Outcome::Found, Outcome::Ambiguous].into_iter().enumerate()
        {
            for others in 0..4_u32 {
                let [one, two] = [others & 1 != 0, others & 2 != 0];
                let [is_shown, is_read, is_ambiguous] = match number {
                    0 => [false, one, two],
                    1 => [true, false, one],
                    _ => [true, true, number == 3],
                }
                .map(mask);
                let buckets = Zeroizing::new(Vec::new());
                let reading = Reading { buckets, is_read, is_shown, is_ambiguous, crowded: (0, 0) };
                for outcome in [Outcome::Absent, Outcome::Deferred, Outcome::Found, Outcome::Ambiguous] {
                    let count = Reading::count(core::slice::from_ref(&reading), outcome);
                    assert_eq!(count, usize::from(outcome == expected), "{outcome:?} for {expected:?}");
                }
            }
        }
    }
}
