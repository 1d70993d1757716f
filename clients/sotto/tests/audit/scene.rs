//! A round of a server over the real engine, and one who asks it. The same seed gives the same bytes in any process.

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{MultiClient, MultiDatabase};
use pir_core::{Scheme, SealPir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use sotto::audit::{Announced, Digests, Proof};
use sotto_protocol::audit::{Receipt, Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{MAPPING_BLOOM, Manifest, SignedManifest, bucket_digest, buckets_digest};
use sotto_protocol::{CodeKind, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters};
use sotto_wire::RootKey;
use sotto_wire::root::endorse;

pub(crate) const BUCKETS: u16 = 4;

pub(crate) struct Scene {
    /// Boxes of a bucket.
    size: usize,
    root: SigningKey,
    key: SigningKey,
    announced: Announced,
    manifest: Manifest,
    contents: Vec<Vec<u8>>,
    digests: Vec<[u8; 32]>,
    database: MultiDatabase<SealPir>,
    client: MultiClient<SealPir>,
    pub(crate) keys: Bytes,
    rng: ChaCha20Rng,
}

/// What went to and fro for one multi-query.
pub(crate) struct Served {
    pub(crate) queries: Vec<Vec<u8>>,
    pub(crate) answers: Vec<Vec<u8>>,
    pub(crate) receipt: Receipt,
}

impl Scene {
    pub(crate) fn new(seed: u64, size: usize) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut secret = || {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let (root, key) = (SigningKey::from_bytes(&secret()), SigningKey::from_bytes(&secret()));
        let client = MultiClient::new(&secret());
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
                let mut boxes = vec![0; size * BOX_BYTES];
                rng.fill_bytes(&mut boxes);
                boxes
            })
            .collect();
        let digests: Vec<_> =
            (0..).zip(&contents).map(|(number, boxes)| bucket_digest(number, boxes)).collect();
        let manifest = Manifest {
            version: PROTOCOL_VERSION,
            round: Round(77),
            entries: 2 * size as u64 - 1,
            engine: SealPir::NAME.into(),
            code: CodeKind::Cuckoo,
            retrieve: 2,
            buckets: BUCKETS,
            choices: 2,
            mapping_kind: MAPPING_BLOOM,
            bucket_size: size as u32,
            round_seed: [4; 32],
            mapping_digest: [5; 32],
            deposits_digest: [6; 32],
            buckets_digest: buckets_digest(&digests),
            previous: [7; 32],
        };
        manifest.check().unwrap();
        let database = MultiDatabase::setup(BOX_BYTES, size, &contents).unwrap();
        let keys = client.public_keys().into();
        let announced =
            Announced { announcement: parameters.encode(), endorsement: endorse(&root, &parameters) };
        Self { size, root, key, announced, manifest, contents, digests, database, client, keys, rng }
    }

    pub(crate) fn root(&self) -> RootKey {
        RootKey(self.root.verifying_key().to_bytes())
    }

    /// Bytes of one query and of its answer.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        let parameters = self.database.parameters();
        [SealPir::query_bytes(parameters), SealPir::answer_bytes(parameters)]
    }

    /// A multi-query, and what a server answers that changes its answers before it signs them.
    pub(crate) fn serve(&mut self, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Served {
        let targets: Vec<_> = (0..BUCKETS).map(|_| Some(self.rng.next_u32() as usize % self.size)).collect();
        let query = self.client.multi_query(self.database.parameters(), &targets, &mut self.rng).unwrap();
        let public = SealPir::decode_public_keys(&self.keys).unwrap();
        let queries = query.encoded().to_vec();
        let sent: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
        let mut answers = self.database.answer(&public, &sent).unwrap();
        change(&mut answers);
        let (queried, answered) = exchanged(&queries, &answers);
        let keys = Sha256::digest(&self.keys).into();
        let (round, manifest) = (self.manifest.round, self.manifest.digest());
        let receipt = Statement::new(round, manifest, keys, &queried, &answered).sign(&self.key);
        Served { queries, answers, receipt }
    }

    /// What a client holds that was served so, about one bucket.
    pub(crate) fn proof(&self, bucket: u16, served: &Served) -> Proof {
        let (queries, answers) = exchanged(&served.queries, &served.answers);
        let number = usize::from(bucket);
        Proof {
            announced: self.announced.clone(),
            manifest: SignedManifest::sign(&self.manifest, &self.key),
            receipt: served.receipt,
            bucket,
            digests: Digests { buckets: self.digests.clone(), queries, answers },
            keys: self.keys.clone(),
            query: served.queries[number].clone().into(),
            answer: served.answers[number].clone().into(),
            boxes: self.contents[number].clone().into(),
        }
    }
}

/// Digests of queries and of answers.
fn exchanged(queries: &[Vec<u8>], answers: &[Vec<u8>]) -> (Vec<[u8; 32]>, Vec<[u8; 32]>) {
    (
        (0..).zip(queries).map(|(number, query)| query_digest(number, query)).collect(),
        (0..).zip(answers).map(|(number, answer)| answer_digest(number, answer)).collect(),
    )
}
