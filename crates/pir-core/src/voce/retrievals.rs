//! Elements that are read, compared with what is stored: all arrangements, and contents that somebody chose to do harm.
//!
//! `SOTTO_RETRIEVALS=N` checks N of them; the gate checks a few. `SOTTO_KERNEL` says with which kernel.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use super::ring::{DEGREE, Whitening};
use super::select::{self, PublicKeys, Secret};
use super::{Ending, Pools, Request, Shape, Unit, request};
use crate::ring::bits::BitWriter;

/// Ending, elements of a bucket and columns, as they are for 2^18 messages of 288 bytes at k = 256, 64 and 16, in
/// arrangements that are near the best; and other elements. The noise of an answer depends on nothing else.
const ARRANGEMENTS: [(Ending, usize, usize, usize); 15] = [
    (Ending::Hint, 2_048, 288, 1),
    (Ending::Selected, 2_048, 288, 4),
    (Ending::Hint, 8_192, 288, 4),
    (Ending::Selected, 8_192, 288, 8),
    (Ending::Hint, 700, 1_000, 2),
    (Ending::Selected, 700, 1_000, 2),
    (Ending::Hint, 24_576, 288, 8),
    (Ending::Selected, 24_576, 288, 12),
    (Ending::Selected, 24_576, 288, 16),
    (Ending::Selected, 24_576, 288, 32),
    // As who prefers time arranges them.
    (Ending::Selected, 2_048, 288, 1),
    (Ending::Hint, 8_192, 288, 2),
    (Ending::Selected, 8_192, 288, 2),
    (Ending::Hint, 24_576, 288, 4),
    (Ending::Selected, 24_576, 288, 3),
];

/// A single database, as at k = 1.
const ALONE: [(Ending, usize, usize, usize); 4] = [
    (Ending::Hint, 262_144, 288, 32),
    (Ending::Selected, 262_144, 288, 48),
    (Ending::Selected, 262_144, 288, 64),
    (Ending::Selected, 262_144, 288, 16),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Random,
    Ones,
    Empty,
    /// One bucket is full of random elements, and all others are empty.
    OneBucket,
    /// Element by element the same as its mirror image.
    Symmetric,
    /// Of somebody who knows the round's seed, so that the least coefficient stands everywhere after whitening.
    Least,
    /// Likewise, so that an output x and N - x have opposite coefficients: the two chains of packing add the same noise then.
    Conjugate,
}

const CONTENTS: [Content; 7] = [
    Content::Random,
    Content::Ones,
    Content::Empty,
    Content::OneBucket,
    Content::Symmetric,
    Content::Least,
    Content::Conjugate,
];

impl Content {
    fn bucket(self, shape: &Shape, whitening: &Whitening, bucket: usize, rng: &mut ChaCha20Rng) -> Vec<u8> {
        let (elements, size) = (shape.elements(), shape.element_bytes());
        let mut bytes = vec![0; elements * size];
        let before_whitening = |element: usize, field: &dyn Fn(usize) -> u64| {
            let mut whole = Vec::new();
            let mut writer = BitWriter::new(&mut whole);
            (0..shape.element_outputs()).for_each(|at| writer.write(field(at), 9));
            writer.finish();
            whitening.apply(&mut whole, bucket, element);
            whole.truncate(size);
            whole
        };
        match self {
            Self::Random => rng.fill_bytes(&mut bytes),
            Self::OneBucket if bucket == 1 => rng.fill_bytes(&mut bytes),
            Self::Empty | Self::OneBucket => {}
            Self::Ones => bytes.fill(0xff),
            Self::Symmetric => {
                for element in bytes.chunks_exact_mut(size) {
                    let (half, rest) = element.split_at_mut(size / 2);
                    rng.fill_bytes(half);
                    rest.iter_mut().rev().zip(half).for_each(|(to, from)| *to = *from);
                }
            }
            Self::Least => {
                for (number, element) in bytes.chunks_exact_mut(size).enumerate() {
                    element.copy_from_slice(&before_whitening(number, &|_| 0));
                }
            }
            Self::Conjugate => {
                // D = field - 256, and -D = 512 - field; those of output 0, and of the middle, are their own.
                for (number, element) in bytes.chunks_exact_mut(size).enumerate() {
                    let (row, column) = (number / shape.columns(), number % shape.columns());
                    let (together, turns) = (shape.interleaved_columns(), shape.interleaved_pieces());
                    let piece = bucket * shape.pieces() + column / together;
                    let field = |at: usize| {
                        let x = if turns > 1 {
                            (at * turns + piece % turns) * together + column % together
                        } else {
                            (bucket * shape.bucket_outputs() + shape.output(column, at)) % DEGREE
                        };
                        let (low, turned) = if x > DEGREE / 2 { (DEGREE - x, true) } else { (x, false) };
                        let value = ((row * 2_654_435_761 + low * 40_503) >> 7) as u64 % 511 + 1;
                        if x % (DEGREE / 2) == 0 {
                            256
                        } else if turned {
                            512 - value
                        } else {
                            value
                        }
                    };
                    element.copy_from_slice(&before_whitening(number, &field));
                }
            }
        }
        bytes
    }
}

/// How many elements were read, and how many of them wrongly, by some clients of a unit.
#[derive(Clone, Copy, Default)]
struct Read {
    all: usize,
    wrong: usize,
}

fn seed(rng: &mut ChaCha20Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}

/// Every client asks for elements of its own, at the ends of a bucket, too.
fn retrieve(pools: &Pools, shape: &Shape, content: Content, clients: usize, rng: &mut ChaCha20Rng) -> Read {
    let (seed_of_round, buckets) = (seed(rng), shape.unit_buckets());
    let whitening = Whitening::new(&seed_of_round);
    let contents: Vec<Vec<u8>> =
        (0..buckets).map(|bucket| content.bucket(shape, &whitening, bucket, rng)).collect();
    let given: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let targets: Vec<Vec<usize>> = (0..clients)
        .map(|_| {
            let target = |rng: &mut ChaCha20Rng| match rng.next_u32() % 16 {
                0 => 0,
                1 => shape.elements() - 1,
                _ => rng.next_u64() as usize % shape.elements(),
            };
            (0..buckets).map(|_| target(rng)).collect()
        })
        .collect();
    let mut read: Vec<Vec<Vec<u8>>> = Vec::new();
    if shape.ending() == Ending::Hint {
        let unit = Unit::new(pools, shape, &seed_of_round.into(), 0, &given).unwrap();
        for targets in targets.chunks(16) {
            let asked: Vec<_> = targets
                .iter()
                .map(|targets| request(shape, &seed_of_round, targets, &seed(rng)).unwrap())
                .collect();
            let requests: Vec<_> =
                asked.iter().map(|(bytes, _)| Request::new(shape, buckets, bytes).unwrap()).collect();
            let answers = unit.answer(0, &requests.iter().collect::<Vec<_>>());
            read.extend(
                asked
                    .iter()
                    .zip(&answers)
                    .map(|((_, asked), answer)| asked.read(&seed_of_round, 0, unit.hint(), answer).unwrap()),
            );
        }
    } else {
        let unit = select::Unit::new(pools, shape, &seed_of_round.into(), 0, &given).unwrap();
        for targets in targets.chunks(16) {
            let mut secrets: Vec<_> = targets.iter().map(|_| Secret::new(&seed(rng))).collect();
            let keys: Vec<_> =
                secrets.iter().map(|secret| PublicKeys::read(&secret.public_keys()).unwrap()).collect();
            let asked: Vec<_> = secrets
                .iter_mut()
                .zip(targets)
                .map(|(secret, targets)| secret.request(shape, &seed_of_round, targets, &seed(rng)).unwrap())
                .collect();
            let requests: Vec<_> = asked
                .iter()
                .zip(&keys)
                .map(|((bytes, _), keys)| select::Request::new(shape, buckets, keys, bytes).unwrap())
                .collect();
            let answers = unit.answer(0, &requests.iter().collect::<Vec<_>>());
            let answers = asked.iter().zip(&answers);
            read.extend(answers.map(|((_, asked), answer)| asked.read(&seed_of_round, 0, answer).unwrap()));
        }
    }
    let size = shape.element_bytes();
    let compared = read.iter().zip(&targets).flat_map(|(read, targets)| {
        assert_eq!(read.len(), targets.len());
        read.iter().zip(targets).zip(&contents)
    });
    compared.fold(Read::default(), |sum, ((element, target), content)| Read {
        all: sum.all + 1,
        wrong: sum.wrong + usize::from(*element != content[target * size..][..size]),
    })
}

#[test]
fn no_element_is_read_wrongly_whatever_stands_in_the_database() {
    let asked = std::env::var("SOTTO_RETRIEVALS").ok().and_then(|number| number.parse().ok());
    let (wanted, clients, buckets, at_once, all): (usize, _, _, _, Vec<_>) = match asked {
        // The last arrangements, of many megabytes, are for those who have time.
        None => (1, 4, 8, 16, ARRANGEMENTS[..6].to_vec()),
        Some(wanted) => (wanted, 128, 64, 4, ARRANGEMENTS.into_iter().chain(ALONE).collect()),
    };
    let kinds: Vec<_> = all.iter().flat_map(|one| CONTENTS.map(|content| (*one, content))).collect();
    let pools = Pools::default();
    let play = |number: usize| {
        // 5 has no factor in common with 42 or 133: neighbours differ in both, and all pairs have their turn.
        let at = number * 5 % kinds.len();
        let ((ending, elements, bytes, columns), content) = kinds[at];
        let shape = Shape::new(ending, buckets, elements, bytes, columns).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(number as u64);
        (at, retrieve(&pools, &shape, content, clients, &mut rng))
    };
    let mut read = vec![Read::default(); kinds.len()];
    let (mut number, mut sum) = (0, 0);
    while sum < wanted {
        let played: Vec<_> = (number..number + at_once).into_par_iter().map(play).collect();
        number += played.len();
        for (kind, more) in played {
            read[kind].all += more.all;
            read[kind].wrong += more.wrong;
            sum += more.all;
        }
    }
    for ((arrangement, content), read) in kinds.iter().zip(&read).filter(|(_, read)| read.all > 0) {
        println!("{arrangement:?} {content:?}: {} read, {} wrong", read.all, read.wrong);
    }
    let wrong: usize = read.iter().map(|read| read.wrong).sum();
    assert_eq!(wrong, 0, "of {sum} with {}", crate::ring::Backend::active().name());
    assert!(
        CONTENTS.iter().all(|content| {
            kinds.iter().zip(&read).any(|((_, kind), read)| kind == content && read.all > 0)
        })
    );
}
