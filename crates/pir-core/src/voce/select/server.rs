//! The server's half: a unit of buckets, prepared for a round, and replies.

use rayon::prelude::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::common::{Common, Key, key_seed};
use super::keys::PublicKeys;
use super::separation::{Pair, join};
use super::tree::{Row, Tree, sum_of_products};
use super::{DIGIT_BITS, SQUARE_DROPPED_BITS};
use crate::Error;
use crate::ring::bits::{BitWriter, packed_bytes, unpack};
use crate::ring::{Evaluation, Polynomial, add, round_digits};
use crate::voce::dense::{Asker, Dense, Pools, Source};
use crate::voce::format::check_padding;
use crate::voce::ring::{COLUMN_BITS, DEGREE, REPLY_BITS, REPLY_PUBLIC_BITS, Ring, Round, Seeds};
use crate::voce::shape::{COLUMN_CIPHERTEXT_BYTES, DIGITS, Ending, LEVELS, Shape};

/// Buckets that are answered together, in a round.
pub struct Unit {
    dense: Dense,
    columns: Columns,
}

/// What selecting columns needs of a unit, beside its packed ciphertexts.
struct Columns {
    shape: Shape,
    number: usize,
    /// Of each pack the digits of its public half, in slots.
    digits: Vec<[Vec<u64>; DIGITS]>,
    trees: Vec<Tree>,
    /// Of each bucket.
    squares: Vec<Square>,
}

/// What stands before the secret's square in a selected ciphertext: its digit, and that times the key's public half; in slots.
struct Square {
    digit: Vec<u64>,
    product: Vec<u64>,
}

/// A client's request.
pub struct Request<'a> {
    keys: &'a PublicKeys,
    queries: &'a [u8],
    columns: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request for so many buckets, made with these keys.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is of another size, or has padding that is not zero.
    pub fn new(shape: &Shape, buckets: usize, keys: &'a PublicKeys, bytes: &'a [u8]) -> Result<Self, Error> {
        if shape.ending() != Ending::Selected || shape.request_bytes(buckets) != Some(bytes.len()) {
            return Err(Error::Malformed("size of a request"));
        }
        let (queries, columns) = bytes.split_at(buckets * shape.query_bytes());
        check_padding(shape, queries)?;
        Ok(Self { keys, queries, columns })
    }
}

/// Where the rows of a bucket are: piece by piece and digit by digit.
pub(super) struct Rows {
    /// Rows of a bucket for one digit.
    pieces: usize,
    /// Leaves of a row.
    pub(super) columns: usize,
}

impl Rows {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { pieces: shape.pieces(), columns: shape.interleaved_columns() }
    }

    /// Rows of a tree.
    pub(super) fn of_tree(&self) -> usize {
        (1 << LEVELS) / self.columns
    }

    /// The row of a digit of a piece of a bucket, counted within the bucket and that within the unit.
    fn number(&self, bucket: usize, piece: usize, digit: usize) -> usize {
        (bucket * self.pieces + piece) * DIGITS + digit
    }

    /// The bucket, first column and digit of a row.
    pub(super) fn meaning(&self, row: usize) -> (usize, usize, usize) {
        let (row, digit) = (row / DIGITS, row % DIGITS);
        (row / self.pieces, row % self.pieces * self.columns, digit)
    }
}

impl Unit {
    /// Prepares unit `number`, of which the buckets are given, up to as many as the shape says; memory is taken from, and
    /// returned to, the pools.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more buckets than a unit has, or none, or one is of another size; [`Error::Memory`] if there
    /// is no room.
    pub fn new(
        pools: &Pools,
        shape: &Shape,
        seeds: &Seeds,
        number: usize,
        contents: &[&[u8]],
    ) -> Result<Self, Error> {
        let source = source(pools, shape, seeds, number, contents)?;
        let dense = Dense::new(source)?;
        let rests: Vec<&[u64]> = dense.packs.iter().map(|pack| &*pack.rest).collect();
        let columns = Columns::new(pools, shape, &seeds.halves, number, contents.len(), &rests)?;
        Ok(Self { dense, columns })
    }

    /// The answer to one request, as a unit that is prepared as by [`Unit::new`] gives it, without more than one pack for each
    /// thread in memory: how many there are is what a server has announced.
    ///
    /// # Errors
    /// As for [`Unit::new`].
    pub fn answer_once(
        pools: &Pools,
        shape: &Shape,
        seeds: &Seeds,
        number: usize,
        contents: &[&[u8]],
        request: &Request<'_>,
    ) -> Result<Vec<u8>, Error> {
        let source = source(pools, shape, seeds, number, contents)?;
        let asker = Asker { keys: &request.keys.packing, queries: request.queries };
        let (packed, rests) = source.packed_once(asker)?;
        let rests: Vec<&[u64]> = rests.iter().map(Vec::as_slice).collect();
        let columns = Columns::new(pools, shape, &seeds.halves, number, contents.len(), &rests)?;
        let mut replies = columns.replies(vec![packed], &[request]);
        Ok(columns.encode(replies.swap_remove(0)))
    }

    #[cfg(test)]
    pub(super) fn dense(&self) -> &Dense {
        &self.dense
    }

    /// Size in memory, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.dense.memory_bytes() + self.columns.memory_bytes()
    }

    /// Answers the requests of a tile of clients, `first` being the unit's first bucket.
    #[must_use]
    pub fn answer(&self, first: usize, tile: &[&Request<'_>]) -> Vec<Vec<u8>> {
        let replies = self.replies(first, tile);
        replies.into_iter().map(|replies| self.columns.encode(replies)).collect()
    }

    /// The replies of each client, in slots.
    pub(in crate::voce) fn replies(&self, first: usize, tile: &[&Request<'_>]) -> Vec<Vec<Pair>> {
        let askers: Vec<_> =
            tile.iter().map(|one| Asker { keys: &one.keys.packing, queries: one.queries }).collect();
        self.columns.replies(self.dense.packed(first, &askers), tile)
    }
}

fn source<'a>(
    pools: &'a Pools,
    shape: &'a Shape,
    seeds: &Seeds,
    number: usize,
    contents: &[&[u8]],
) -> Result<Source<'a>, Error> {
    if shape.ending() != Ending::Selected {
        return Err(Error::Shape("an arrangement with a hint"));
    }
    let round = Round::with_keys(&seeds.halves, &key_seed());
    Source::new(pools, shape, (round, &seeds.whitening), number, contents)
}

impl Columns {
    /// Of so many buckets, whose packs' public halves are given, in slots.
    fn new(
        pools: &Pools,
        shape: &Shape,
        seed: &[u8; 32],
        number: usize,
        buckets: usize,
        rests: &[&[u64]],
    ) -> Result<Self, Error> {
        let (ring, round) = (Ring::get(), Round::with_keys(seed, &key_seed()));
        let digits = rests.par_iter().map(|rest| {
            let mut rest = rest.to_vec();
            ring.ntt.inverse(&mut rest);
            cut(ring, &mut rest)
        });
        let digits: Vec<_> = digits.collect();
        let (rows, leaves) = (Rows::new(shape), buckets * shape.leaves());
        let first = shape.column_ciphertexts_before(number);
        let tree = |at: usize| {
            let leaves = (leaves - (at << LEVELS)).min(1 << LEVELS);
            let first_row = at * rows.of_tree();
            let columns = (first_row..first_row + leaves / rows.columns).map(|row| {
                // Pieces that share a pack have their columns behind each other.
                let (bucket, first, _) = rows.meaning(row);
                (bucket * shape.columns() + first) % shape.group()
            });
            let row = Row { columns: rows.columns, first: columns.collect() };
            Tree::new(&pools.trees, round.column((first + at) as u64), leaves, row)
        };
        let trees: Vec<_> =
            (0..shape.column_ciphertexts(buckets)).into_par_iter().map(tree).collect::<Result<_, _>>()?;
        let mut columns = Self { shape: *shape, number, digits, trees, squares: Vec::new() };
        columns.squares = (0..buckets).into_par_iter().map(|bucket| columns.square(bucket)).collect();
        Ok(columns)
    }

    /// Of a bucket's rows, the pack, the digit, and the row.
    fn rows(&self, bucket: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let (pieces, sharing) = (self.shape.pieces(), self.shape.interleaved_pieces());
        (0..pieces).flat_map(move |piece| {
            let (rows, pack) = (Rows::new(&self.shape), (bucket * pieces + piece) / sharing);
            (0..DIGITS).map(move |digit| (pack, digit, rows.number(bucket, piece, digit)))
        })
    }

    fn public_row(&self, row: usize) -> &[u64] {
        let each = Rows::new(&self.shape).of_tree();
        &self.trees[row / each].rows[row % each]
    }

    fn square(&self, bucket: usize) -> Square {
        let ring = Ring::get();
        let terms: Vec<(&[u64], &[u64])> = self
            .rows(bucket)
            .map(|(pack, digit, row)| (&*self.digits[pack][digit], self.public_row(row)))
            .collect();
        let (mut digit, mut product) = (vec![0; DEGREE], vec![0; DEGREE]);
        sum_of_products(&terms, &mut digit);
        ring.ntt.inverse(&mut digit);
        round_digits(ring.modulus(), SQUARE_DROPPED_BITS, &mut digit);
        ring.ntt.forward(&mut digit);
        sum_of_products(&[(&digit, Common::get().half(Key::Square))], &mut product);
        Square { digit, product }
    }

    fn memory_bytes(&self) -> usize {
        let polynomials = DIGITS * self.digits.len() + 2 * self.squares.len();
        let trees: usize = self.trees.iter().map(Tree::memory_bytes).sum();
        polynomials * DEGREE * size_of::<u64>() + trees
    }

    /// The replies of each client, whose packed ciphertexts are given, in slots.
    fn replies(&self, packed: Vec<Vec<u64>>, tile: &[&Request<'_>]) -> Vec<Vec<Pair>> {
        let ring = Ring::get();
        let rows = self.private_rows(tile);
        let scale = ring.modulus().inverse(self.shape.group() as u64);
        let scale = ring.modulus().shoup(scale);
        let clients = tile.iter().zip(packed).zip(&rows);
        let of_client = clients.map(|((request, mut packed), rows)| {
            let digits: Vec<_> =
                packed.chunks_exact_mut(DEGREE).take(self.digits.len()).map(|pack| cut(ring, pack)).collect();
            let mut selected = (0..self.squares.len()).map(|bucket| {
                let mut pair = self.selected(bucket, request.keys, &digits, rows);
                for half in [&mut pair.a, &mut pair.b] {
                    let mut scaled = Polynomial::<Evaluation>::from_residues(half.iter().copied());
                    scaled.scale(ring.modulus(), scale);
                    half.copy_from_slice(scaled.residues());
                }
                Some(pair)
            });
            let group = self.shape.group();
            let of_reply = |_| join(request.keys, group, selected.by_ref().take(group).collect());
            (0..self.shape.replies()).map(of_reply).collect()
        });
        of_client.collect()
    }

    /// The private halves of all rows, of each client.
    fn private_rows(&self, tile: &[&Request<'_>]) -> Vec<Vec<Vec<u64>>> {
        let ring = Ring::get();
        let keys: Vec<&PublicKeys> = tile.iter().map(|request| request.keys).collect();
        let mut all: Vec<Vec<Vec<u64>>> = vec![Vec::new(); tile.len()];
        let first = self.shape.column_ciphertexts_before(self.number);
        for (at, tree) in self.trees.iter().enumerate() {
            let root = |request: &&Request<'_>| {
                let bytes = &request.columns[(first + at) * COLUMN_CIPHERTEXT_BYTES..];
                let mut root = vec![0; DEGREE];
                unpack(COLUMN_BITS, &bytes[..packed_bytes(DEGREE, COLUMN_BITS)], &mut root);
                root.iter_mut().for_each(|value| *value = ring.raise(*value, COLUMN_BITS));
                ring.ntt.forward(&mut root);
                root
            };
            let rows = tree.rows(&keys, tile.iter().map(root).collect());
            all.iter_mut().zip(rows).for_each(|(all, rows)| all.extend(rows));
        }
        all
    }

    /// The ciphertext of a bucket's wanted column, in slots: what it holds stands at multiples of as many places as a pack has
    /// columns.
    fn selected(
        &self,
        bucket: usize,
        keys: &PublicKeys,
        digits: &[[Vec<u64>; DIGITS]],
        rows: &[Vec<u64>],
    ) -> Pair {
        let square = &self.squares[bucket];
        let mut a_terms: Vec<(&[u64], &[u64])> = Vec::new();
        let mut b_terms: Vec<(&[u64], &[u64])> = vec![(&square.digit, keys.half(Key::Square))];
        for (pack, digit, row) in self.rows(bucket) {
            a_terms.push((&self.digits[pack][digit], &rows[row]));
            a_terms.push((&digits[pack][digit], self.public_row(row)));
            b_terms.push((&digits[pack][digit], &rows[row]));
        }
        let (mut a, mut b) = (vec![0; DEGREE], vec![0; DEGREE]);
        sum_of_products(&a_terms, &mut a);
        add(Ring::get().modulus(), &mut a, &square.product);
        sum_of_products(&b_terms, &mut b);
        Pair { a, b }
    }

    fn encode(&self, replies: Vec<Pair>) -> Vec<u8> {
        let (ring, group) = (Ring::get(), self.shape.group());
        let mut answer = Vec::with_capacity(self.shape.answer_bytes());
        for mut reply in replies {
            let mut writer = BitWriter::new(&mut answer);
            ring.ntt.inverse(&mut reply.a);
            ring.to_reply[0].apply_all(&mut reply.a);
            reply.a.iter().for_each(|value| writer.write(*value, REPLY_PUBLIC_BITS));
            writer.finish();
            let mut writer = BitWriter::new(&mut answer);
            ring.ntt.inverse(&mut reply.b);
            ring.to_reply[1].apply_all(&mut reply.b);
            for bucket in 0..self.shape.unit_buckets().min(group) {
                let fields = reply.b.iter().skip(bucket).step_by(group);
                fields.for_each(|value| writer.write(*value, REPLY_BITS));
            }
            writer.finish();
        }
        answer
    }
}

/// The digits of residues that are rounded to 18 bits, in `[-2^5, 2^5)`, in slots.
fn cut(ring: &Ring, coefficients: &mut [u64]) -> [Vec<u64>; DIGITS] {
    ring.to_hint.apply_all(coefficients);
    let half = 1u64 << (DIGIT_BITS - 1);
    let offset: u64 = (0..DIGITS).map(|digit| half << (digit as u32 * DIGIT_BITS)).sum();
    core::array::from_fn(|digit| {
        let shift = digit as u32 * DIGIT_BITS;
        let value =
            |value: &u64| ((value + offset) >> shift & (2 * half - 1)) + ring.modulus().value() - half;
        let mut digit: Vec<u64> = coefficients.iter().map(value).collect();
        ring.ntt.forward(&mut digit);
        digit
    })
}
