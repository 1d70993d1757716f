//! What ends of [`crate::voce`] read from each other.

use std::sync::LazyLock;

use super::{ELEMENT_BYTES, changed};
use crate::voce::{Asked, Ending, Pools, Request, Shape, Unit, request, select};

const BUCKETS: usize = 2;
const ELEMENTS: usize = 11;
const SEED: [u8; 32] = [42; 32];

struct Example {
    shape: Shape,
    unit: Unit,
    request: Vec<u8>,
    asked: Asked,
    answer: Vec<u8>,
}

static EXAMPLE: LazyLock<Option<Example>> = LazyLock::new(|| {
    let shape = Shape::new(Ending::Hint, BUCKETS, ELEMENTS, ELEMENT_BYTES, 2).ok()?;
    let content = [9; ELEMENTS * ELEMENT_BYTES];
    let unit = Unit::new(&Pools::default(), &shape, &SEED.into(), 0, &[&content[..]; BUCKETS]).ok()?;
    let (bytes, asked) = request(&shape, &SEED, &[7; BUCKETS], &[43; 32]).ok()?;
    let answer = unit.answer(0, &[&Request::new(&shape, BUCKETS, &bytes).ok()?]).pop()?;
    Some(Example { shape, unit, request: bytes, asked, answer })
});

/// A request, whose answer changes nothing of another's; a hint and an answer; and what a manifest says of an arrangement.
pub fn fuzz_voce(bytes: &[u8]) {
    fuzz_selected(bytes);
    let Some(example) = EXAMPLE.as_ref() else { return };
    let Ok(genuine) = Request::new(&example.shape, BUCKETS, &example.request) else { return };
    for bytes in [bytes, &changed(&example.request, bytes)] {
        let Ok(other) = Request::new(&example.shape, BUCKETS, bytes) else { continue };
        let both = example.unit.answer(0, &[&other, &genuine]);
        assert!(both.len() == 2 && both[0].len() == example.answer.len() && both[1] == example.answer);
    }
    let hint = example.unit.hint();
    for (hint, answer) in [
        (bytes, &example.answer[..]),
        (hint, bytes),
        (&changed(hint, bytes), &example.answer),
        (hint, &changed(&example.answer, bytes)),
    ] {
        let fits = hint.len() == example.shape.hint_bytes() && answer.len() == example.shape.answer_bytes();
        let read = example.asked.read(&SEED, 0, hint, answer);
        assert!(read.map_or(!fits, |read| fits && read.iter().all(|element| element.len() == ELEMENT_BYTES)));
    }
    if let Some((&[a, b, c, d, e, f, g, h], profile)) = bytes.split_first_chunk::<8>()
        && let Some(profile) = profile.first_chunk::<16>()
    {
        let buckets = usize::from(u16::from_le_bytes([a, b]));
        let elements = u32::from_le_bytes([c, d, e, f]) as usize;
        let element_bytes = usize::from(u16::from_le_bytes([g, h]));
        for ending in [Ending::Hint, Ending::Selected] {
            let Ok(shape) = Shape::announced(ending, buckets, elements, element_bytes, profile) else {
                continue;
            };
            assert_eq!(shape.profile(), *profile);
            assert!(shape.unit_buckets() <= buckets && shape.rows() * shape.columns() >= elements);
            assert!(crate::voce::noise::failure_log2(&shape) <= -40.0);
        }
    }
}

/// Valid encodings to begin with, but the request, which is large.
pub(super) fn valid() -> Vec<Vec<u8>> {
    let Some(example) = EXAMPLE.as_ref() else { return Vec::new() };
    let mut arrangement = vec![BUCKETS as u8, 0, ELEMENTS as u8, 0, 0, 0];
    arrangement.extend((ELEMENT_BYTES as u16).to_le_bytes());
    arrangement.extend(example.shape.profile());
    let mut valid = vec![example.unit.hint().to_vec(), example.answer.clone(), arrangement];
    valid.extend(SELECTED.as_ref().map(|selected| selected.answer.clone()));
    valid
}

struct Selected {
    shape: Shape,
    unit: select::Unit,
    keys: Vec<u8>,
    request: Vec<u8>,
    asked: select::Asked,
    answer: Vec<u8>,
}

static SELECTED: LazyLock<Option<Selected>> = LazyLock::new(|| {
    let shape = Shape::new(Ending::Selected, BUCKETS, ELEMENTS, ELEMENT_BYTES, 2).ok()?;
    let content = [9; ELEMENTS * ELEMENT_BYTES];
    let unit =
        select::Unit::new(&Pools::default(), &shape, &SEED.into(), 0, &[&content[..]; BUCKETS]).ok()?;
    let mut secret = select::Secret::new(&[44; 32]);
    let (request, asked) = secret.request(&shape, &SEED, &[7; BUCKETS], &[43; 32]).ok()?;
    let keys = secret.public_keys();
    let public = select::PublicKeys::read(&keys).ok()?;
    let answer = unit.answer(0, &[&select::Request::new(&shape, BUCKETS, &public, &request).ok()?]).pop()?;
    Some(Selected { shape, unit, keys, request, asked, answer })
});

/// Keys, a request, whose answer changes nothing of another's, and an answer, where a column is selected.
fn fuzz_selected(bytes: &[u8]) {
    let Some(example) = SELECTED.as_ref() else { return };
    let Ok(keys) = select::PublicKeys::read(&example.keys) else { return };
    let Ok(genuine) = select::Request::new(&example.shape, BUCKETS, &keys, &example.request) else { return };
    for changed_keys in [bytes, &changed(&example.keys, bytes)] {
        let Ok(other_keys) = select::PublicKeys::read(changed_keys) else { continue };
        for bytes in [bytes, &changed(&example.request, bytes)] {
            let Ok(other) = select::Request::new(&example.shape, BUCKETS, &other_keys, bytes) else {
                continue;
            };
            let both = example.unit.answer(0, &[&other, &genuine]);
            assert!(both.len() == 2 && both[0].len() == example.answer.len() && both[1] == example.answer);
        }
    }
    for answer in [bytes, &changed(&example.answer, bytes)] {
        let fits = answer.len() == example.shape.answer_bytes();
        let read = example.asked.read(&SEED, 0, answer);
        assert!(read.map_or(!fits, |read| fits && read.iter().all(|element| element.len() == ELEMENT_BYTES)));
    }
}
