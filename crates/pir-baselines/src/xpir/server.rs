//! The database, plane by plane, and ANSWER (paper Figure 1 with the further dimensions of section 3.4).

use pir_core::bfv::Ciphertext;
use pir_core::dimensions::{CHUNKS, FurtherDimension, Matrix, Products, Stage};
use pir_core::packing::Packing;
use pir_core::ring::bits::unpack;
use pir_core::ring::{Evaluation, Polynomial, sampling};
use pir_core::{Error, PagePool, bfv};

use super::encoding::{SEED_BYTES, answer_header, query_header};
use super::shape::{Parameters, selector_bytes};

/// Clients that are answered in one pass over the database.
const TILE: usize = 16;

/// Parsed queries of a tile take at most as many bytes, unless one alone takes more.
const TILE_BYTES: usize = 1 << 28;

/// A database ready to answer.
pub struct Database<const D: usize> {
    parameters: Parameters<D>,
    planes: Vec<Matrix>,
}

/// One client's answer in the making.
#[derive(Default)]
pub(super) struct Progress {
    /// The first dimension's results for one plane.
    products: Products,
    second: FurtherDimension,
    /// If d = 3, each chunk's results of the second dimension, plane by plane.
    planes: [Products; CHUNKS],
}

impl<const D: usize> Database<D> {
    /// Packs and transforms `elements * element_bytes` bytes, on all threads of the current rayon pool, into memory of a page
    /// pool.
    ///
    /// # Errors
    /// [`Error::Shape`] if the size is not that of the parameters.
    pub fn new(pool: &PagePool, parameters: &Parameters<D>, elements: &[u8]) -> Result<Self, Error> {
        let ([rows, columns], size) = (parameters.plane(), parameters.element_bytes());
        if elements.len() != parameters.elements() * parameters.element_bytes() {
            return Err(Error::Shape("size of the database"));
        }
        let in_plane = rows * columns * parameters.packing().elements_per_plaintext();
        let planes = elements
            .chunks(in_plane * size)
            .map(|part| Matrix::new(pool, &Packing::new(part.len() / size, size)?, [rows, columns], part));
        Ok(Self { parameters: *parameters, planes: planes.collect::<Result<_, _>>()? })
    }

    /// The shape it was made for.
    #[must_use]
    pub fn parameters(&self) -> &Parameters<D> {
        &self.parameters
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.planes.iter().map(Matrix::bytes).sum()
    }
}

/// [`pir_core::Scheme::answer_tile`], telling `observe` whenever a stage has ended for a whole tile.
pub(super) fn answer_tile<const D: usize>(
    database: &Database<D>,
    queries: &[&[u8]],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parsed = database.parameters.selectors() * 2 * bfv::Parameters::s2048().degree() * size_of::<u64>();
    let tile = (TILE_BYTES / parsed).clamp(1, TILE);
    queries.chunks(tile).flat_map(|queries| answer_some(database, queries, observe)).collect()
}

fn answer_some<const D: usize>(
    database: &Database<D>,
    queries: &[&[u8]],
    observe: &mut dyn FnMut(Stage),
) -> Vec<Result<Vec<u8>, Error>> {
    let parameters = &database.parameters;
    let parsed: Vec<_> = queries.iter().map(|query| decode_query(parameters, query)).collect();
    observe(Stage::Expanded);
    let selectors: Vec<&[Ciphertext<Evaluation>]> = parsed.iter().flatten().map(Vec::as_slice).collect();
    let mut clients: Vec<Progress> = selectors.iter().map(|_| Progress::default()).collect();
    let mut answers = vec![answer_header::<D>(parameters.answer_coefficient_bits()).to_vec(); clients.len()];
    for group in 0..parameters.groups() {
        for plane in 0..database.planes.len() {
            first_dimension(database, plane, group, &selectors, &mut clients);
            observe(Stage::FirstDimension);
            for ((client, selectors), answer) in clients.iter_mut().zip(&selectors).zip(&mut answers) {
                client.second(parameters, plane, selectors, answer);
            }
            observe(Stage::FurtherDimensions);
        }
        for ((client, selectors), answer) in clients.iter_mut().zip(&selectors).zip(&mut answers) {
            client.third(parameters, selectors, answer);
        }
        observe(Stage::FurtherDimensions);
    }
    let mut answers = answers.into_iter();
    parsed.into_iter().map(|parsed| parsed.map(|_| answers.next().unwrap_or_default())).collect()
}

/// The first dimension's results of one plane for all clients, in one pass.
pub(super) fn first_dimension<const D: usize>(
    database: &Database<D>,
    plane: usize,
    group: usize,
    selectors: &[&[Ciphertext<Evaluation>]],
    clients: &mut [Progress],
) {
    let mut products: Vec<&mut Products> = clients.iter_mut().map(|client| &mut client.products).collect();
    database.planes[plane].first_dimension(group, selectors, &mut products);
}

impl Progress {
    /// The second dimension for the plane whose first is done: its results are the answer if d = 2, and kept otherwise.
    pub(super) fn second<const D: usize>(
        &mut self,
        parameters: &Parameters<D>,
        plane: usize,
        selectors: &[Ciphertext<Evaluation>],
        answer: &mut Vec<u8>,
    ) {
        let ring = bfv::Parameters::s2048().small();
        let [rows, columns] = parameters.plane();
        let results = self.second.run(ring, &self.products, 0, &selectors[rows..rows + columns]);
        for (result, kept) in results.zip(&mut self.planes) {
            if let Some(planes) = parameters.shape().get(2) {
                kept.resize(*planes, ring.degree());
                kept.write(plane, result.map(|half| &*half));
            } else {
                parameters.answer_form().write(ring, result, answer);
            }
        }
    }

    /// The third dimension, if there is one, for the group whose planes are done.
    pub(super) fn third<const D: usize>(
        &mut self,
        parameters: &Parameters<D>,
        selectors: &[Ciphertext<Evaluation>],
        answer: &mut Vec<u8>,
    ) {
        let Some(planes) = parameters.shape().get(2).copied() else { return };
        let ring = bfv::Parameters::s2048().small();
        let selectors = &selectors[selectors.len() - planes..];
        for kept in &self.planes {
            for result in self.second.run(ring, kept, 0, selectors) {
                parameters.answer_form().write(ring, result, answer);
            }
        }
    }

    /// The first dimension's result for a column.
    #[cfg(test)]
    pub(super) fn product(&self, column: usize) -> Ciphertext<Evaluation> {
        ciphertext(&self.products, column)
    }

    /// The second dimension's results for a plane, if d = 3.
    #[cfg(test)]
    pub(super) fn kept(&self, plane: usize) -> [Ciphertext<Evaluation>; CHUNKS] {
        self.planes.each_ref().map(|kept| ciphertext(kept, plane))
    }
}

#[cfg(test)]
fn ciphertext(products: &Products, column: usize) -> Ciphertext<Evaluation> {
    let degree = bfv::Parameters::s2048().degree();
    let mut halves = vec![0; 2 * degree];
    products.read(column..column + 1, &mut halves);
    let [c0, c1] = [0, degree].map(|start| halves[start..start + degree].to_vec());
    Ciphertext { c0: Polynomial::from_residues(c0), c1: Polynomial::from_residues(c1) }
}

/// Parses a query into its selectors.
pub(super) fn decode_query<const D: usize>(
    parameters: &Parameters<D>,
    bytes: &[u8],
) -> Result<Vec<Ciphertext<Evaluation>>, Error> {
    const MALFORMED: Error = Error::Malformed("query");
    if bytes.len() != parameters.query_bytes() {
        return Err(MALFORMED);
    }
    let body = bytes.strip_prefix(&query_header::<D>()).ok_or(MALFORMED)?;
    let (seed, packed) = body.split_first_chunk::<SEED_BYTES>().ok_or(MALFORMED)?;
    let bfv = bfv::Parameters::s2048();
    let (ntt, modulus) = (bfv.small(), bfv.small().modulus());
    let selectors = packed.chunks_exact(selector_bytes()).zip(0..).map(|(packed, stream)| {
        let mut c0 = Polynomial::zero(bfv.degree());
        unpack(modulus.bits(), packed, c0.residues_mut());
        if c0.residues().iter().any(|slot| *slot >= modulus.value()) {
            return Err(MALFORMED);
        }
        Ok(Ciphertext { c0, c1: sampling::uniform(ntt, seed, stream) })
    });
    selectors.collect()
}
