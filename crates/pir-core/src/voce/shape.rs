//! How the buckets of a round are arranged, and the choice of an arrangement.

#[cfg(test)]
mod tests;

use core::ops::Range;

use super::chain::PACK_BYTES;
use super::noise;
use super::ring::{
    ANSWER_BITS, COLUMN_BITS, DEGREE, HINT_BITS, MODULUS_BITS, PLAINTEXT_BITS, QUERY_BITS, REPLY_BITS,
    REPLY_PUBLIC_BITS,
};
use super::select::TREE_BYTES;
use crate::Error;
use crate::ring::Pairs;
use crate::ring::bits::packed_bytes;

/// Outputs that are computed at a time; an element takes a multiple of it.
pub(super) const BLOCK: usize = 16;

/// More columns are never worth their packing.
const MAXIMUM_COLUMNS: usize = 1024;

/// So many times more columns than the chooser takes may be announced.
const MOST_COLUMNS: usize = 4;

/// Version of the formats, first byte of a profile.
const VERSION: u8 = 2;
/// The version before, which had powers of two alone, and their logarithm in the second byte. All else is the same.
const FORMER_VERSION: u8 = 1;

/// Packs of a unit of several groups of buckets.
const MOST_PACKS: usize = 32;

/// log2 of the leaves of a ciphertext that selects columns.
pub(super) const LEVELS: u32 = 8;

/// Digits, of 6 bits each, of what a column is selected from.
pub(super) const DIGITS: usize = 3;

/// Fields of an element of which a column is selected, at least: as many columns share a pack as there are keys to separate.
const LEAST_FIELDS: usize = 256;

/// What a KiB that a client sends or receives is worth where neither time nor bytes are preferred, in microseconds of a core: with
/// a hint it is time that counts, without one it is bytes.
const HINT_KIB: f64 = 15.0;
/// See [`HINT_KIB`].
const SELECTED_KIB: f64 = 100.0;
/// What a KiB costs a server's core, microseconds: estimated from closed loops, TLS and all, in which fewer columns gave back less
/// than they saved in packing.
const SERVED_KIB: f64 = 3.5;
/// Cost of packing an output, microseconds for each client as measured with the kernel `avx512` (`docs/VOCE.md`).
const PACKED_OUTPUT: f64 = 0.078;
/// Cost of two coefficients of the database in the first dimension.
const PAIR: f64 = 4.2e-5;
/// Cost of a leaf of the tree of columns.
const LEAF: f64 = 3.0;
/// Cost of selecting and separating, for a bucket.
const SELECTED: f64 = 15.0;

/// A ciphertext that selects columns, bytes.
pub(super) const COLUMN_CIPHERTEXT_BYTES: usize = packed_bytes(DEGREE, COLUMN_BITS);

/// How the column of an element is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An answer holds all columns of a row, and is read with a hint.
    Hint,
    /// A second query selects the column; there is no hint.
    Selected,
}

/// What a server chooses the arrangement of its rounds for. Fewer columns are less to pack and longer queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// The least core time: a KiB is worth no more than what it takes the server to receive or send it, 3.5 us.
    Time,
    /// Both: a KiB is worth 15 us of a core with a hint, and 100 us without one.
    #[default]
    Balanced,
    /// The fewest bytes that a client sends and receives, whatever they take. Of no more than four times the columns of
    /// [`Preference::Balanced`], as no client accepts more.
    Bytes,
}

/// The arrangement of every bucket: `rows` by `columns` elements, of which a query selects a row; and how many buckets are
/// answered together, a *unit*.
///
/// Everything about an arrangement follows from the ending, the form of the buckets and the number of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    ending: Ending,
    elements: usize,
    element_bytes: usize,
    columns: usize,
    buckets: usize,
}

impl Shape {
    /// The arrangement of so many buckets of so many elements that is best by a preference: the least of
    /// `core time + worth of a KiB * KiB` of query, answer and hint, all counted for one bucket.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no bucket or element, elements are empty or above 2,304 bytes, or there are too many.
    pub fn choose(
        ending: Ending,
        buckets: usize,
        elements: usize,
        element_bytes: usize,
        preference: Preference,
    ) -> Result<Self, Error> {
        let all = || Self::all(ending, buckets, elements, element_bytes);
        let balanced = least(all(), |shape| shape.cost(Preference::Balanced))?;
        match preference {
            Preference::Balanced => Ok(balanced),
            Preference::Time => least(all(), |shape| shape.cost(preference)),
            Preference::Bytes => {
                let accepted = |shape: &Self| shape.columns <= MOST_COLUMNS * balanced.columns;
                least(all().filter(accepted), |shape| shape.cost(preference))
            }
        }
    }

    /// The arrangement in so many columns: a power of two, or three times one where a column is selected; at most 1,024, and
    /// fewer than two for each element.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Shape::choose`], or if the noise is too much for the failure bound.
    pub fn new(
        ending: Ending,
        buckets: usize,
        elements: usize,
        element_bytes: usize,
        columns: usize,
    ) -> Result<Self, Error> {
        let largest = DEGREE * PLAINTEXT_BITS as usize / 8;
        if buckets == 0 || buckets > 1 << 16 {
            return Err(Error::Shape("1 to 65536 buckets"));
        }
        if elements == 0 || elements > 1 << 28 || element_bytes == 0 || element_bytes > largest {
            return Err(Error::Shape("elements of 1 to 2304 bytes, at least one"));
        }
        let times = columns >> columns.trailing_zeros().min(usize::BITS - 1);
        if !(times == 1 || times == 3 && ending == Ending::Selected)
            || columns > MAXIMUM_COLUMNS
            || columns >= 2 * elements
        {
            return Err(Error::Shape("number of columns"));
        }
        let mut shape = Self { ending, elements, element_bytes, columns, buckets: 1 };
        shape.buckets = match ending {
            Ending::Hint => (DEGREE / shape.bucket_outputs()).clamp(1, buckets),
            Ending::Selected => shape.groups_of_buckets().min(buckets),
        };
        if noise::failure_log2(&shape) > crate::noise::MAXIMUM_FAILURE_LOG2 {
            return Err(Error::Shape("too much noise"));
        }
        Ok(shape)
    }

    /// Buckets that are selected from together: a multiple of those that share a reply, up to four times as many, so that
    /// few leaves of the trees are nobody's; and of no more than 32 packs, as who checks an answer takes a whole unit.
    fn groups_of_buckets(&self) -> usize {
        let ciphertexts = |groups: usize| (groups * self.group() * self.leaves()).div_ceil(1 << LEVELS);
        let packs = |groups: usize| groups * self.group() * self.bucket_outputs() / DEGREE;
        let possible = [1, 2, 4].into_iter().filter(|groups| packs(*groups) <= MOST_PACKS);
        let cheapest = possible.min_by_key(|groups| ciphertexts(*groups) * 4 / groups);
        cheapest.unwrap_or(1) * self.group()
    }

    /// The arrangement that a server has announced.
    ///
    /// It may have at most four times as many columns as [`Shape::choose`] takes where nothing is preferred, which is what bytes
    /// would have to be worth sixteen times as much for. Packing takes as much longer as there are more columns, and nobody would announce more of them
    /// but to keep those busy who compute an answer again.
    ///
    /// # Errors
    /// [`Error::Shape`] as for [`Shape::new`], or if the profile is of another version or has too many columns.
    pub fn announced(
        ending: Ending,
        buckets: usize,
        elements: usize,
        element_bytes: usize,
        profile: &[u8; 16],
    ) -> Result<Self, Error> {
        let [version, low, high, rest @ ..] = *profile;
        let columns = match version {
            VERSION => usize::from(u16::from_le_bytes([low, high])),
            FORMER_VERSION if high == 0 && u32::from(low) <= MAXIMUM_COLUMNS.ilog2() => 1 << low,
            FORMER_VERSION => return Err(Error::Shape("number of columns")),
            _ => return Err(Error::Shape("version of the profile")),
        };
        if rest != [0; 13] {
            return Err(Error::Shape("profile"));
        }
        let shape = Self::new(ending, buckets, elements, element_bytes, columns)?;
        let chosen = Self::choose(ending, buckets, elements, element_bytes, Preference::Balanced)?;
        if shape.columns > MOST_COLUMNS * chosen.columns {
            return Err(Error::Shape("more columns than are of use"));
        }
        Ok(shape)
    }

    /// All that are possible.
    fn all(
        ending: Ending,
        buckets: usize,
        elements: usize,
        element_bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let columns = (0..=MAXIMUM_COLUMNS.ilog2()).flat_map(|log| [1 << log, 3 << log]);
        columns.filter_map(move |columns| Self::new(ending, buckets, elements, element_bytes, columns).ok())
    }

    /// What the server announces: the version, the number of columns in two bytes, and zeros.
    #[must_use]
    pub fn profile(&self) -> [u8; 16] {
        let mut profile = [0; 16];
        profile[0] = VERSION;
        profile[1..3].copy_from_slice(&(self.columns as u16).to_le_bytes());
        profile
    }

    /// Row and column of an element, in constant time; divisions may not be.
    pub(super) fn place(&self, element: u64) -> (u64, u64) {
        // The product is more than `element / columns` by at most `element / 2^40`, which is less than `1 / columns`.
        let reciprocal = (1u64 << 40) / self.columns as u64 + 1;
        let row = ((u128::from(element) * u128::from(reciprocal)) >> 40) as u64;
        (row, element - row * self.columns as u64)
    }

    /// Elements of a bucket.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// n2.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// n1.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements.div_ceil(self.columns)
    }

    /// Coefficients of a query for one bucket: each selects one of two rows.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.rows().div_ceil(2)
    }

    /// Outputs of an element: a coefficient each, of log2 t bits, and a multiple of 16; a power of two of at least 256 where a
    /// column is selected.
    #[must_use]
    pub fn element_outputs(&self) -> usize {
        let fields = (8 * self.element_bytes).div_ceil(PLAINTEXT_BITS as usize);
        match self.ending {
            Ending::Hint => fields.next_multiple_of(BLOCK),
            Ending::Selected => fields.next_power_of_two().max(LEAST_FIELDS),
        }
    }

    /// Columns that share a pack, and buckets that share a reply, where a column is selected.
    pub(super) fn group(&self) -> usize {
        DEGREE / self.element_outputs()
    }

    /// Leaves of the tree of columns that a bucket has.
    pub(super) fn leaves(&self) -> usize {
        DIGITS * self.columns
    }

    /// Where a field of an element lies among the outputs of its bucket. Where a column is selected, fields of columns
    /// take turns, so that a power of X brings each column to the places of the first.
    #[cfg(test)]
    pub(super) fn output(&self, column: usize, field: usize) -> usize {
        match self.ending {
            Ending::Hint => column * self.element_outputs() + field,
            Ending::Selected => {
                let group = self.interleaved_columns();
                (column / group * self.element_outputs() + field) * group + column % group
            }
        }
    }

    /// Columns of a bucket of which fields take turns, a *piece*: the largest power of two that divides their number, up to
    /// what shares a pack.
    pub(super) fn interleaved_columns(&self) -> usize {
        match self.ending {
            Ending::Hint => 1,
            Ending::Selected => self.group().min(1 << self.columns.trailing_zeros()),
        }
    }

    /// Pieces of a bucket.
    pub(super) fn pieces(&self) -> usize {
        self.columns / self.interleaved_columns()
    }

    /// Pieces that share a pack, be they of one bucket or of several; fields of them take turns, too.
    pub(super) fn interleaved_pieces(&self) -> usize {
        match self.ending {
            Ending::Hint => 1,
            Ending::Selected => self.group() / self.interleaved_columns(),
        }
    }

    /// The bucket of the unit, and its output, that is coefficient `x` of a pack.
    pub(super) fn source(&self, pack: usize, x: usize) -> (usize, usize) {
        let (together, sharing) = (self.interleaved_columns(), self.interleaved_pieces());
        let (field, column) = (x / (together * sharing), x % (together * sharing));
        let of_piece = DEGREE / sharing;
        let output = (pack * sharing + column / together) * of_piece + field * together + column % together;
        (output / self.bucket_outputs(), output % self.bucket_outputs())
    }

    /// Outputs of a bucket: those of one element in every column.
    #[must_use]
    pub fn bucket_outputs(&self) -> usize {
        self.columns * self.element_outputs()
    }

    /// Buckets that are packed together, at least 1.
    #[must_use]
    pub fn unit_buckets(&self) -> usize {
        self.buckets
    }

    /// Outputs of a unit.
    #[must_use]
    pub fn unit_outputs(&self) -> usize {
        self.buckets * self.bucket_outputs()
    }

    /// Packed polynomials of a unit, 2,048 outputs each; the last one may hold fewer.
    #[must_use]
    pub fn packs(&self) -> usize {
        self.unit_outputs().div_ceil(DEGREE)
    }

    /// Those that so many of its buckets need: the others of a unit that is the round's last hold nothing but zeros.
    #[must_use]
    pub fn packs_of(&self, buckets: usize) -> usize {
        (buckets * self.bucket_outputs()).div_ceil(DEGREE)
    }

    /// Ciphertexts of which the coefficients of a unit's queries are.
    pub(super) fn ciphertexts(&self) -> usize {
        (self.buckets * self.positions()).div_ceil(DEGREE)
    }

    /// Where a bucket's query lies among the coefficients of its unit's ciphertexts.
    pub(super) fn coefficients(&self, bucket_of_unit: usize) -> Range<usize> {
        bucket_of_unit * self.positions()..(bucket_of_unit + 1) * self.positions()
    }

    /// How the column is found.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// A client's keys for packing, bytes: two polynomials. They come with every request where all columns are answered.
    #[must_use]
    pub fn keys_bytes() -> usize {
        packed_bytes(2 * DEGREE, MODULUS_BITS)
    }

    /// Ciphertexts that select the columns of so many buckets of a unit.
    pub(super) fn column_ciphertexts(&self, buckets: usize) -> usize {
        match self.ending {
            Ending::Hint => 0,
            Ending::Selected => (buckets * self.leaves()).div_ceil(1 << LEVELS),
        }
    }

    /// Those of all units before one of so many buckets.
    pub(super) fn column_ciphertexts_before(&self, unit: usize) -> usize {
        unit * self.column_ciphertexts(self.buckets)
    }

    /// A query for one bucket, bytes.
    #[must_use]
    pub fn query_bytes(&self) -> usize {
        packed_bytes(self.positions(), QUERY_BITS)
    }

    /// A request for so many buckets, bytes: keys and a query for each of them, or queries and ciphertexts that select
    /// columns; `None` if there are more than there can be.
    #[must_use]
    pub fn request_bytes(&self, buckets: usize) -> Option<usize> {
        let queries = self.query_bytes().checked_mul(buckets)?;
        queries.checked_add(match self.ending {
            Ending::Hint => Self::keys_bytes(),
            Ending::Selected => {
                let (units, rest) = (buckets / self.buckets, buckets % self.buckets);
                let ciphertexts = self.column_ciphertexts_before(units) + self.column_ciphertexts(rest);
                ciphertexts.checked_mul(COLUMN_CIPHERTEXT_BYTES)?
            }
        })
    }

    /// The answer of a unit, bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        match self.ending {
            Ending::Hint => packed_bytes(self.unit_outputs(), ANSWER_BITS),
            Ending::Selected => self.replies() * self.reply_bytes(),
        }
    }

    /// Replies of a unit, each for as many buckets as share one.
    pub(super) fn replies(&self) -> usize {
        self.buckets.div_ceil(self.group())
    }

    /// A reply, bytes: a whole public half, and as much of the private one as its buckets need.
    pub(super) fn reply_bytes(&self) -> usize {
        let buckets = self.buckets.min(self.group());
        packed_bytes(DEGREE, REPLY_PUBLIC_BITS) + packed_bytes(buckets * self.element_outputs(), REPLY_BITS)
    }

    /// The hint of a unit, bytes.
    #[must_use]
    pub fn hint_bytes(&self) -> usize {
        match self.ending {
            Ending::Hint => packed_bytes(self.packs() * DEGREE, HINT_BITS),
            Ending::Selected => 0,
        }
    }

    /// What a server holds of a unit as long as its round can be retrieved, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let database = self.bucket_outputs() / BLOCK * self.positions() * size_of::<Pairs>();
        let packed = self.packs() * PACK_BYTES + self.buckets * database;
        packed
            + match self.ending {
                Ending::Hint => self.hint_bytes(),
                Ending::Selected => {
                    let rows = self.buckets * self.leaves() / self.interleaved_columns();
                    let polynomials = DIGITS * self.packs() + 2 * self.buckets + rows;
                    polynomials * DEGREE * size_of::<u64>()
                        + self.column_ciphertexts(self.buckets) * TREE_BYTES
                }
            }
    }

    /// What is to be least by a preference, of one bucket and client: time in microseconds of a core, with what bytes are worth; or
    /// bytes.
    fn cost(&self, preference: Preference) -> f64 {
        let kib = match (preference, self.ending) {
            (Preference::Bytes, _) => return self.sent(),
            (Preference::Time, _) => SERVED_KIB,
            (Preference::Balanced, Ending::Hint) => HINT_KIB,
            (Preference::Balanced, Ending::Selected) => SELECTED_KIB,
        };
        self.time() + self.sent() / 1024.0 * kib
    }

    /// What a bucket takes a server to compute for one client of a tile, microseconds of a core.
    fn time(&self) -> f64 {
        let (outputs, buckets) = (self.bucket_outputs() as f64, self.buckets as f64);
        let packed = (self.packs() * DEGREE) as f64 / buckets;
        let selected = match self.ending {
            Ending::Hint => 0.0,
            Ending::Selected => self.leaves() as f64 * LEAF + SELECTED,
        };
        packed * PACKED_OUTPUT + outputs * self.positions() as f64 * PAIR + selected
    }

    /// What a client sends and receives for a bucket, keys apart, bytes.
    fn sent(&self) -> f64 {
        let ciphertexts = self.column_ciphertexts(self.buckets) * COLUMN_CIPHERTEXT_BYTES;
        let of_unit = (self.answer_bytes() + self.hint_bytes() + ciphertexts) as f64;
        self.query_bytes() as f64 + of_unit / self.buckets as f64
    }
}

/// Of those that are alike, the first: the one of fewest columns.
fn least(shapes: impl Iterator<Item = Shape>, cost: impl Fn(&Shape) -> f64) -> Result<Shape, Error> {
    let least = shapes.min_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.columns.cmp(&b.columns)));
    least.ok_or(Error::Shape("no arrangement of such elements"))
}
