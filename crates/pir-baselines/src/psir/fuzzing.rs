//! What client and server of PSIR read from each other, with any bytes, over each inner engine. The tests here and the crate
//! `fuzz/` call [`fuzz_psir`].

use std::sync::LazyLock;

use mpir::{Contents, Engine, EngineClient, Form, PreparedRound, Profile, PublicKeys, Query, RoundSpec};
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::{Inner, Psir};
use crate::Xpir;
use crate::fuzzing::changed;
use crate::paillier::Paillier2048 as Paillier;

const ELEMENTS: usize = 11;
const ELEMENT_BYTES: usize = 5;

struct Example {
    engine: Box<dyn Engine>,
    spec: RoundSpec,
    prepared: Box<dyn PreparedRound>,
    encoded_keys: Vec<u8>,
    keys: PublicKeys,
    request: Vec<u8>,
    answer: Vec<u8>,
}

static EXAMPLES: LazyLock<Option<[Example; 3]>> =
    LazyLock::new(|| Some([example::<Xpir<2>>()?, example::<SealPir>()?, example::<Paillier>()?]));

fn example<I: Inner>() -> Option<Example> {
    let engine: Box<dyn Engine> = Box::new(Psir::<I>::new());
    let form = Form { buckets: 1, elements: ELEMENTS, element_bytes: ELEMENT_BYTES };
    let profile = match I::INSECURE_PROFILE {
        Some(profile) => Profile(profile),
        None => engine.profile(form).ok()?,
    };
    let spec = RoundSpec { seed: [1; 32], whitening: [1; 32], round: 7, form, profile };
    let contents = Contents { different: &[vec![9; ELEMENTS * ELEMENT_BYTES]], copies: 1 };
    let prepared = engine.prepare(&spec, contents).ok()?;
    let mut client = engine.client(&[42; 32]);
    let encoded_keys = client.public_keys();
    let keys = engine.public_keys(&encoded_keys).ok()?;
    let mut rng = ChaCha20Rng::from_seed([43; 32]);
    let request = client.ask(spec.clone(), &[Some(7)], &mut rng).ok()?.bytes;
    let query = Query { keys: &keys, request: &request };
    let answer = prepared.answer(0, &[query]).pop()?.ok()?;
    Some(Example { engine, spec, prepared, encoded_keys, keys, request, answer })
}

impl Example {
    /// The bytes as they are, and as changes to each genuine encoding.
    fn read(&self, client: &dyn EngineClient, bytes: &[u8]) {
        let sizes = self.prepared.sizes();
        for request in [bytes, &changed(&self.request, bytes)] {
            let tile = [request, &self.request].map(|request| Query { keys: &self.keys, request });
            let mut both = self.prepared.answer(0, &tile);
            assert!(both.pop().is_some_and(|genuine| genuine.as_ref() == Ok(&self.answer)));
            let size = |answer: Vec<u8>| answer.len() == sizes.answer.bytes();
            assert!(both.pop().is_some_and(|other| other.map_or(request != self.request, size)));
        }
        if let Ok(keys) = self.engine.public_keys(&changed(&self.encoded_keys, bytes)) {
            let query = Query { keys: &keys, request: &self.request };
            assert_eq!(self.prepared.answer(0, &[query]).len(), 1);
        }
        let hint = self.prepared.hint();
        let mut rng = ChaCha20Rng::from_seed([44; 32]);
        for (hint, answer) in [
            (bytes, &self.answer[..]),
            (hint, bytes),
            (&changed(hint, bytes), &self.answer),
            (hint, &changed(&self.answer, bytes)),
        ] {
            let Ok(asked) = client.cover(self.spec.clone(), &mut rng) else { continue };
            for element in asked.pending.read(hint, answer) {
                assert!(element.map_or(true, |element| element.len() == ELEMENT_BYTES));
            }
        }
    }

    /// What a manifest says of a round.
    fn announced(&self, bytes: &[u8]) {
        if let Some((&[a, b, c, d, e, f], profile)) = bytes.split_first_chunk::<6>()
            && let Some(profile) = profile.first_chunk::<{ Profile::BYTES }>()
        {
            let elements = u32::from_le_bytes([a, b, c, d]) as usize;
            let element_bytes = usize::from(u16::from_le_bytes([e, f]));
            let form = Form { buckets: 1, elements, element_bytes };
            let spec = RoundSpec { form, profile: Profile(*profile), ..self.spec.clone() };
            if let Ok(sizes) = self.engine.sizes(&spec) {
                assert_eq!(sizes.hint.bytes(), elements * element_bytes);
                assert!(self.engine.assurance(&spec).is_ok_and(|all| all.failure_log2 <= -40.0));
            }
        }
    }
}

/// Requests, public keys, hints, answers, and forms of rounds.
pub fn fuzz_psir(bytes: &[u8]) {
    let Some(examples) = &*EXAMPLES else { return };
    for example in examples {
        example.announced(bytes);
        // Primes take a second to find, and a query as much: what it reads itself is checked once.
        if example.engine.name() != Paillier::PSIR_NAME {
            example.read(&*example.engine.client(&[42; 32]), bytes);
        }
    }
    let [.., paillier] = examples;
    for keys in [bytes, &changed(&paillier.encoded_keys, bytes)] {
        if let Ok(decoded) = Paillier::decode_public_keys(keys) {
            let query = Query { keys: &PublicKeys::new(decoded), request: &paillier.request };
            assert_eq!(paillier.prepared.answer(0, &[query]).len(), 1);
        }
    }
    let request = changed(&paillier.request, bytes);
    let query = Query { keys: &paillier.keys, request: &request };
    let size = |answer: &Vec<u8>| answer.len() == paillier.answer.len();
    assert!(paillier.prepared.answer(0, &[query]).iter().flatten().all(size));
}

/// Valid encodings to begin with.
#[cfg(test)]
fn valid() -> Vec<Vec<u8>> {
    let mut valid = vec![vec![100, 0, 0, 0, 32, 1].into_iter().chain([0; 16]).collect()];
    for example in EXAMPLES.iter().flatten() {
        valid.extend([example.request.clone(), example.answer.clone(), example.prepared.hint().to_vec()]);
    }
    assert_eq!(valid.len(), 10, "examples of all engines");
    valid
}

#[cfg(test)]
mod tests;
