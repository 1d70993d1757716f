//! What is sent, byte by byte: fields without gaps, the lowest bit first, as in [`crate::ring::bits`].
//!
//! * A request: the key of the step, then of the conjugation, 2,048 residues of 50 bits each by place; then for each bucket a
//!   query, a field of 39 bits for each position, padded with zero bits to whole bytes.
//! * A hint of a unit: 2,048 fields of 18 bits for each pack.
//! * An answer of a unit: a field of 11 bits for each output.

use super::ring::{DEGREE, MODULUS_BITS, ORBIT, QUERY_BITS, RADIX_BITS, Ring, woven};
use super::shape::Shape;
use crate::Error;
use crate::ring::bits::{packed_bytes, unpack};

/// A client's keys as packing reads them.
pub(super) struct Keys {
    /// Woven: of both halves, for each place below N/16 the eight places that are N/16 apart from there on.
    pub(super) step: Vec<u64>,
    /// Minus the sum over the orbit of the product of both halves.
    pub(super) crossings: u64,
    /// Woven.
    pub(super) conjugation: Vec<u64>,
}

impl Keys {
    /// Reads them at the beginning of a request.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there are too few bytes, or what stands there is no residue.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let each = packed_bytes(DEGREE, MODULUS_BITS);
        let (step, rest) = bytes.split_at_checked(each).ok_or(Error::Malformed("keys"))?;
        let conjugation = rest.get(..each).ok_or(Error::Malformed("keys"))?;
        let residues = |bytes: &[u8]| {
            let mut values = vec![0; DEGREE];
            unpack(MODULUS_BITS, bytes, &mut values);
            let q = Ring::get().modulus().value();
            if values.iter().all(|value| *value < q) { Ok(values) } else { Err(Error::Malformed("keys")) }
        };
        let (step, conjugation) = (residues(step)?, residues(conjugation)?);
        let weave = |half: &[u64]| (0..ORBIT).map(|at| half[woven(at)]).collect::<Vec<_>>();
        let crossings = crossings(&step);
        let conjugation = conjugation.chunks_exact(ORBIT).flat_map(weave).collect();
        let step = step.chunks_exact(ORBIT).flat_map(weave).collect();
        Ok(Self { step, crossings, conjugation })
    }
}

/// See [`Keys`].
fn crossings(step: &[u64]) -> u64 {
    let modulus = Ring::get().modulus();
    let (first, second) = step.split_at(ORBIT);
    let products = first.iter().zip(second).map(|(a, b)| modulus.mul(*a, *b));
    products.fold(0, |left, product| modulus.sub(left, product))
}

/// The query of a bucket among those of a round, of each coefficient the limbs by which the first dimension multiplies two rows.
pub(super) fn read_query(shape: &Shape, bucket: usize, queries: &[u8]) -> Vec<[u32; 4]> {
    let each = shape.query_bytes();
    let bytes = &queries[bucket * each..][..each];
    // Whole groups of eight fields.
    let fields = shape.positions().next_multiple_of(8);
    let mut padded = vec![0; packed_bytes(fields, QUERY_BITS)];
    padded[..each].copy_from_slice(bytes);
    let mut values = vec![0; fields];
    unpack(QUERY_BITS, &padded, &mut values);
    values.truncate(shape.positions());
    values.iter().map(|value| limbs(*value)).collect()
}

/// Refuses queries, one behind the other, of which the last bits of some are no field's and not zero.
///
/// # Errors
/// [`Error::Malformed`] then.
pub(super) fn check_padding(shape: &Shape, queries: &[u8]) -> Result<(), Error> {
    let used = shape.positions() * QUERY_BITS as usize % 8;
    let mut queries = queries.chunks_exact(shape.query_bytes());
    if used != 0 && queries.any(|query| query.last().is_some_and(|last| last >> used != 0)) {
        return Err(Error::Malformed("padding of a query"));
    }
    Ok(())
}

/// `b = b0 + 2^13 b1 + 2^26 b2`: what the even row is multiplied with in the low half of each word, the odd one in the high half.
fn limbs(b: u64) -> [u32; 4] {
    let limb = |number: u32| (b >> (number * RADIX_BITS)) as u32 & ((1 << RADIX_BITS) - 1);
    [limb(0), limb(1) | limb(0) << 16, limb(2) | limb(1) << 16, 0]
}
