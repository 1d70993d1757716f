//! The search for parameters: of all that satisfy the failure bound, the cheapest by a model of the server's work and of the
//! bytes that are sent.
//!
//! Work is counted in transforms of one prime, which take about 2 us, and everything else by what it takes of that: a product of
//! a polynomial of the database with a pair of polynomials [`PRODUCT`] for a residue of 36 bits, such a pair that is put in order
//! for a matrix of the database [`ARRANGED`], a polynomial of a query that is read [`READ`]. A KiB that is sent counts as much as 6 us of a core, as for SealPIR; but not of queries that are uploaded
//! as they are, which are to be few and serve long: [`super::MAXIMUM_QUERY_BYTES`] bounds them.

use pir_core::Error;
use pir_core::bfv::Gadget;
use pir_core::noise::MAXIMUM_FAILURE_LOG2;

use super::lattice::DEGREE;
use super::noise::{self, quietest};
use super::preset::{BIT_LEVELS, Preset};
use super::shape::{MAXIMUM_QUERY_BYTES, Parameters};

/// Transforms that a product with a polynomial of the database costs, of 36 bits.
const PRODUCT: f64 = 0.15;

/// Transforms that drawing, unpacking and checking a polynomial of a query costs.
const READ: f64 = 3.0;

/// Transforms that putting a pair of a row's polynomials in order for a matrix of the database costs.
const ARRANGED: f64 = 0.5;

/// Transforms that a KiB on the network costs.
const SENT_KIB: f64 = 3.0;

/// Bits of the coefficients with a message beyond those of p, the paper's.
const MESSAGE_MARGIN_BITS: u32 = 2;

/// log2 p is at most.
const MAXIMUM_PLAINTEXT_BITS: u32 = 20;

/// Bits that columns are folded by are at most.
const MAXIMUM_FOLDS: u32 = 11;

/// Digits of a folding bit are at most; where low bits are dropped, few are enough.
const MAXIMUM_DIGITS: u32 = 4;
const MAXIMUM_DIGITS_AS_PUBLISHED: u32 = 12;

impl Parameters {
    /// The cheapest parameters of a preset.
    ///
    /// # Errors
    /// [`Error::Security`] if it has less than 128 bits; [`Error::Shape`] if there is no element, an element is empty, or there
    /// are too many or too long ones.
    pub fn new(preset: usize, elements: usize, element_bytes: usize) -> Result<Self, Error> {
        let bits = Preset::of(preset).security_bits();
        if bits < 128 {
            return Err(Error::Security { bits });
        }
        Self::new_allowing_insecure_parameters(preset, elements, element_bytes)
    }

    /// **Without any demand on security**: for reproductions of the paper alone.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Parameters::new`].
    pub fn new_allowing_insecure_parameters(
        preset: usize,
        elements: usize,
        element_bytes: usize,
    ) -> Result<Self, Error> {
        Self::cheapest(preset, elements, element_bytes, |_| true)
    }

    /// The cheapest of those shapes that are wanted.
    pub(super) fn cheapest(
        preset: usize,
        elements: usize,
        element_bytes: usize,
        wanted: impl Fn(&Self) -> bool,
    ) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        // Far above any use, and far below where a size could overflow.
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 40);
        bytes.ok_or(Error::Shape("database too large"))?;
        let mut best: Option<(f64, Self)> = None;
        for family in families(preset, elements, element_bytes) {
            for candidate in family.shapes().filter(&wanted) {
                let cost = cost(&candidate);
                if best.as_ref().is_none_or(|(least, _)| cost < *least)
                    && let Some(shortest) = with_shortest_answer(candidate)
                {
                    best = Some((cost, shortest));
                }
            }
        }
        best.map(|(_, parameters)| parameters).ok_or(Error::Shape("too many elements, or too long ones"))
    }
}

/// Shapes that differ in p alone, and in what follows from it.
struct Family(Parameters);

/// All of a preset, whatever their noise.
fn families(preset: usize, elements: usize, element_bytes: usize) -> impl Iterator<Item = Family> {
    let of = Preset::of(preset);
    let dimensions = of.widths.iter().flat_map(|width| of.packs.iter().map(move |pack| [*width, *pack]));
    dimensions.flat_map(move |[width, pack]| {
        (0..=MAXIMUM_FOLDS).flat_map(move |folds| {
            let most = match (folds, of.as_published) {
                (0, _) => 1,
                (_, true) => MAXIMUM_DIGITS_AS_PUBLISHED,
                (_, false) => MAXIMUM_DIGITS,
            };
            (1..=most).filter_map(move |digits| {
                let mut parameters = Parameters {
                    preset,
                    elements,
                    element_bytes,
                    width,
                    pack,
                    plaintext_bits: 1,
                    rows: 1,
                    columns: 1 << folds,
                    folding: Gadget { digits, base_bits: 2 },
                    answer_bits: [0; 2],
                };
                let bits = of.lattice.data.bits();
                parameters.folding = quietest(of, digits, width, noise::of_bits(&parameters));
                // Digits are cut from a word with a sign.
                let fits = (digits - 1) * bits.div_ceil(digits) < bits
                    && digits * parameters.folding.base_bits < u64::BITS
                    && parameters.bit_leaves() <= 1 << BIT_LEVELS;
                fits.then_some(Family(parameters))
            })
        })
    })
}

impl Family {
    /// Those that satisfy the bound with the longest answers, and are not too large.
    fn shapes(&self) -> impl Iterator<Item = Parameters> {
        // The longer plaintexts are, the less noise they stand: the first ones satisfy the bound.
        let (mut quiet, mut noisy) = (1, MAXIMUM_PLAINTEXT_BITS + 1);
        while quiet + 1 < noisy {
            let middle = (quiet + noisy) / 2;
            let shape = self.with(middle);
            if !has_few_rows(&shape) || is_admitted(&shape) { quiet = middle } else { noisy = middle }
        }
        let folds = self.0.folds();
        (2..=quiet).map(|bits| self.with(bits)).filter(move |shape| {
            shape.folds() == folds && has_few_rows(shape) && shape.query_bytes() <= MAXIMUM_QUERY_BYTES
        })
    }

    /// The one with so many bits in p.
    fn with(&self, plaintext_bits: u32) -> Parameters {
        let mut shape = Parameters { plaintext_bits, ..self.0 };
        let plaintexts = shape.plaintexts();
        shape.rows = plaintexts.div_ceil(shape.columns);
        if shape.preset().as_published {
            shape.rows = shape.rows.next_power_of_two();
        } else {
            shape.columns = plaintexts.div_ceil(shape.rows);
        }
        // A rounding is from twice as much at least, and products with a secret are exact up to so many bits.
        let longest = (shape.preset().lattice.data.bits() - 2).min(36);
        shape.answer_bits = [plaintext_bits + MESSAGE_MARGIN_BITS, longest];
        shape
    }
}

/// As many as a tree has leaves, and a matrix of the database rows.
fn has_few_rows(parameters: &Parameters) -> bool {
    parameters.rows * parameters.width <= 1 << 12 && (parameters.streams() || parameters.rows <= DEGREE)
}

fn is_admitted(parameters: &Parameters) -> bool {
    noise::failure_log2(parameters) <= MAXIMUM_FAILURE_LOG2
}

/// The same with the shortest answer that satisfies the bound.
fn with_shortest_answer(parameters: Parameters) -> Option<Parameters> {
    let [short, longest] = parameters.answer_bits;
    let of = |bits| Parameters { answer_bits: [short, bits], ..parameters };
    (short..=longest).map(of).find(is_admitted)
}

/// Transforms that an answer costs, and what is sent.
fn cost(parameters: &Parameters) -> f64 {
    let (preset, width) = (parameters.preset(), parameters.width() as f64);
    let ([key, data], rows) = ([&preset.lattice.key, &preset.lattice.data], parameters.rows() as f64);
    let [key_primes, data_primes] = [key, data].map(|ring| ring.primes().len() as f64);
    let (folds, digits) = (f64::from(parameters.folds()), f64::from(parameters.folding().digits));
    let switching = if preset.lattice.switches() { 2.0 } else { 0.0 };

    // Rows.
    let conversion = 1.0 + f64::from(preset.conversion.digits);
    let scalar = if preset.streams {
        READ * key_primes
    } else {
        let last = preset.row_gadgets[parameters.row_levels().max(1) as usize - 1];
        key_primes * (1.5 + f64::from(last.digits))
    };
    let matrix = if width > 1.0 { key_primes * conversion } else { 0.0 };
    let of_rows = rows * (scalar + matrix + switching * width * (width + 1.0));

    // Folding bits.
    let leaves = parameters.bit_leaves() as f64;
    let of_bits = if preset.converts(parameters.width()) {
        let scalar = if preset.streams { READ } else { 2.0 * (1.0 + f64::from(preset.bit_gadget.digits)) };
        let switched = switching * (width + 1.0) * (width + 1.0);
        leaves * (key_primes * (scalar + conversion) + switched)
    } else {
        leaves * READ * key_primes * width * (width + 1.0)
    };

    // Every group, and every polynomial that is packed.
    let databases = (parameters.groups() * parameters.pack().pow(2)) as f64;
    let pairs = ((parameters.width() + 1).div_ceil(2)) as f64;
    let columns = parameters.columns() as f64;
    let products = rows * columns * width * width * pairs * PRODUCT * f64::from(data.bits()) / 36.0;
    let products_of_a_fold = 0.25 * (width + 1.0) * digits;
    let fold = width * (width + 1.0) * (1.0 + digits + products_of_a_fold) * data_primes;
    let packing =
        if parameters.pack() > 1 { (4.0 + f64::from(preset.packing.digits)) * data_primes } else { 0.0 };
    let arranging = rows * width * pairs * ARRANGED * data_primes;
    let answering = databases * (arranging + products + (columns - 1.0) * fold + packing);
    let uploaded = if preset.streams { 0 } else { parameters.query_bytes() };
    let sent = (uploaded + parameters.answer_bytes()) as f64 / 1024.0;
    of_rows + of_bits * f64::from(u8::from(folds > 0.0)) + answering + SENT_KIB * sent
}
