//! What a proof convinces a stranger of, over the real engine: of nothing about an honest server, whatever is changed in it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "progress of an hour")]

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{MultiClient, MultiDatabase};
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use sotto::audit::{Announced, Digests, Proof, Verdict, judge};
use sotto_protocol::audit::{Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{MAPPING_BLOOM, Manifest, SignedManifest, bucket_digest, buckets_digest};
use sotto_protocol::{CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters};
use sotto_wire::RootKey;
use sotto_wire::root::endorse;

const BUCKETS: u16 = 4;
const SIZE: usize = 100;

/// A round of a server, and one who asks it.
struct Scene {
    root: SigningKey,
    key: SigningKey,
    announced: Announced,
    manifest: Manifest,
    contents: Vec<Vec<u8>>,
    database: MultiDatabase<SealPir>,
    client: MultiClient<SealPir>,
    keys: Bytes,
    rng: ChaCha20Rng,
}

impl Scene {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let (root, key) = (SigningKey::from_bytes(&[2; 32]), SigningKey::from_bytes(&[3; 32]));
        let parameters = ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: key.verifying_key().to_bytes(),
            seeds: SeedCommitment { first: Round(1), segments: 1, root: [0; 32] },
            engine: SealPir::NAME.into(),
            security_bits: 128,
            code: CodeKind::Cuckoo,
            retrieve: 2,
            buckets: BUCKETS,
            choices: 2,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 2000,
            deposit_ms: 100,
            lookup_ms: 200,
            query_ms: 400,
        };
        let contents: Vec<Vec<u8>> = (0..BUCKETS)
            .map(|_| {
                let mut boxes = vec![0; SIZE * BOX_BYTES];
                rng.fill_bytes(&mut boxes);
                boxes
            })
            .collect();
        let digests: Vec<_> =
            (0..).zip(&contents).map(|(number, boxes)| bucket_digest(number, boxes)).collect();
        let manifest = Manifest {
            version: PROTOCOL_VERSION,
            round: Round(77),
            entries: 180,
            engine: SealPir::NAME.into(),
            code: CodeKind::Cuckoo,
            retrieve: 2,
            buckets: BUCKETS,
            choices: 2,
            mapping_kind: MAPPING_BLOOM,
            bucket_size: SIZE as u32,
            round_seed: [4; 32],
            mapping_digest: [5; 32],
            deposits_digest: [6; 32],
            buckets_digest: buckets_digest(&digests),
            previous: [7; 32],
        };
        manifest.check().unwrap();
        let database = MultiDatabase::setup(BOX_BYTES, SIZE, &contents).unwrap();
        let client = MultiClient::new(&[8; 32]);
        let keys = client.public_keys().into();
        let announced =
            Announced { announcement: parameters.encode(), endorsement: endorse(&root, &parameters) };
        Self { root, key, announced, manifest, contents, database, client, keys, rng }
    }

    fn root(&self) -> RootKey {
        RootKey(self.root.verifying_key().to_bytes())
    }

    /// What a client holds after it asked, of a server that changes its answers before it signs them.
    fn proof(&mut self, bucket: u16, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Proof {
        let targets: Vec<_> = (0..BUCKETS).map(|_| Some(self.rng.next_u32() as usize % SIZE)).collect();
        let query = self.client.multi_query(self.database.parameters(), &targets, &mut self.rng).unwrap();
        let public = SealPir::decode_public_keys(&self.keys).unwrap();
        let sent: Vec<&[u8]> = query.encoded().iter().map(Vec::as_slice).collect();
        let mut answers = self.database.answer(&public, &sent).unwrap();
        change(&mut answers);
        let digests = Digests {
            buckets: (0..).zip(&self.contents).map(|(number, boxes)| bucket_digest(number, boxes)).collect(),
            queries: (0..).zip(&sent).map(|(number, query)| query_digest(number, query)).collect(),
            answers: (0..).zip(&answers).map(|(number, answer)| answer_digest(number, answer)).collect(),
        };
        let keys = Sha256::digest(&self.keys).into();
        let (round, manifest) = (self.manifest.round, self.manifest.digest());
        let statement = Statement::new(round, manifest, keys, &digests.queries, &digests.answers);
        let number = usize::from(bucket);
        Proof {
            announced: self.announced.clone(),
            manifest: SignedManifest::sign(&self.manifest, &self.key),
            receipt: statement.sign(&self.key),
            bucket,
            digests,
            keys: self.keys.clone(),
            query: Bytes::copy_from_slice(sent[number]),
            answer: answers[number].clone().into(),
            boxes: self.contents[number].clone().into(),
        }
    }
}

#[test]
fn a_wrong_answer_convicts_and_only_of_the_bucket_that_was_wrong() {
    let mut scene = Scene::new();
    let wrong = scene.proof(2, |answers| answers[2][40] ^= 1);
    assert_eq!(judge::<SealPir>(&wrong, &scene.root()), Verdict::Cheated);
    let again = Proof::decode(&wrong.encode().into()).unwrap();
    assert!(again == wrong);
    assert_eq!(judge::<SealPir>(&again, &scene.root()), Verdict::Cheated);
    // The answer to somebody else's query, or of another bucket, is a wrong one.
    let other = scene.proof(1, |answers| answers.swap(0, 1));
    assert_eq!(judge::<SealPir>(&other, &scene.root()), Verdict::Cheated);
    let elsewhere = scene.proof(1, |answers| answers[2][40] ^= 1);
    assert_eq!(judge::<SealPir>(&elsewhere, &scene.root()), Verdict::Honest);
    // Another server's address.
    assert!(matches!(judge::<SealPir>(&wrong, &RootKey([2; 32])), Verdict::Invalid(_)));
}

#[test]
fn an_honest_server_is_convicted_by_no_change_of_a_proof() {
    let mut scene = Scene::new();
    let root = scene.root();
    let honest = scene.proof(3, |_| {});
    let other = scene.proof(1, |_| {});
    assert_eq!(judge::<SealPir>(&honest, &root), Verdict::Honest);
    let cheated = |proof: &Proof| judge::<SealPir>(proof, &root) == Verdict::Cheated;
    let swaps: [fn(&mut Proof, &Proof); 10] = [
        |proof, other| proof.receipt = other.receipt,
        |proof, other| proof.bucket = other.bucket,
        |proof, other| proof.digests = other.digests.clone(),
        |proof, other| proof.digests.answers = other.digests.answers.clone(),
        |proof, other| proof.digests.queries = other.digests.queries.clone(),
        |proof, other| proof.query = other.query.clone(),
        |proof, other| proof.answer = other.answer.clone(),
        |proof, other| proof.boxes = other.boxes.clone(),
        |proof, _| proof.digests.buckets.swap(2, 3),
        |proof, _| proof.keys = MultiClient::<SealPir>::new(&[9; 32]).public_keys().into(),
    ];
    for (number, swap) in swaps.into_iter().enumerate() {
        let mut bent = honest.clone();
        swap(&mut bent, &other);
        assert!(bent != honest && !cheated(&bent), "{number}");
    }
    // Any bit: all of the head, and a sample of the rest.
    let encoded = honest.encode();
    let head = 12 + 145 + 64 + 220 + 64 + 64 + 2 + 3 * 32 * usize::from(BUCKETS) + 4;
    let places = (0..head).step_by(5).chain((head..encoded.len()).step_by(encoded.len() / 150));
    for place in places.chain(encoded.len() - 3..encoded.len()) {
        let mut bent = encoded.clone();
        bent[place] ^= 1 << (place % 8);
        if let Ok(bent) = Proof::decode(&bent.into()) {
            assert!(!cheated(&bent), "{place}");
        }
    }
    for length in (0..encoded.len()).step_by(997) {
        assert!(Proof::decode(&Bytes::copy_from_slice(&encoded[..length])).is_err());
    }
    assert!(Proof::decode(&[&encoded[..], &[0]].concat().into()).is_err());
}

fn honest_answers(many: u64) {
    let mut scene = Scene::new();
    for number in 0..many {
        let proof = scene.proof((number % u64::from(BUCKETS)) as u16, |_| {});
        assert_eq!(judge::<SealPir>(&proof, &scene.root()), Verdict::Honest, "{number}");
        if number > 0 && number % 5000 == 0 {
            println!("{number} answers computed again");
        }
    }
}

#[test]
fn what_is_computed_again_is_what_was_served() {
    honest_answers(60);
}

/// `cargo test --release -p sotto --test audit -- --ignored --nocapture`
#[test]
#[ignore = "takes an hour"]
fn what_is_computed_again_is_what_was_served_a_hundred_thousand_times() {
    honest_answers(100_000);
}
