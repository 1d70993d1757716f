//! Ciphertexts of several buckets in one: `sum over r of X^r Tr(c_r)`, where the trace leaves of each what stands at multiples of
//! as many places as buckets share a reply.

use super::common::{Common, GROUP_LEVELS, Key};
use super::keys::PublicKeys;
use super::tree::sum_of_products;
use crate::ring::{add, multiply, round_digits};
use crate::voce::ring::{DEGREE, DROPPED_BITS, Ring};

/// Public and private half, in slots.
#[derive(Clone)]
pub(in crate::voce) struct Pair {
    pub(super) a: Vec<u64>,
    pub(super) b: Vec<u64>,
}

/// Puts the ciphertexts of up to `group` buckets, a power of two, into one, in slots: that of bucket r at the places that are r
/// modulo their number, times their number.
pub(super) fn join(keys: &PublicKeys, group: usize, mut buckets: Vec<Option<Pair>>) -> Pair {
    buckets.resize_with(group, || None);
    while buckets.len() > 1 {
        let level = buckets.len().ilog2() - 1;
        debug_assert!(level < GROUP_LEVELS);
        let others = buckets.split_off(1 << level);
        buckets = buckets.into_iter().zip(others).map(|(one, other)| two(keys, level, one, other)).collect();
    }
    buckets.pop().flatten().unwrap_or_else(|| Pair { a: vec![0; DEGREE], b: vec![0; DEGREE] })
}

/// `x + X^step y + tau(x - X^step y)` with `step = 2^level` and `tau: X -> X^(N/step + 1)`, which takes `X^step` to its negative.
fn two(keys: &PublicKeys, level: u32, one: Option<Pair>, other: Option<Pair>) -> Option<Pair> {
    let (ring, common) = (Ring::get(), Common::get());
    let modulus = ring.modulus();
    let moved = other.map(|mut other| {
        for half in [&mut other.a, &mut other.b] {
            multiply(modulus, half, &common.powers[1 << level]);
        }
        other
    });
    let (mut sum, difference) = match (one, moved) {
        (None, None) => return None,
        (Some(one), None) => (one.clone(), one),
        (one, Some(moved)) => {
            let one = one.unwrap_or_else(|| Pair { a: vec![0; DEGREE], b: vec![0; DEGREE] });
            let mut sum = one.clone();
            add(modulus, &mut sum.a, &moved.a);
            add(modulus, &mut sum.b, &moved.b);
            let less = |one: &[u64], other: &[u64]| {
                one.iter().zip(other).map(|(one, other)| modulus.sub(*one, *other)).collect()
            };
            let difference = Pair { a: less(&one.a, &moved.a), b: less(&one.b, &moved.b) };
            (sum, difference)
        }
    };
    let substitution = common.substitution(level);
    let (mut image, mut product) = (vec![0; DEGREE], vec![0; DEGREE]);
    substitution.slots_into(&difference.b, &mut image);
    add(modulus, &mut sum.b, &image);
    substitution.slots_into(&difference.a, &mut image);
    ring.ntt.inverse(&mut image);
    round_digits(modulus, DROPPED_BITS, &mut image);
    ring.ntt.forward(&mut image);
    let key = Key::Separation(level);
    for (half, key) in [(&mut sum.a, common.half(key)), (&mut sum.b, keys.half(key))] {
        sum_of_products(&[(&image, key)], &mut product);
        add(modulus, half, &product);
    }
    Some(sum)
}
