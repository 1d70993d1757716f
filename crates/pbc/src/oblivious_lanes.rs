//! Lists read and written whole, as in [`crate::oblivious`], by vectors (`oblivious::vectors`).
//!
//! A machine without vectors takes the code of [`crate::oblivious`], and so does what is left of a list.

use core::hint::black_box;

use pulp::Simd;

use crate::oblivious;

/// Vectors have no more lanes than this.
const LANES: usize = 8;

/// The numbers of the first places.
const FIRST: [u32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// The places of a vector of entries, and which of them is meant.
#[derive(Clone, Copy)]
struct Places<S: Simd> {
    here: S::u32s,
    at: S::u32s,
    step: S::u32s,
}

impl<S: Simd> Places<S> {
    #[inline(always)]
    fn new(simd: S, at: u32) -> Self {
        assert!(S::U32_LANES <= LANES, "wider vectors than `oblivious::vectors` admits");
        let here = S::as_simd_u32s(&FIRST).0[0];
        Self { here, at: simd.splat_u32s(at), step: simd.splat_u32s(S::U32_LANES as u32) }
    }

    /// The mask of each of the places; and on to the next ones.
    #[inline(always)]
    fn next(&mut self, simd: S) -> S::u32s {
        let is_meant = simd.equal_u32s(self.here, self.at);
        self.here = simd.add_u32s(self.here, self.step);
        // Were it known where a mask comes from, compilers would make loads and stores under the mask of it, which do not touch
        // what it leaves out.
        black_box(simd.select_u32s(is_meant, simd.splat_u32s(u32::MAX), simd.splat_u32s(0)))
    }
}

/// What the lanes have, but for those that have nothing.
#[inline(always)]
fn any<S: Simd>(lanes: S::u32s) -> u32 {
    let mut all = [0; LANES];
    S::as_mut_simd_u32s(&mut all).0[0] = lanes;
    let mut any = 0;
    for lane in all {
        any |= lane;
    }
    any
}

/// The place in what is left of a list after so many vectors; none of it if the place is before.
#[inline(always)]
fn in_rest<S: Simd>(at: u32, vectors: usize) -> u32 {
    at.wrapping_sub((vectors * S::U32_LANES) as u32)
}

/// [`oblivious::look_up`].
#[inline(always)]
pub(crate) fn look_up<S: Simd>(simd: S, list: &[u32], at: u32) -> u32 {
    if S::U32_LANES == 1 {
        return oblivious::look_up(list, at);
    }
    let at = black_box(at);
    let (vectors, rest) = S::as_simd_u32s(list);
    let (mut places, mut found) = (Places::new(simd, at), simd.splat_u32s(0));
    for vector in vectors {
        found = simd.or_u32s(found, simd.and_u32s(places.next(simd), *vector));
    }
    any::<S>(found) | oblivious::look_up(rest, in_rest::<S>(at, vectors.len()))
}

/// [`oblivious::put`].
#[inline(always)]
pub(crate) fn put<S: Simd>(simd: S, list: &mut [u32], at: u32, value: u32, mask: u32) {
    if S::U32_LANES == 1 {
        return oblivious::put(list, at, value, mask);
    }
    // What is not to be written is written nowhere.
    let at = black_box(at | !mask);
    let (vectors, rest) = S::as_mut_simd_u32s(list);
    oblivious::put(rest, in_rest::<S>(at, vectors.len()), value, mask);
    let (mut places, value) = (Places::new(simd, at), simd.splat_u32s(value));
    for vector in vectors {
        let change = simd.and_u32s(places.next(simd), simd.xor_u32s(*vector, value));
        *vector = simd.xor_u32s(*vector, change);
    }
}

/// [`oblivious::swap`].
#[inline(always)]
pub(crate) fn swap<S: Simd>(simd: S, first: &mut [u32], second: &mut [u32], at: u32) -> [u32; 2] {
    if S::U32_LANES == 1 {
        return oblivious::swap(first, second, at);
    }
    let at = black_box(at);
    let ((firsts, first), (seconds, second)) = (S::as_mut_simd_u32s(first), S::as_mut_simd_u32s(second));
    let [of_rest, of_other_rest] = oblivious::swap(first, second, in_rest::<S>(at, firsts.len()));
    let (mut places, mut one, mut other) = (Places::new(simd, at), simd.splat_u32s(0), simd.splat_u32s(0));
    for (first, second) in firsts.iter_mut().zip(seconds) {
        let mask = places.next(simd);
        let (left, right) = (simd.and_u32s(mask, *first), simd.and_u32s(mask, *second));
        one = simd.or_u32s(one, left);
        other = simd.or_u32s(other, right);
        let difference = simd.xor_u32s(left, right);
        *first = simd.xor_u32s(*first, difference);
        *second = simd.xor_u32s(*second, difference);
    }
    [any::<S>(one) | of_rest, any::<S>(other) | of_other_rest]
}

/// [`oblivious::put_all`].
#[inline(always)]
pub(crate) fn put_all<S: Simd>(simd: S, list: &mut [u32], values: &[u32], mask: u32) {
    if S::U32_LANES == 1 {
        return oblivious::put_all(list, values, mask);
    }
    let mask = black_box(mask);
    let ((vectors, rest), (values, rest_of_values)) = (S::as_mut_simd_u32s(list), S::as_simd_u32s(values));
    oblivious::put_all(rest, rest_of_values, mask);
    let mask = simd.splat_u32s(mask);
    for (vector, values) in vectors.iter_mut().zip(values) {
        let changed = simd.and_u32s(simd.xor_u32s(*vector, *values), mask);
        *vector = simd.xor_u32s(*vector, changed);
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, Simd, WithSimd};

    use super::{look_up, put, put_all, swap};
    use crate::oblivious::{self, NONE};

    struct Both;

    impl WithSimd for Both {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            for length in 0..70_u32 {
                let list: Vec<u32> = (100..100 + length).collect();
                let other: Vec<u32> = (300..300 + length).collect();
                for at in (0..length + 20).chain([NONE, NONE - 1, NONE - 7, NONE - 15]) {
                    assert_eq!(look_up(simd, &list, at), oblivious::look_up(&list, at));
                    for mask in [0, u32::MAX] {
                        let (mut here, mut there) = (list.clone(), list.clone());
                        put(simd, &mut here, at, 7, mask);
                        oblivious::put(&mut there, at, 7, mask);
                        assert_eq!(here, there);
                    }
                    let [mut here, mut there] = [(); 2].map(|()| (list.clone(), other.clone()));
                    let exchanged = swap(simd, &mut here.0, &mut here.1, at);
                    assert_eq!(exchanged, oblivious::swap(&mut there.0, &mut there.1, at));
                    assert_eq!(here, there);
                }
                for mask in [0, u32::MAX] {
                    let (mut here, mut there) = (list.clone(), list.clone());
                    put_all(simd, &mut here, &other, mask);
                    oblivious::put_all(&mut there, &other, mask);
                    assert_eq!(here, there);
                }
            }
        }
    }

    #[test]
    fn vectors_do_what_numbers_alone_do() {
        oblivious::vectors().dispatch(Both);
        Arch::Scalar.dispatch(Both);
    }
}
