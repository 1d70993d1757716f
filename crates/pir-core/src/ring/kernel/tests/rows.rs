//! Rows: what they are packed into, and their products.

use super::{primes, residues};
use crate::ring::kernel::{Available, COLUMNS, Products, RowSums, Selectors};
use crate::ring::modulus::Modulus;

/// The largest of some more bits, for rows, which need no transform: on both sides of where their method changes.
fn primes_of_rows() -> Vec<Modulus> {
    let largest =
        |bits: u32| (1..1u64 << bits).rev().find_map(|candidate| Modulus::new(candidate).ok()).unwrap();
    [15, 16, 19, 22, 25, 31, 35].map(largest).to_vec()
}

#[test]
fn every_back_end_packs_and_multiplies_rows_alike_and_exactly() {
    for modulus in primes().into_iter().chain(primes_of_rows()) {
        let width = modulus.bits() as usize;
        for (rows, columns, clients) in [
            (1, 1, 1),
            (3, 2, 1),
            (64, 3, 2),
            (130, COLUMNS, 5),
            (4096, 2, 1),
            (4096, 1, 2),
            (70, COLUMNS + 3, 1),
            (65, 2 * COLUMNS + 1, 3),
        ] {
            // Random, all q - 1, and what makes the longest sums of signed digits: selectors of q/2 on either side, and
            // plaintexts of which the lower digits are as large as can be.
            for kind in [0, 2, 4, 5] {
                let extreme = kind >= 4;
                let longest = ((modulus.value() - 1) >> 12 << 12) - 1;
                let plain = if extreme {
                    vec![longest; 8 * rows * columns]
                } else {
                    residues(&modulus, 8 * rows * columns, kind)
                };
                let sources: Vec<&[u64]> = plain.chunks(8).collect();
                let mut packed = vec![0; width * sources.len()];
                Available::portable().pack(width, 0, &sources, &mut packed);
                // For every client and row, two halves of two blocks each.
                let halves: Vec<Vec<Vec<u64>>> = (0..clients)
                    .map(|client| {
                        let values = if extreme {
                            vec![modulus.value() / 2 + (kind - 4); 32 * rows]
                        } else {
                            residues(&modulus, 32 * rows, kind + 4 * client)
                        };
                        values.chunks(16).map(<[u64]>::to_vec).collect()
                    })
                    .collect();
                for backend in Available::all() {
                    let mut again = vec![0xAA; packed.len()];
                    backend.pack(width, 0, &sources, &mut again);
                    assert_eq!(again, packed, "{}", backend.backend().name());
                    let mut unpacked = vec![0; plain.len()];
                    backend.unpack(width, &packed, &mut unpacked);
                    assert_eq!(unpacked, plain, "{}", backend.backend().name());
                    // The same plaintexts in two blocks.
                    let mut selectors = Selectors::new(clients as usize, rows);
                    selectors.resize(1..3);
                    for (client, row) in
                        (0..clients).flat_map(|client| (0..rows).map(move |row| (client, row)))
                    {
                        let client = client as usize;
                        let halves = [&halves[client][2 * row][..], &halves[client][2 * row + 1]];
                        backend.arrange(&modulus, &mut selectors, client, row, halves);
                    }
                    let packed = packed.repeat(2);
                    // Three blocks, the first of which is not to be touched.
                    let mut products = vec![Products::default(); clients as usize];
                    products.iter_mut().for_each(|products| products.resize(columns, 24));
                    let mut scratch = RowSums::default();
                    let mut each: Vec<&mut Products> = products.iter_mut().collect();
                    backend.row_products(&modulus, &packed, columns, &selectors, &mut each, &mut scratch);
                    for (client, column) in (0..products.len())
                        .flat_map(|client| (0..columns).map(move |column| (client, column)))
                    {
                        for (half, results) in products[client].column(column).into_iter().enumerate() {
                            assert_eq!(results[..8], [0; 8], "{}", backend.backend().name());
                            for (slot, result) in results[8..].iter().enumerate() {
                                let expected = (0..rows).fold(0, |sum, row| {
                                    let (bundle, in_bundle) = (column / COLUMNS, column % COLUMNS);
                                    let of_bundle = COLUMNS.min(columns - bundle * COLUMNS);
                                    let place = bundle * COLUMNS * rows + row * of_bundle + in_bundle;
                                    let plain = plain[8 * place + slot % 8];
                                    let selector = halves[client][2 * row + half][slot];
                                    modulus.add(sum, modulus.mul(plain, selector))
                                });
                                assert_eq!(*result, expected, "{}", backend.backend().name());
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_longest_sums_of_the_largest_products_do_not_overflow() {
    for modulus in primes() {
        let top = vec![modulus.value() - 1; 8];
        let terms: Vec<(&[u64], &[u64])> = vec![(&top, &top); 1 << 12];
        let mut expected = modulus.mul(top[0], top[0]);
        for _ in 0..12 {
            expected = modulus.add(expected, expected);
        }
        for backend in Available::all() {
            let (mut low, mut high, mut out) = (vec![0; 8], vec![0; 8], vec![0; 8]);
            backend.multiply_accumulate(&modulus, [&mut low, &mut high], &terms);
            backend.reduce(&modulus, &mut out, [&mut low, &mut high]);
            assert_eq!(out, [expected; 8], "{}", backend.backend().name());
        }
    }
}
