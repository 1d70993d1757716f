//! ANSWER (paper Figure 1 with the second dimension of section 3.4).

use super::database::Database;
use super::encoding::{answer_header, query_header, strip_header};
use super::format::{QUERY_DROPPED_BITS, SEED_BYTES};
use super::progress::Progress;
use super::shape::{Parameters, query_coefficient_bits};
use crate::bfv::{Ciphertext, GaloisKeys};
use crate::dimensions::Stage;
use crate::expand::position;
use crate::ring::bits::BitReader;
use crate::ring::{Coefficient, Polynomial, sampling};
use crate::{Error, bfv};

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

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
    let mut tile = database.tiles().take();
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
    database.tiles().put(tile);
    let mut answers = answers.into_iter();
    expanded.into_iter().map(|result| result.map(|()| answers.next().unwrap_or_default())).collect()
}

/// The results of the first dimension for all clients, in one pass.
pub(super) fn first_dimension(database: &Database, group: usize, clients: &mut [&mut Progress]) {
    let (leaves, mut products): (Vec<_>, Vec<_>) =
        clients.iter_mut().map(|progress| progress.of_first_dimension()).unzip();
    database.matrix().first_dimension(group, &leaves, &mut products);
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
