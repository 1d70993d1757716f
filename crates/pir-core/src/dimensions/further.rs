//! A further dimension: inner products of selectors with the chunks of what the dimension before gave.

use crate::bfv;
use crate::bfv::Ciphertext;
use crate::ring::{self, Aligned, Evaluation, Ntt, Products};

/// Columns whose chunks are multiplied and accumulated together.
const COLUMNS_AT_ONCE: usize = 4;

/// Chunks that carry a ciphertext in the next dimension: low and high of c0, low and high of c1.
pub const CHUNKS: usize = 4;

/// Buffers of one client for a further dimension.
#[derive(Default)]
pub struct FurtherDimension {
    /// c0 and c1 of a few columns, polynomial by polynomial.
    columns: Aligned<u64>,
    /// Their chunks in evaluation form.
    chunks: Aligned<u64>,
    /// Both words of the sums: chunk by chunk, half by half.
    sums: [Aligned<u64>; 2],
    results: Aligned<u64>,
}

impl FurtherDimension {
    /// The result of the dimension before for a column, where no dimension follows.
    pub fn skip(&mut self, products: &Products, column: usize) -> [&mut [u64]; 2] {
        let degree = bfv::Parameters::s2048().degree();
        self.columns.resize(2 * degree, 0);
        products.read(column..column + 1, &mut self.columns);
        self.columns.split_at_mut(degree).into()
    }

    /// `sum_c columns[c] * chunk(c)`, in the ring of the columns' selectors, for each of the four chunks of the results
    /// modulo q of the columns from `first` on. Results are switched to `t^2`; chunks are centred modulo t.
    ///
    /// # Panics
    /// If there are no such columns.
    pub fn run<'a>(
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
