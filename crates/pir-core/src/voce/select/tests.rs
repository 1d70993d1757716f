use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::{PublicKeys, Request, Secret, Unit};
use crate::Error;
use crate::voce::{Ending, Pools, Shape};

fn random(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut own = [0; 32];
    rng.fill_bytes(&mut own);
    own
}

#[test]
fn what_was_asked_for_comes_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (count, bytes, columns, buckets) in [
        (70, 288, 8, 3),
        (100, 288, 4, 11),
        (300, 288, 16, 17),
        (64, 288, 64, 1),
        (9, 1, 2, 4),
        (20, 600, 4, 5),
    ] {
        let shape = Shape::new(Ending::Selected, buckets, count, bytes, columns).unwrap();
        let element = |rng: &mut ChaCha20Rng| {
            let mut content = vec![0; count * bytes];
            rng.fill_bytes(&mut content);
            content
        };
        let contents: Vec<Vec<u8>> = (0..buckets).map(|_| element(&mut rng)).collect();
        let seed = random(&mut rng);
        let targets: Vec<usize> = (0..buckets).map(|_| rng.next_u64() as usize % count).collect();
        let mut secrets: Vec<_> = (0..3).map(|_| Secret::new(&random(&mut rng))).collect();
        let keys: Vec<_> =
            secrets.iter().map(|secret| PublicKeys::read(&secret.public_keys()).unwrap()).collect();
        let asked: Vec<_> = secrets
            .iter_mut()
            .map(|secret| secret.request(&shape, &seed, &targets, &random(&mut rng)).unwrap())
            .collect();
        let requests: Vec<_> = asked
            .iter()
            .zip(&keys)
            .map(|((bytes, _), keys)| Request::new(&shape, buckets, keys, bytes).unwrap())
            .collect();
        for (number, contents) in contents.chunks(shape.unit_buckets()).enumerate() {
            let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            let unit = Unit::new(&Pools::default(), &shape, &seed, number, &contents).unwrap();
            let first = number * shape.unit_buckets();
            let answers = unit.answer(first, &requests.iter().collect::<Vec<_>>());
            for ((_, asked), answer) in asked.iter().zip(&answers) {
                let read = asked.read(number, answer).unwrap();
                assert_eq!(read.len(), contents.len());
                for (at, element) in read.iter().enumerate() {
                    let target = targets[first + at] * bytes;
                    assert_eq!(element, &contents[at][target..target + bytes], "{shape:?} {at}");
                }
            }
        }
    }
}

#[test]
fn a_secret_asks_once_under_a_seed() {
    let shape = Shape::new(Ending::Selected, 1, 20, 288, 8).unwrap();
    let mut secret = Secret::new(&[1; 32]);
    assert!(secret.request(&shape, &[2; 32], &[3], &[4; 32]).is_ok());
    assert_eq!(secret.request(&shape, &[2; 32], &[4], &[5; 32]).err(), Some(Error::Repeated));
    assert!(secret.request(&shape, &[3; 32], &[4], &[6; 32]).is_ok());
}
