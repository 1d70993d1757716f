//! ANSWER (paper Figure 1 with the second dimension of section 3.4).

use core::cell::RefCell;

use super::database::Database;
use super::encoding::{answer_header, query_header, strip_header};
use super::format::{QUERY_DROPPED_BITS, SEED_BYTES};
use super::shape::{Parameters, query_coefficient_bits};
use crate::bfv::{Ciphertext, GaloisKeys, Workspace};
use crate::dimensions::{FurtherDimension, Products, Stage};
use crate::expand::{expand_in_place, position};
use crate::ring::bits::BitReader;
use crate::ring::{Coefficient, Evaluation, Polynomial, sampling};
use crate::{Error, bfv};

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// One client's query on its way to an answer. It is kept for the next query, since fresh memory costs more to get than
/// many a stage takes.
#[derive(Default)]
pub(super) struct Progress {
    workspace: Option<Workspace>,
    leaves: Vec<Ciphertext<Evaluation>>,
    products: Products,
    second: FurtherDimension,
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
    database.matrix().first_dimension(group, &leaves, &mut products);
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
        let form = parameters.answer_form();
        for part in 0..parameters.parts() {
            if parameters.dimensions() == 1 {
                form.write(bfv.small(), self.second.skip(&self.products, part), answer);
                continue;
            }
            let first = part * parameters.columns();
            for ciphertext in self.second.run(bfv.large(), &self.products, first, columns) {
                form.write(bfv.large(), ciphertext, answer);
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
