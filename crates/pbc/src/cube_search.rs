//! Which keys of the hybrid code are read from which cube, and by which sums.

use std::collections::VecDeque;

use crate::subcube::{BUCKETS, CELLS, Subcube};

/// For both choices of a key: the cube, the quarter, and the mask of buckets that may be read for it.
pub(crate) type Wanted = [(u32, usize, u16); 2];

/// Where a key is read: a cube, and the mask of its buckets to sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) cube: u32,
    pub(crate) buckets: u16,
}

/// A place for every key, `None` for those that are deferred. Keys are taken in order; a key that finds its cubes
/// unable to serve it together with those they have moves some of those to their other cubes, breadth first, every
/// cube once. A key that has a place is never deferred for a later one.
pub(crate) fn place(subcube: &Subcube, wanted: &[Wanted], cubes: usize) -> Vec<Option<Placement>> {
    let mut search = Search {
        subcube,
        wanted,
        keys_in: vec![Vec::new(); cubes],
        choice_of: vec![0; wanted.len()],
        reached: vec![0; cubes],
    };
    for key in 0..wanted.len() {
        search.add(key);
    }
    let mut placements = vec![None; wanted.len()];
    for (cube, keys) in search.keys_in.iter().enumerate() {
        let solution = search.solve(keys).unwrap_or_default();
        for (key, buckets) in keys.iter().zip(solution) {
            placements[*key] = Some(Placement { cube: cube as u32, buckets });
        }
    }
    placements
}

/// A key's move to the cube of one of its choices, in place of the key `displaced` or of none.
#[derive(Clone, Copy)]
struct Step {
    key: usize,
    choice: usize,
    displaced: Option<usize>,
}

struct Search<'a> {
    subcube: &'a Subcube,
    wanted: &'a [Wanted],
    keys_in: Vec<Vec<usize>>,
    /// Of a key that has a place.
    choice_of: Vec<usize>,
    /// The search that reached the cube last, counted from 1.
    reached: Vec<usize>,
}

impl Search<'_> {
    fn add(&mut self, new: usize) {
        let mut waiting = VecDeque::from([(new, None)]);
        let mut steps: Vec<(Step, Option<usize>)> = Vec::new();
        while let Some((key, before)) = waiting.pop_front() {
            for choice in 0..2 {
                let cube = self.wanted[key][choice].0 as usize;
                if core::mem::replace(&mut self.reached[cube], new + 1) == new + 1 {
                    continue;
                }
                let mut step = Step { key, choice, displaced: None };
                if self.can_take(cube, step) {
                    self.apply(step);
                    return self.apply_all(&steps, before);
                }
                for displaced in self.keys_in[cube].clone() {
                    step.displaced = Some(displaced);
                    if self.can_take(cube, step) {
                        steps.push((step, before));
                        waiting.push_back((displaced, Some(steps.len() - 1)));
                    }
                }
            }
        }
    }

    /// The steps that lead to the last one; each has the index of the one before it.
    fn apply_all(&mut self, steps: &[(Step, Option<usize>)], mut last: Option<usize>) {
        while let Some((step, before)) = last.map(|index| steps[index]) {
            self.apply(step);
            last = before;
        }
    }

    /// The keys of the cube after the step.
    fn keys_after(&self, cube: usize, step: Step) -> Vec<usize> {
        let staying = self.keys_in[cube].iter().copied().filter(|key| Some(*key) != step.displaced);
        staying.chain([step.key]).collect()
    }

    fn can_take(&self, cube: usize, step: Step) -> bool {
        let keys = self.keys_after(cube, step);
        self.solve_with(&keys, &|key| if key == step.key { step.choice } else { self.choice_of[key] })
            .is_some()
    }

    /// The displaced key has been given its new place before.
    fn apply(&mut self, step: Step) {
        let cube = self.wanted[step.key][step.choice].0 as usize;
        self.keys_in[cube] = self.keys_after(cube, step);
        self.choice_of[step.key] = step.choice;
    }

    fn solve(&self, keys: &[usize]) -> Option<Vec<u16>> {
        self.solve_with(keys, &|key| self.choice_of[key])
    }

    /// Disjoint sums for all of these keys of one cube.
    fn solve_with(&self, keys: &[usize], choice: &dyn Fn(usize) -> usize) -> Option<Vec<u16>> {
        let mut masks = [0; BUCKETS];
        let wanted = |key: &usize| {
            let (_, quarter, usable) = self.wanted[*key][choice(*key)];
            (quarter % CELLS, usable)
        };
        let wanted: Vec<(usize, u16)> = keys.iter().map(wanted).collect();
        let masks = masks.get_mut(..keys.len())?;
        disjoint(self.subcube, &wanted, 0, masks).then(|| masks.to_vec())
    }
}

/// Finds a set of free buckets for every key, trying all.
fn disjoint(subcube: &Subcube, wanted: &[(usize, u16)], taken: u16, masks: &mut [u16]) -> bool {
    let (Some((&(quarter, usable), wanted)), Some((mask, masks))) =
        (wanted.split_first(), masks.split_first_mut())
    else {
        return true;
    };
    // Each of the others needs a bucket at least.
    let free = BUCKETS.saturating_sub(taken.count_ones() as usize + wanted.len());
    for &set in subcube.recoveries(quarter) {
        if set.count_ones() as usize > free {
            return false; // And so are all that follow.
        }
        if set & taken == 0 && set & !usable == 0 && disjoint(subcube, wanted, taken | set, masks) {
            *mask = set;
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Wanted, disjoint, place};
    use crate::subcube::{BUCKETS, CELLS, Subcube};

    const ALL: u16 = 0x1ff;

    proptest! {
        /// A bucket read twice would break the fixed pattern of queries; a bucket that may not be read holds garbage.
        #[test]
        fn every_key_is_read_from_free_usable_buckets_of_its_cubes(
            wanted in proptest::collection::vec(
                [(0..4_u32, 0..CELLS, 0..=ALL), (4..8_u32, 0..CELLS, 0..=ALL)], 0..40),
        ) {
            let subcube = Subcube::new();
            let mut taken = [0_u16; 8];
            for (placement, wanted) in place(&subcube, &wanted, 8).into_iter().zip(&wanted) {
                let Some(placement) = placement else { continue };
                let choice = wanted.iter().find(|(cube, _, _)| *cube == placement.cube);
                let (cube, quarter, usable) = *choice.unwrap();
                prop_assert!(subcube.recoveries(quarter).contains(&placement.buckets));
                prop_assert_eq!(placement.buckets & !usable, 0);
                prop_assert_eq!(placement.buckets & taken[cube as usize], 0);
                taken[cube as usize] |= placement.buckets;
            }
        }

        /// The important keys come first: one that comes later must not cost them their places. Few cubes, so that keys
        /// are moved.
        #[test]
        fn a_later_key_takes_no_place_from_an_earlier_one(
            wanted in proptest::collection::vec(
                [(0..2_u32, 0..CELLS, 0..=ALL), (2..4_u32, 0..CELLS, 0..=ALL)], 0..20),
        ) {
            let subcube = Subcube::new();
            let served = |keys: usize| place(&subcube, &wanted[..keys], 4).into_iter().map(|place| place.is_some());
            let mut before: Vec<bool> = Vec::new();
            for keys in 1..=wanted.len() {
                let now: Vec<bool> = served(keys).collect();
                prop_assert_eq!(&now[..keys - 1], &before);
                before = now;
            }
        }

        /// A key that could be served would be deferred. All that is left out of the search is what cannot succeed.
        #[test]
        fn sums_are_found_where_there_are_any(
            wanted in proptest::collection::vec((0..CELLS, proptest::option::of(any::<prop::sample::Index>())), 1..5),
        ) {
            fn exists(subcube: &Subcube, wanted: &[(usize, u16)], taken: u16) -> bool {
                let Some((&(quarter, usable), others)) = wanted.split_first() else { return true };
                let free = |set: &&u16| **set & (taken | !usable) == 0;
                let mut sets = subcube.recoveries(quarter).iter().filter(free);
                sets.any(|set| exists(subcube, others, taken | set))
            }
            let subcube = Subcube::new();
            // A key may be read from everywhere or by one sum alone, which leaves more or less for the others.
            let usable = |(quarter, sum): (usize, Option<prop::sample::Index>)| {
                (quarter, sum.map_or(ALL, |sum| *sum.get(subcube.recoveries(quarter))))
            };
            let wanted: Vec<(usize, u16)> = wanted.into_iter().map(usable).collect();
            let found = disjoint(&subcube, &wanted, 0, &mut [0; BUCKETS][..wanted.len()]);
            prop_assert_eq!(found, exists(&subcube, &wanted, 0));
        }
    }

    /// Eight keys that share both cubes fill them, four each; the ninth waits and harms nobody.
    #[test]
    fn full_cubes_defer_the_last_key() {
        let mut wanted: Vec<Wanted> = vec![[(0, 0, ALL), (1, 3, ALL)]; 9];
        let placed = place(&Subcube::new(), &wanted, 2);
        assert_eq!(placed.iter().filter(|place| place.is_some()).count(), 8);
        assert_eq!(placed[8], None);
        // A third cube, behind one of the keys that came first, makes room for all of them.
        wanted[0] = [(0, 0, ALL), (2, 0, ALL)];
        assert!(place(&Subcube::new(), &wanted, 3).iter().all(Option::is_some));
    }
}
