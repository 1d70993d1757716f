//! ANSWER (paper Figure 1 with the second dimension of section 3.4).

use super::database::{Database, centre};
use super::encoding::{answer_header, query_header, strip_header};
use super::shape::{Parameters, SEED_BYTES};
use crate::bfv::{Ciphertext, GaloisKeys};
use crate::expand::{expand, position};
use crate::noise::CHUNK_BITS;
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{self, Coefficient, Evaluation, Polynomial, sampling};
use crate::{Error, bfv};

pub(super) fn answer(database: &Database, keys: &GaloisKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
    let parameters = database.parameters();
    let query = decode_query(parameters, query)?;
    let selectors =
        expand(bfv::Parameters::s4096(), keys, query, parameters.selectors(), parameters.levels());
    let (rows, columns) = selectors.split_at(parameters.rows());

    let mut answer = Vec::with_capacity(parameters.answer_bytes());
    answer.extend(answer_header(parameters));
    for group in 0..parameters.groups() {
        if parameters.dimensions() == 1 {
            encode_ciphertext(parameters, database.inner_product(group, 0, rows), &mut answer);
        } else {
            for product in second_dimension(database, group, rows, columns) {
                encode_ciphertext(parameters, product, &mut answer);
            }
        }
    }
    Ok(answer)
}

/// Parses a query; coefficients that are not sent are 0 and do not reach any leaf.
pub(super) fn decode_query(parameters: &Parameters, bytes: &[u8]) -> Result<Ciphertext<Coefficient>, Error> {
    const MALFORMED: Error = Error::Malformed("query");
    if bytes.len() != parameters.query_bytes() {
        return Err(MALFORMED);
    }
    let body = strip_header(bytes, query_header(parameters), MALFORMED)?;
    let (seed, packed) = body.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
    let bfv = bfv::Parameters::s4096();
    let basis = bfv.ciphertext_basis();
    let mut c0 = Polynomial::zero(basis);
    let mut reader = BitReader::new(packed);
    for selector in 0..parameters.selectors() {
        let first = position(selector, parameters.levels());
        for coefficient in (first..bfv.degree()).step_by(1 << parameters.levels()) {
            for (i, modulus) in basis.moduli().enumerate() {
                let residue = reader.read(modulus.bits());
                if residue >= modulus.value() {
                    return Err(MALFORMED);
                }
                c0.channel_mut(i)[coefficient] = residue;
            }
        }
    }
    if !reader.is_finished() {
        return Err(MALFORMED);
    }
    Ok(Ciphertext { c0, c1: sampling::uniform(basis, seed, 0) })
}

/// `sum_c columns[c] * chunk(c)` for each of the four chunks of the columns' first-dimension results.
pub(super) fn second_dimension(
    database: &Database,
    group: usize,
    rows: &[Ciphertext<Evaluation>],
    columns: &[Ciphertext<Evaluation>],
) -> Vec<Ciphertext<Evaluation>> {
    let bfv = bfv::Parameters::s4096();
    let basis = bfv.ciphertext_basis();
    let residues = bfv.degree() * basis.transforms().len();
    let mut sums = vec![[vec![0; residues], vec![0; residues]]; 4];
    for (column, selector) in columns.iter().enumerate() {
        let product = database.inner_product(group, column, rows);
        let switched = product.into_coefficient(basis).switch_to_first(bfv);
        for (chunk, [sum0, sum1]) in chunks(&switched).zip(&mut sums) {
            let chunk = Polynomial::from_signed(basis, &chunk).into_evaluation(basis);
            ring::multiply_accumulate(sum0, &[(chunk.residues(), selector.c0.residues())]);
            ring::multiply_accumulate(sum1, &[(chunk.residues(), selector.c1.residues())]);
        }
    }
    let reduce = |mut sums: Vec<u128>| {
        let mut out = Polynomial::zero(basis);
        for ((i, modulus), sums) in basis.moduli().enumerate().zip(sums.chunks_exact_mut(bfv.degree())) {
            ring::reduce(modulus, out.channel_mut(i), sums);
        }
        out
    };
    sums.into_iter().map(|[sum0, sum1]| Ciphertext { c0: reduce(sum0), c1: reduce(sum1) }).collect()
}

/// The low and the high 18 bits of the coefficients of c0, then of c1, centred modulo 2^18.
pub(super) fn chunks(ciphertext: &Ciphertext<Coefficient>) -> impl Iterator<Item = Vec<i64>> {
    [&ciphertext.c0, &ciphertext.c1].into_iter().flat_map(|half| {
        [0, CHUNK_BITS]
            .map(|shift| half.channel(0).iter().map(|value| centre(value >> shift, CHUNK_BITS)).collect())
    })
}

/// Switches a ciphertext to the answer's modulus and appends it.
fn encode_ciphertext(parameters: &Parameters, ciphertext: Ciphertext<Evaluation>, answer: &mut Vec<u8>) {
    let bfv = bfv::Parameters::s4096();
    let switched = ciphertext.into_coefficient(bfv.ciphertext_basis()).switch_to_first(bfv);
    let bits = parameters.answer_coefficient_bits();
    let rescale = bfv.rescale_first(bits);
    let mut writer = BitWriter::new(answer);
    for half in [&switched.c0, &switched.c1] {
        half.channel(0).iter().for_each(|value| writer.write(rescale.apply(*value), bits));
    }
    writer.finish();
}
