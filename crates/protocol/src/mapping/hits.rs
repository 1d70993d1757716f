//! Where labels seem to stand, in no branch and no address.

use core::hint::black_box;

use pbc::oblivious::equal;
use zeroize::Zeroizing;

/// Stretches of positions, one after the other, and which of them are hits: all as secret as what is sought.
pub(super) struct Hits {
    firsts: Zeroizing<Vec<u32>>,
    /// Masks, for each position of a stretch from the first on.
    are_there: Zeroizing<Vec<u32>>,
    longest: usize,
}

impl Hits {
    /// As many stretches, all of one length, without hits.
    pub(super) fn new(stretches: usize, longest: usize) -> Self {
        let zeros = |length| Zeroizing::new(vec![0; length]);
        Self { firsts: zeros(stretches), are_there: zeros(stretches * longest), longest }
    }

    /// Where to write which positions of a stretch, of which the first is this, are hits.
    pub(super) fn stretch(&mut self, number: usize, first: u32) -> &mut [u32] {
        self.firsts[number] = first;
        &mut self.are_there[number * self.longest..][..self.longest]
    }

    /// How many a stretch has.
    pub(super) fn count(&self, number: usize) -> u32 {
        self.of(number).iter().fold(0, |count, is_there| count + (1 & is_there))
    }

    /// The position of one of them, counted from 0; 0 for one that is none.
    pub(super) fn position(&self, number: usize, chosen: u32) -> u32 {
        let (mut before, mut found) = (0, 0);
        for (step, is_there) in (0..).zip(self.of(number)) {
            found |= self.firsts[number].wrapping_add(step) & equal(before, black_box(chosen)) & is_there;
            before += 1 & is_there;
        }
        found
    }

    fn of(&self, number: usize) -> &[u32] {
        &self.are_there[number * self.longest..][..self.longest]
    }
}
