//! SETUP and ANSWER (paper Figure 1 with sections 3.3 and 3.4).

use std::sync::LazyLock;

use pir_core::Error;
use pir_core::bfv::Ciphertext;
use pir_core::dimensions::Stage;
use pir_core::ring::bits::BitReader;
use pir_core::ring::{Coefficient, Evaluation, Polynomial, sampling};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};

use super::encoding::{answer_header, query_header, read_ciphertexts, write_ciphertext};
use super::expand::expand;
use super::kernel::{DEGREE, backward_ciphertext, forward, forward_ciphertext, from_signed, inner_products};
use super::keys::PublicKeys;
use super::shape::Parameters;

/// A database ready to answer: plaintexts modulo q in evaluation form, 8 bytes for every slot.
pub struct Database<const T: u32> {
    parameters: Parameters<T>,
    /// Column by column; the last column may be short.
    plaintexts: Vec<Polynomial<Evaluation>>,
}

impl<const T: u32> Database<T> {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(parameters: &Parameters<T>, elements: &[u8]) -> Result<Self, Error> {
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let plaintexts = (0..parameters.plaintexts()).into_par_iter();
        let plaintexts = plaintexts.map(|plaintext| forward(encode(parameters, elements, plaintext)));
        Ok(Self { parameters: *parameters, plaintexts: plaintexts.collect() })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters<T> {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.plaintexts.len() * DEGREE * size_of::<u64>()
    }
}

/// Plaintext number `plaintext` of the database.
fn encode<const T: u32>(
    parameters: &Parameters<T>,
    elements: &[u8],
    plaintext: usize,
) -> Polynomial<Coefficient> {
    let size = parameters.elements_per_plaintext() * parameters.element_bytes();
    let part = &elements[plaintext * size..elements.len().min((plaintext + 1) * size)];
    encode_part(parameters, part, plaintext)
}

/// The plaintext of the given elements: whitened bytes, cut into coefficients of log2 t' bits, centred.
pub(super) fn encode_part<const T: u32>(
    parameters: &Parameters<T>,
    part: &[u8],
    plaintext: usize,
) -> Polynomial<Coefficient> {
    let mut bytes = vec![0; parameters.plaintext_bytes()];
    bytes[..part.len()].copy_from_slice(part);
    whiten(&mut bytes, plaintext);
    let mut reader = BitReader::new(&bytes);
    let bits = parameters.plaintext_bits();
    Polynomial::from_residues((0..DEGREE).map(|_| centred(reader.read(bits), bits)))
}

/// The residue modulo q of the representative in `[-2^(bits-1), 2^(bits-1))`.
fn centred(value: u64, bits: u32) -> u64 {
    from_signed(((value << (u64::BITS - bits)) as i64) >> (u64::BITS - bits))
}

/// XORs the public keystream of a plaintext into its bytes: ChaCha8 under SHA-256("sotto sealpir paper whitening v1").
pub(super) fn whiten(bytes: &mut [u8], plaintext: usize) {
    static SEED: LazyLock<[u8; 32]> =
        LazyLock::new(|| Sha256::digest(b"sotto sealpir paper whitening v1").into());
    sampling::whiten(bytes, &SEED, plaintext as u64);
}

/// Answers one query, telling `observe` when a stage has ended.
pub(super) fn answer<const T: u32>(
    database: &Database<T>,
    keys: &PublicKeys<T>,
    query: &[u8],
    observe: &mut dyn FnMut(Stage),
) -> Result<Vec<u8>, Error> {
    let parameters = &database.parameters;
    let mut selectors = selectors(parameters, keys, query)?.into_iter();
    observe(Stage::Expanded);
    let rows = selectors.next().unwrap_or_default();
    let columns: Vec<&[Polynomial<Evaluation>]> = database.plaintexts.chunks(parameters.rows()).collect();
    let mut results = inner_products(&rows, &columns);
    observe(Stage::FirstDimension);
    if let Some(columns) = selectors.next() {
        results = second_dimension(parameters, &columns, results);
    }
    let answer = encode_answer(parameters, results);
    observe(Stage::FurtherDimensions);
    Ok(answer)
}

/// The results of the last dimension as they are sent.
pub(super) fn encode_answer<const T: u32>(
    parameters: &Parameters<T>,
    results: Vec<Ciphertext<Evaluation>>,
) -> Vec<u8> {
    let mut answer = Vec::with_capacity(parameters.answer_bytes());
    answer.extend(answer_header(parameters));
    for result in results {
        write_ciphertext(&backward_ciphertext(result), &mut answer);
    }
    answer
}

/// Parses a query and expands the ciphertext of each dimension.
pub(super) fn selectors<const T: u32>(
    parameters: &Parameters<T>,
    keys: &PublicKeys<T>,
    query: &[u8],
) -> Result<Vec<Vec<Ciphertext<Evaluation>>>, Error> {
    const MALFORMED: Error = Error::Malformed("query");
    if query.len() != parameters.query_bytes() {
        return Err(MALFORMED);
    }
    let body = query.strip_prefix(&query_header(parameters)).ok_or(MALFORMED)?;
    let ciphertexts = read_ciphertexts(body).ok_or(MALFORMED)?;
    let expanded = ciphertexts.into_iter().zip(parameters.selectors()).map(|(query, (selectors, levels))| {
        expand(keys, query, selectors, levels).into_iter().map(forward_ciphertext).collect()
    });
    Ok(expanded.collect())
}

/// The inner products of the columns' selectors with the chunks of the first dimension's results: F ciphertexts.
pub(super) fn second_dimension<const T: u32>(
    parameters: &Parameters<T>,
    selectors: &[Ciphertext<Evaluation>],
    results: Vec<Ciphertext<Evaluation>>,
) -> Vec<Ciphertext<Evaluation>> {
    let mut chunks = vec![Vec::with_capacity(results.len()); parameters.expansion_factor()];
    for result in results {
        let result = backward_ciphertext(result);
        let parts = split(&result, parameters.plaintext_bits());
        chunks.iter_mut().zip(parts).for_each(|(chunks, part)| chunks.push(forward(part)));
    }
    let chunks: Vec<&[Polynomial<Evaluation>]> = chunks.iter().map(Vec::as_slice).collect();
    inner_products(selectors, &chunks)
}

/// A ciphertext as F plaintexts: c0's first, the lowest bits first.
pub(super) fn split(
    ciphertext: &Ciphertext<Coefficient>,
    bits: u32,
) -> impl Iterator<Item = Polynomial<Coefficient>> {
    let shifts = (0..super::kernel::Q_BITS).step_by(bits as usize);
    let mask = (1 << bits) - 1;
    [&ciphertext.c0, &ciphertext.c1].into_iter().flat_map(move |half| {
        shifts.clone().map(move |shift| {
            let chunk = half.residues().iter().map(|value| centred(value >> shift & mask, bits));
            Polynomial::from_residues(chunk)
        })
    })
}
