use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{Request, Shape, Unit, request};
use crate::PagePool;

fn elements(rng: &mut ChaCha20Rng, shape: &Shape) -> Vec<u8> {
    let mut bytes = vec![0; shape.elements() * shape.element_bytes()];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn secret(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut own = [0; 32];
    rng.fill_bytes(&mut own);
    own
}

#[test]
fn what_was_asked_for_comes_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (count, bytes, columns, buckets) in
        [(100, 288, 4, 3), (2_000, 288, 8, 1), (5, 1, 1, 4), (70, 400, 2, 5)]
    {
        let shape = Shape::new(buckets, count, bytes, columns).unwrap();
        let contents: Vec<Vec<u8>> = (0..buckets).map(|_| elements(&mut rng, &shape)).collect();
        let seed = [9; 32];
        let targets: Vec<usize> = (0..buckets).map(|_| rng.next_u64() as usize % count).collect();
        let asked: Vec<_> =
            (0..3).map(|_| request(&shape, &seed, &targets, &secret(&mut rng)).unwrap()).collect();
        let requests: Vec<_> =
            asked.iter().map(|(bytes, _)| Request::new(&shape, buckets, bytes).unwrap()).collect();
        for (number, contents) in contents.chunks(shape.unit_buckets()).enumerate() {
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            let unit = Unit::new(&PagePool::default(), &shape, &seed, number, &contents).unwrap();
            let first = number * shape.unit_buckets();
            let answers = unit.answer(first, &requests.iter().collect::<Vec<_>>());
            for ((_, asked), answer) in asked.iter().zip(&answers) {
                let read = asked.read(number, unit.hint(), answer).unwrap();
                assert_eq!(read.len(), contents.len());
                for (at, element) in read.iter().enumerate() {
                    let target = targets[first + at] * bytes;
                    assert_eq!(element, &contents[at][target..target + bytes], "{shape:?} {at}");
                }
            }
        }
    }
}
