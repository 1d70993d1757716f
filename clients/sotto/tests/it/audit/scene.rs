//! A round of a server over the real engine, and one who asks it. The same seed gives the same bytes in any process.

use std::sync::Arc;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{Contents, Engine, EngineClient, Form, PreparedRound, Query, RoundSpec, sealpir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use sotto_participant::audit::{Announced, Digests, Proof};
use sotto_protocol::audit::{Receipt, Statement, answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::{
    MAPPING_BLOOM, Manifest, SignedManifest, bucket_digest, buckets_digest, hint_digest, unit_hint_digests,
};
use sotto_protocol::{
    CodeKind, MANIFEST_VERSION, PROTOCOL_VERSION, Round, RoundMode, SeedCommitment, ServerParameters,
};
use sotto_wire::RootKey;
use sotto_wire::root::endorse;

pub(crate) const BUCKETS: u16 = 4;

pub(crate) struct Scene {
    root: SigningKey,
    key: SigningKey,
    engine: Arc<dyn Engine>,
    announced: Announced,
    manifest: Manifest,
    contents: Vec<Vec<u8>>,
    digests: Vec<[u8; 32]>,
    spec: RoundSpec,
    database: Box<dyn PreparedRound>,
    hint: Vec<u8>,
    client: Box<dyn EngineClient>,
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
        Self::with(sealpir(), seed, size)
    }

    pub(crate) fn with(engine: Arc<dyn Engine>, seed: u64, size: usize) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut secret = || {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let (root, key) = (SigningKey::from_bytes(&secret()), SigningKey::from_bytes(&secret()));
        let client = engine.client(&secret());
        let parameters = ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: key.verifying_key().to_bytes(),
            seeds: SeedCommitment { first: Round(1), segments: 1, root: [0; 32] },
            engine: engine.name().into(),
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
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
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
        let form = Form { buckets: BUCKETS.into(), elements: size, element_bytes: BOX_BYTES };
        let profile = engine.profile(form).unwrap();
        let mut manifest = Manifest {
            version: MANIFEST_VERSION,
            round: Round(77),
            entries: 2 * size as u64 - 1,
            engine: engine.name().into(),
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
            profile: profile.0,
            hint_digest: [0; 32],
            previous: [7; 32],
        };
        manifest.check().unwrap();
        let seed = manifest.retrieval_seed(&root.verifying_key().to_bytes());
        let spec = RoundSpec { seed, whitening: seed, round: manifest.round.0, form, profile };
        let database = engine.prepare(&spec, Contents { different: &contents, copies: 1 }).unwrap();
        let hint = database.hint().to_vec();
        manifest.hint_digest = hint_digest(&unit_hint_digests(database.sizes().hints(&hint).unwrap()));
        let keys = client.public_keys().into();
        let announced =
            Announced { announcement: parameters.encode(), endorsement: endorse(&root, &parameters) };
        Self {
            root,
            key,
            engine,
            announced,
            manifest,
            contents,
            digests,
            spec,
            database,
            hint,
            client,
            keys,
            rng,
        }
    }

    pub(crate) fn root(&self) -> RootKey {
        RootKey(self.root.verifying_key().to_bytes())
    }

    /// Bytes of one query and of its answer.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        let sizes = self.database.sizes();
        [sizes.request, sizes.answer].map(|parts| parts.range(0).len())
    }

    /// A multi-query, and what a server answers that changes its answers before it signs them.
    pub(crate) fn serve(&mut self, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Served {
        let request = self.client.cover(self.spec.clone(), &mut self.rng).unwrap().bytes;
        let keys = self.engine.public_keys(&self.keys).unwrap();
        let sizes = self.database.sizes();
        let query = [Query { keys: &keys, request: &request }];
        let answer = |unit| self.database.answer(unit, &query).pop().unwrap().unwrap();
        let mut answers: Vec<Vec<u8>> = (0..sizes.units.count()).map(answer).collect();
        let queries: Vec<Vec<u8>> =
            (0..sizes.units.count()).map(|unit| request[sizes.request.range(unit)].to_vec()).collect();
        change(&mut answers);
        let (queried, answered) = exchanged(&queries, &answers);
        let keys = Sha256::digest(&self.keys).into();
        let (round, manifest) = (self.manifest.round, self.manifest.digest());
        let receipt = Statement::new(round, manifest, keys, &queried, &answered).sign(&self.key);
        Served { queries, answers, receipt }
    }

    /// A server that publishes another hint than its buckets have, and announces it.
    pub(crate) fn publish(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.hint);
        let parts = self.database.sizes();
        self.manifest.hint_digest = hint_digest(&unit_hint_digests(parts.hints(&self.hint).unwrap()));
    }

    /// What a client holds that was served so, about one unit.
    pub(crate) fn proof(&self, unit: u16, served: &Served) -> Proof {
        let sizes = self.database.sizes();
        let buckets = sizes.units.range(unit.into());
        let (queries, answers) = exchanged(&served.queries, &served.answers);
        let number = usize::from(unit);
        Proof {
            announced: self.announced.clone(),
            manifest: SignedManifest::sign(&self.manifest, &self.key),
            receipt: served.receipt,
            unit,
            digests: Digests { buckets: self.digests.clone(), queries, answers },
            keys: self.keys.clone(),
            query: served.queries[number].clone().into(),
            answer: served.answers[number].clone().into(),
            boxes: self.contents[buckets].concat().into(),
            hints: (sizes.hint.bytes() > 0).then(|| unit_hint_digests(sizes.hints(&self.hint).unwrap())),
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
