//! What client and server of the engines with a hint read from each other, with any bytes. The test here and the crate `fuzz/`
//! call the function. It takes the bytes as they are, and once more as changes to a genuine encoding: five bytes for each, the
//! place and what to put there.

use std::sync::LazyLock;

use pir_core::PagePool;

use crate::{DoublePir, Hinted, SECURE, SimplePir};

const ELEMENTS: usize = 11;
const ELEMENT_BYTES: usize = 5;
const SEED: [u8; 32] = [42; 32];

struct Example<S: Hinted> {
    parameters: S::Parameters,
    database: S::Database,
    hint: Vec<u8>,
    query: Vec<u8>,
    asked: S::Asked,
    answer: Vec<u8>,
}

static SIMPLE: LazyLock<Option<Example<SimplePir<SECURE>>>> = LazyLock::new(example);
static DOUBLE: LazyLock<Option<Example<DoublePir<SECURE>>>> = LazyLock::new(example);

fn example<S: Hinted>() -> Option<Example<S>> {
    let parameters = S::choose(1, ELEMENTS, ELEMENT_BYTES).ok()?;
    let content = [9; ELEMENTS * ELEMENT_BYTES];
    let (database, hint) = S::setup(&PagePool::default(), &parameters, &SEED, &[&content]).ok()?.pop()?;
    let (query, mut asked) = S::queries(&parameters, &SEED, &[7], &[43; 32]).ok()?;
    let answer = S::answer(&database, &[&query], &mut |_| ()).pop()?.ok()?;
    Some(Example { parameters, database, hint, query, asked: asked.pop()?, answer })
}

/// Five bytes for each change: the place, and what to put there.
pub(crate) fn changed(genuine: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = genuine.to_vec();
    for [a, b, c, d, value] in changes.as_chunks::<5>().0 {
        let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
        bytes[at] = *value;
    }
    bytes
}

/// A query, whose answer changes nothing of another's; a hint and an answer; and what a manifest says of an arrangement.
pub fn fuzz_hinted(bytes: &[u8]) {
    if let Some(example) = SIMPLE.as_ref() {
        fuzz(example, bytes);
    }
    if let Some(example) = DOUBLE.as_ref() {
        fuzz(example, bytes);
    }
}

fn fuzz<S: Hinted>(example: &Example<S>, bytes: &[u8]) {
    for query in [bytes, &changed(&example.query, bytes)] {
        let mut both = S::answer(&example.database, &[query, &example.query], &mut |_| ());
        assert!(both.pop().is_some_and(|genuine| genuine.as_ref() == Ok(&example.answer)));
        let fits = query.len() == S::query_bytes(&example.parameters);
        let size = |answer: Vec<u8>| answer.len() == example.answer.len();
        assert!(both.pop().is_some_and(|other| other.map_or(!fits, size)));
    }
    for (hint, answer) in [
        (bytes, &example.answer[..]),
        (&example.hint, bytes),
        (&changed(&example.hint, bytes), &example.answer),
        (&example.hint, &changed(&example.answer, bytes)),
    ] {
        let fits = hint.len() == example.hint.len() && answer.len() == example.answer.len();
        let read = S::extract(&example.parameters, &example.asked, hint, answer);
        assert!(read.map_or(!fits, |element| fits && element.len() == ELEMENT_BYTES));
    }
    if let Some((&[a, b, c, d, e, f], profile)) = bytes.split_first_chunk::<6>()
        && let Some(profile) = profile.first_chunk::<16>()
    {
        let elements = u32::from_le_bytes([a, b, c, d]) as usize;
        let element_bytes = usize::from(u16::from_le_bytes([e, f]));
        if let Ok(parameters) = S::with_profile(elements, element_bytes, profile) {
            assert_eq!(S::profile(&parameters), *profile);
            assert!(S::failure_log2(&parameters) <= -40.0 && S::elements(&parameters) == elements);
            let sizes = [S::query_bytes, S::answer_bytes, S::hint_bytes].map(|size| size(&parameters));
            assert!(sizes.iter().all(|size| (1..=1 << 31).contains(size)));
        }
    }
}

/// Valid encodings to begin with, but hints, which are large.
#[must_use]
pub fn valid() -> Vec<Vec<u8>> {
    let (Some(simple), Some(double)) = (SIMPLE.as_ref(), DOUBLE.as_ref()) else { return Vec::new() };
    let announced = |profile: [u8; 16]| {
        let mut bytes = (ELEMENTS as u32).to_le_bytes().to_vec();
        bytes.extend((ELEMENT_BYTES as u16).to_le_bytes());
        bytes.extend(profile);
        bytes
    };
    vec![
        simple.query.clone(),
        simple.answer.clone(),
        announced(SimplePir::profile(&simple.parameters)),
        double.query.clone(),
        double.answer.clone(),
        announced(DoublePir::profile(&double.parameters)),
    ]
}

#[cfg(test)]
#[path = "../../../fuzz/mutations.rs"]
pub(crate) mod mutations;
#[cfg(test)]
mod tests;
