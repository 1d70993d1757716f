//! What a query becomes on the server: a ciphertext for each row, and an RGSW ciphertext for each bit of a column's number.

use pir_core::bfv::{Ciphertext, Gadget, Workspace, digit_products};
use pir_core::expand::{expand_in_place, position};
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Aligned, Coefficient, Evaluation, Polynomial, sampling};
use pir_core::{Error, bfv};

use super::encoding::{ROW_DROPPED_BITS, SEED_BYTES, VALUE_DROPPED_BITS, query_header};
use super::keys::PublicKeys;
use super::shape::Parameters;

/// The gadget of external products.
pub(super) const PRODUCT: Gadget = Gadget { digits: 3, base_bits: 7 };

/// A parsed query, in coefficients.
pub(super) struct Query {
    rows: Ciphertext<Coefficient>,
    /// Of the values of bits, if there are any.
    values: Option<Ciphertext<Coefficient>>,
}

/// One client's selectors.
#[derive(Debug)]
pub(super) struct Selectors {
    /// Modulo q.
    pub(super) rows: Vec<Ciphertext<Evaluation>>,
    /// The lowest bit first.
    pub(super) bits: Vec<Rgsw>,
}

/// An RGSW ciphertext of a bit modulo Q, in evaluation form.
#[derive(Debug)]
pub(super) struct Rgsw {
    /// c0 and c1 of `w_i b` for all weights, then those of `w_i b s`, N slots each.
    pub(super) halves: Aligned<u64>,
}

/// Buffers of one thread for [`Rgsw::choose`].
pub(super) struct Buffers {
    difference: Aligned<u64>,
    digits: Aligned<u64>,
    product: Aligned<u64>,
}

impl Default for Buffers {
    fn default() -> Self {
        let filled = |polynomials: usize| Aligned::filled(0, polynomials * bfv::Parameters::s2048().degree());
        Self { difference: filled(1), digits: filled(2 * PRODUCT.digits as usize), product: filled(2) }
    }
}

impl Query {
    /// Parses a query. Coefficients that are not sent are 0 and do not reach any leaf.
    pub(super) fn decode(parameters: &Parameters, bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("query");
        if bytes.len() != parameters.query_bytes() {
            return Err(MALFORMED);
        }
        let body = bytes.strip_prefix(&query_header(parameters)).ok_or(MALFORMED)?;
        let (rows, rest) = body.split_at_checked(parameters.row_bytes()).ok_or(MALFORMED)?;
        let rows = decode_ciphertext(rows, parameters.rows(), parameters.levels(), ROW_DROPPED_BITS)?;
        let values = parameters.values();
        let decode = |rest| decode_ciphertext(rest, values, parameters.value_levels(), VALUE_DROPPED_BITS);
        Ok(Self { rows, values: (values > 0).then(|| decode(rest)).transpose()? })
    }

    /// EXPAND, and what makes RGSW ciphertexts of leaves.
    pub(super) fn expand(self, parameters: &Parameters, keys: &PublicKeys) -> Selectors {
        let rows = leaves(keys, self.rows, parameters.rows(), parameters.levels(), parameters.rows());
        let values = self
            .values
            .map(|values| leaves(keys, values, parameters.values(), parameters.value_levels(), 0))
            .unwrap_or_default();
        let bits = values.chunks_exact(PRODUCT.digits as usize).map(|values| Rgsw::new(keys, values));
        Selectors { rows, bits: bits.collect() }
    }
}

fn decode_ciphertext(
    bytes: &[u8],
    leaves: usize,
    levels: u32,
    dropped: u32,
) -> Result<Ciphertext<Coefficient>, Error> {
    let bfv = bfv::Parameters::s2048();
    let (seed, packed) = bytes.split_first_chunk::<SEED_BYTES>().ok_or(Error::Malformed("query"))?;
    let mut c0 = Polynomial::zero(bfv.degree());
    let mut reader = BitReader::new(packed);
    for leaf in 0..leaves {
        for coefficient in (position(leaf, levels)..bfv.degree()).step_by(1 << levels) {
            // The middle of what the client may have meant; below Q for every field.
            let field = reader.read(bfv.large().modulus().bits() - dropped) << dropped;
            c0.residues_mut()[coefficient] = field + (1 << (dropped - 1));
        }
    }
    if !reader.is_finished() {
        return Err(Error::Malformed("query"));
    }
    Ok(Ciphertext { c0, c1: sampling::uniform(bfv.large(), seed, 0) })
}

fn leaves(
    keys: &PublicKeys,
    mut query: Ciphertext<Coefficient>,
    count: usize,
    levels: u32,
    switched: usize,
) -> Vec<Ciphertext<Evaluation>> {
    let bfv = bfv::Parameters::s2048();
    let mut leaves = vec![Ciphertext::zero(bfv.degree()); count];
    query.divide_by_power_of_two(bfv.large().modulus(), levels);
    if let Some(root) = leaves.first_mut() {
        *root = query.into_evaluation(bfv.large());
    }
    expand_in_place(bfv, keys.galois(), &mut leaves, levels, switched, &mut Workspace::new(bfv));
    leaves
}

impl Rgsw {
    /// From ciphertexts of `w_i b` for all weights, in evaluation form.
    fn new(keys: &PublicKeys, values: &[Ciphertext<Evaluation>]) -> Self {
        let degree = bfv::Parameters::s2048().degree();
        let mut halves = Aligned::filled(0, 4 * values.len() * degree);
        let (first, second) = halves.split_at_mut(2 * values.len() * degree);
        let pairs = first.chunks_exact_mut(2 * degree).zip(second.chunks_exact_mut(2 * degree));
        for (value, (first, second)) in values.iter().zip(pairs) {
            let both = [value.c0.residues(), value.c1.residues()];
            first[..degree].copy_from_slice(both[0]);
            first[degree..].copy_from_slice(both[1]);
            keys.times_secret(both, second.split_at_mut(degree).into());
        }
        Self { halves }
    }

    /// Replaces a ciphertext, in coefficients modulo Q, by another one if the bit is 1: `x + C [x] (y - x)`.
    pub(super) fn choose(&self, x: &mut [Aligned<u64>; 2], y: &[Aligned<u64>; 2], buffers: &mut Buffers) {
        let bfv = bfv::Parameters::s2048();
        let (ntt, modulus, degree) = (bfv.large(), bfv.large().modulus(), bfv.degree());
        let Buffers { difference, digits, product } = buffers;
        let halves = digits.chunks_exact_mut(PRODUCT.digits as usize * degree);
        for ((digits, x), y) in halves.zip(x.iter()).zip(y) {
            for ((difference, x), y) in difference.iter_mut().zip(x.iter()).zip(y.iter()) {
                *difference = modulus.sub(*y, *x);
            }
            PRODUCT.decompose(ntt, difference, digits);
        }
        let (c0, c1) = product.split_at_mut(degree);
        digit_products(modulus, [&mut *c0, &mut *c1], digits, &self.halves);
        for (x, product) in x.iter_mut().zip([c0, c1]) {
            ntt.inverse(product);
            x.iter_mut().zip(product).for_each(|(x, product)| *x = modulus.add(*x, *product));
        }
    }
}
