//! A server that answers with a computation of its own: what it can ask of recorded queries, and until when.

use mpir::{MultiClient, MultiDatabase, MultiQuery};
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

const ELEMENTS: usize = 2048;
const ELEMENT_BYTES: usize = 288;
/// One of the two boxes that a contact has sealed for the reader: which of them opens, it hears.
const YES: [u8; ELEMENT_BYTES] = [0x55; ELEMENT_BYTES];
const NO: [u8; ELEMENT_BYTES] = [0xaa; ELEMENT_BYTES];

/// Every element is one of the two boxes: `YES` where the predicate holds.
fn oracle(holds: impl Fn(usize) -> bool) -> MultiDatabase<SealPir> {
    let elements: Vec<u8> = (0..ELEMENTS).flat_map(|i| if holds(i) { YES } else { NO }).collect();
    MultiDatabase::setup(ELEMENT_BYTES, ELEMENTS, &[elements]).unwrap()
}

fn query(
    client: &MultiClient<SealPir>,
    database: &MultiDatabase<SealPir>,
    index: usize,
    seed: u64,
) -> MultiQuery {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    client.multi_query(database.parameters(), &[Some(index)], &mut rng).unwrap()
}

/// What `reader` reads, who asks a query of its own just now, when the server answers a recorded query of `recorded` instead.
fn hears(reader: &MultiClient<SealPir>, recorded: &MultiClient<SealPir>, index: usize) -> Option<bool> {
    // A plaintext holds eight elements.
    let database = oracle(|element| (element / 8) % 2 == 0);
    let keys = SealPir::decode_public_keys(&recorded.public_keys()).unwrap();
    let old = query(recorded, &database, index, 1);
    let answers = database.answer(&keys, &[&old.encoded()[0]]).unwrap();
    // In the same plaintext: for another one the server takes its public keystream off, and nothing else changes.
    let now = query(reader, &database, index ^ 1, 2);
    match reader.multi_extract(database.parameters(), &now, &answers).remove(0) {
        Ok(element) if element == YES => Some(true),
        Ok(element) if element == NO => Some(false),
        _ => None,
    }
}

/// Within one secret such an answer tells a predicate of any recorded query, which is why secrets are short-lived; behind
/// a change of the secret it tells nothing. When one secret served a client for life, every query ever recorded answered.
#[test]
fn attack_h1_a_query_answers_nothing_under_another_secret() {
    let (present, past) = (MultiClient::<SealPir>::new(&[1; 32]), MultiClient::<SealPir>::new(&[2; 32]));
    for index in [0, 7, 8, 100, 2047] {
        let predicate = (index / 8) % 2 == 0;
        assert_eq!(hears(&present, &present, index), Some(predicate), "the attack is not played right");
        assert_eq!(hears(&present, &past, index), None);
    }
}
