//! ANSWER (paper Figure 1 with the second dimension of section 3.4).

use core::cell::RefCell;

use super::database::Database;
use super::encoding::{answer_header, query_header, strip_header};
use super::shape::{Parameters, QUERY_DROPPED_BITS, SEED_BYTES, query_coefficient_bits};
use crate::bfv::{Ciphertext, GaloisKeys, Workspace};
use crate::expand::{expand_in_place, position};
use crate::ring::bits::{BitReader, BitWriter};
use crate::ring::{self, Aligned, Coefficient, Evaluation, Ntt, Polynomial, Products, sampling};
use crate::{Error, bfv};

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// Columns whose chunks are multiplied and accumulated together.
const COLUMNS_AT_ONCE: usize = 4;

/// Chunks per ciphertext of the second dimension: low and high of c0, low and high of c1.
const CHUNKS: usize = 4;

/// What ends while a tile is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Queries are parsed and expanded.
    Expanded,
    /// The first dimension of one group is done.
    FirstDimension,
    /// What follows is done, for one group or a part of it.
    FurtherDimensions,
}

/// One client's query on its way to an answer. It is kept for the next query, since fresh memory costs more to get than
/// many a stage takes.
#[derive(Default)]
pub(super) struct Progress {
    workspace: Option<Workspace>,
    leaves: Vec<Ciphertext<Evaluation>>,
    products: Products,
    second: SecondDimension,
}

thread_local! {
    /// At most [`TILE`] of them per thread.
    static SPARE: RefCell<Vec<Progress>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn answer(database: &Database, keys: &GaloisKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
    let mut answers = answer_tile(database, &[(keys, query)], &mut |_| ());
    answers.pop().unwrap_or(Err(Error::Malformed("query")))
}

/// Answers up to [`TILE`] queries at a time.
pub(super) fn answer_tile(
    database: &Database,
    queries: &[(&GaloisKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    queries.chunks(TILE).flat_map(|queries| answer_some(database, queries, observe)).collect()
}

fn answer_some(
    database: &Database,
    queries: &[(&GaloisKeys, &[u8])],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = database.parameters();
    let mut tile = SPARE.take();
    tile.resize_with(tile.len().max(queries.len()), Progress::default);
    let expanded: Vec<Result<(), Error>> = queries
        .iter()
        .zip(&mut tile)
        .map(|((keys, query), progress)| {
            progress.expand(parameters, keys, decode_query(parameters, query)?, parameters.rows())
        })
        .collect();
    let mut valid: Vec<&mut Progress> = tile
        .iter_mut()
        .zip(&expanded)
        .filter(|(_, result)| result.is_ok())
        .map(|(progress, _)| progress)
        .collect();
    observe(Stage::Expanded);
    let mut answers = vec![answer_header(parameters).to_vec(); valid.len()];
    for group in 0..parameters.groups() {
        first_dimension(database, group, &mut valid);
        observe(Stage::FirstDimension);
        for (progress, answer) in valid.iter_mut().zip(&mut answers) {
            progress.finish_group(parameters, answer);
        }
        observe(Stage::FurtherDimensions);
    }
    SPARE.set(tile);
    let mut answers = answers.into_iter();
    expanded.into_iter().map(|result| result.map(|()| answers.next().unwrap_or_default())).collect()
}

/// The results of the first dimension for all clients, in one pass.
pub(super) fn first_dimension(database: &Database, group: usize, clients: &mut [&mut Progress]) {
    let (leaves, mut products): (Vec<&[Ciphertext<Evaluation>]>, Vec<&mut Products>) =
        clients.iter_mut().map(|Progress { leaves, products, .. }| (&leaves[..], products)).unzip();
    database.first_dimension(group, &leaves, &mut products);
}

impl Progress {
    /// EXPAND. The first `switched` leaves, those of the rows, go to q with the database; those of the columns stay at Q,
    /// where the second dimension meets them.
    pub(super) fn expand(
        &mut self,
        parameters: &Parameters,
        keys: &GaloisKeys,
        mut query: Ciphertext<Coefficient>,
        switched: usize,
    ) -> Result<(), Error> {
        let bfv = bfv::Parameters::s2048();
        self.leaves.resize_with(parameters.selectors(), || Ciphertext::zero(bfv.degree()));
        query.divide_by_power_of_two(bfv.large().modulus(), parameters.levels());
        let root = self.leaves.first_mut().ok_or(Error::Shape("no selector"))?;
        *root = query.into_evaluation(bfv.large());
        let workspace = self.workspace.get_or_insert_with(|| Workspace::new(bfv));
        expand_in_place(bfv, keys, &mut self.leaves, parameters.levels(), switched, workspace);
        Ok(())
    }

    /// The leaves of EXPAND.
    #[cfg(test)]
    pub(super) fn leaves(&self) -> &[Ciphertext<Evaluation>] {
        &self.leaves
    }

    /// The result of the first dimension for a column.
    #[cfg(test)]
    pub(super) fn product(&self, column: usize) -> Ciphertext<Evaluation> {
        let [c0, c1] = self.products.column(column).map(Polynomial::from_residues);
        Ciphertext { c0, c1 }
    }

    /// From the first dimension's results of one group to the answer.
    fn finish_group(&mut self, parameters: &Parameters, answer: &mut Vec<u8>) {
        let (bfv, columns) = (bfv::Parameters::s2048(), &self.leaves[parameters.rows()..]);
        for part in 0..parameters.parts() {
            if parameters.dimensions() == 1 {
                encode_ciphertext(parameters, bfv.small(), self.second.skip(&self.products, part), answer);
                continue;
            }
            let first = part * parameters.columns();
            for ciphertext in self.second.run(bfv.large(), &self.products, first, columns) {
                encode_ciphertext(parameters, bfv.large(), ciphertext, answer);
            }
        }
    }

    /// The second dimension's results for the group whose first dimension is done.
    #[cfg(test)]
    pub(super) fn second(&mut self, parameters: &Parameters) -> Vec<Ciphertext<Evaluation>> {
        let polynomial = |half: &mut [u64]| Polynomial::from_residues(half.to_vec());
        let results = self.second.run(
            bfv::Parameters::s2048().large(),
            &self.products,
            0,
            &self.leaves[parameters.rows()..],
        );
        results.map(|[c0, c1]| Ciphertext { c0: polynomial(c0), c1: polynomial(c1) }).collect()
    }
}

/// Buffers of the second dimension.
#[derive(Default)]
pub(crate) struct SecondDimension {
    /// c0 and c1 of a few columns, polynomial by polynomial.
    columns: Aligned<u64>,
    /// Their chunks in evaluation form.
    chunks: Aligned<u64>,
    /// Both words of the sums: chunk by chunk, half by half.
    sums: [Aligned<u64>; 2],
    results: Aligned<u64>,
}

impl SecondDimension {
    /// The first dimension's result for a column, where there is no second.
    fn skip(&mut self, products: &Products, column: usize) -> [&mut [u64]; 2] {
        let degree = bfv::Parameters::s2048().degree();
        self.columns.resize(2 * degree, 0);
        products.read(column..column + 1, &mut self.columns);
        self.columns.split_at_mut(degree).into()
    }

    /// `sum_c columns[c] * chunk(c)`, in the ring of the columns' selectors, for each of the four chunks of the results
    /// modulo q of the columns from `first` on. Results are switched to `t^2`; chunks are centred modulo t.
    pub(crate) fn run<'a>(
        &'a mut self,
        ntt: &Ntt,
        products: &Products,
        first: usize,
        columns: &[Ciphertext<Evaluation>],
    ) -> impl Iterator<Item = [&'a mut [u64]; 2]> + use<'a> {
        let bfv = bfv::Parameters::s2048();
        let (degree, bits) = (bfv.degree(), bfv.plaintext_bits());
        let rescale = bfv::Parameters::to_power_of_two(bfv.small(), 2 * bits);
        self.columns.resize(COLUMNS_AT_ONCE * 2 * degree, 0);
        self.chunks.resize(COLUMNS_AT_ONCE * CHUNKS * degree, 0);
        self.sums.iter_mut().for_each(|sums| sums.resize(2 * CHUNKS * degree, 0));
        self.results.resize(2 * CHUNKS * degree, 0);
        for (index, columns) in columns.chunks(COLUMNS_AT_ONCE).enumerate() {
            let first = first + index * COLUMNS_AT_ONCE;
            let halves = &mut self.columns[..columns.len() * 2 * degree];
            products.read(first..first + columns.len(), halves);
            let halves = halves.chunks_exact_mut(degree);
            for (half, chunks) in halves.zip(self.chunks.chunks_exact_mut(2 * degree)) {
                bfv.small().inverse(half);
                rescale.apply_all(half);
                for (shift, chunk) in [0, bits].into_iter().zip(chunks.chunks_exact_mut(degree)) {
                    ring::chunk(ntt.modulus(), shift, bits, chunk, half);
                    ntt.forward(chunk);
                }
            }
            let [sums0, sums1] = &mut self.sums;
            let sums = sums0.chunks_exact_mut(degree).zip(sums1.chunks_exact_mut(degree));
            for (i, (sum0, sum1)) in sums.enumerate() {
                let (chunk, half) = (i / 2, i % 2);
                let chunks = self.chunks.chunks_exact(degree).skip(chunk).step_by(CHUNKS);
                let selectors = columns.iter().map(|column| [&column.c0, &column.c1][half].residues());
                let terms: Vec<(&[u64], &[u64])> = chunks.zip(selectors).collect();
                ring::multiply_accumulate(ntt.modulus(), [sum0, sum1], &terms);
            }
        }
        let [sums0, sums1] = &mut self.sums;
        let sums = sums0.chunks_exact_mut(degree).zip(sums1.chunks_exact_mut(degree));
        for ((sum0, sum1), out) in sums.zip(self.results.chunks_exact_mut(degree)) {
            ring::reduce(ntt.modulus(), out, [sum0, sum1]);
        }
        self.results.chunks_exact_mut(2 * degree).map(move |result| result.split_at_mut(degree).into())
    }
}

/// Parses a query; coefficients that are not sent are 0 and do not reach any leaf.
pub(super) fn decode_query(parameters: &Parameters, bytes: &[u8]) -> Result<Ciphertext<Coefficient>, Error> {
    const MALFORMED: Error = Error::Malformed("query");
    if bytes.len() != parameters.query_bytes() {
        return Err(MALFORMED);
    }
    let body = strip_header(bytes, query_header(parameters), MALFORMED)?;
    let (seed, packed) = body.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
    let bfv = bfv::Parameters::s2048();
    let mut c0 = Polynomial::zero(bfv.degree());
    let mut reader = BitReader::new(packed);
    for selector in 0..parameters.selectors() {
        let first = position(selector, parameters.levels());
        for coefficient in (first..bfv.degree()).step_by(1 << parameters.levels()) {
            // The middle of what the client may have meant; below Q for every field.
            let field = reader.read(query_coefficient_bits()) << QUERY_DROPPED_BITS;
            c0.residues_mut()[coefficient] = field + (1 << (QUERY_DROPPED_BITS - 1));
        }
    }
    if !reader.is_finished() {
        return Err(MALFORMED);
    }
    Ok(Ciphertext { c0, c1: sampling::uniform(bfv.large(), seed, 0) })
}

/// Switches a ciphertext of the given ring to the answer's modulus and appends it; it is used up.
pub(crate) fn encode_ciphertext(
    parameters: &Parameters,
    ntt: &Ntt,
    ciphertext: [&mut [u64]; 2],
    answer: &mut Vec<u8>,
) {
    let bits = parameters.answer_coefficient_bits();
    let rescale = bfv::Parameters::to_power_of_two(ntt, bits);
    let mut writer = BitWriter::new(answer);
    for half in ciphertext {
        ntt.inverse(half);
        rescale.apply_all(half);
        half.iter().for_each(|value| writer.write(*value, bits));
    }
    writer.finish();
}
