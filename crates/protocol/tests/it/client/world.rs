//! A server in memory and its clients, with the real manifests and mappings and nothing else real.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use pbc::{BatchCode as _, PartitionedCode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::{
    BloomMapping, Client, CodeKind, ConversationId, Deposit, KeyAgreement, Label, MANIFEST_VERSION, Manifest,
    Notice, OwnSlot, PROTOCOL_VERSION, Retrieval, Round, RoundMode, STANDING_ROUNDS, SealedBox,
    SeedCommitment, ServerParameters, Settings, SignedManifest, Table, UnixMillis,
    client::Plan,
    deposit::{self, BOX_BYTES},
    manifest,
    mapping::Targets,
    server::SeedChain,
    table::{SENT_BYTES, stored},
};

pub(crate) const ROUND_MS: u64 = 1000;

/// What happens to one client in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Sees nothing of the round.
    pub(crate) absent: bool,
    /// Its deposit does not arrive.
    pub(crate) deposit_lost: bool,
    /// Its answers do not arrive.
    pub(crate) answers_lost: bool,
    /// Restarts from its stored state after each step.
    pub(crate) restarts: bool,
}

pub(crate) struct World {
    pub(crate) key: SigningKey,
    pub(crate) parameters: ServerParameters,
    pub(crate) clients: Vec<Client>,
    pub(crate) notices: Vec<Vec<Notice>>,
    pub(crate) round: u64,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) previous: [u8; 32],
    /// Of the rounds' seeds, where they were fixed beforehand.
    pub(crate) seeds: Option<SeedChain>,
    /// Lots of slots that were given out, at least as many as the clients have.
    pub(crate) lots: u32,
    /// What stands in the places of slots of which nothing came, in all rounds the same: nobody opens it in any.
    noise: Vec<u8>,
    /// A manifest that a client has yet to fetch.
    pub(crate) missed: Option<SignedManifest>,
    /// Every deposit that left a client, for one box at most per label of its own.
    pub(crate) sent: BTreeMap<(usize, [u8; 16]), [u8; BOX_BYTES]>,
    /// What the clients ask for where queries stand, until the epoch ends, the table grows, or they are started again.
    standing: BTreeMap<usize, Standing>,
}

/// What a client asks for in the rounds of an epoch with tables of one size.
struct Standing {
    epoch: Round,
    entries: u64,
    /// Nothing where nothing was to be wanted: that stands, too.
    plan: Option<Plan>,
    targets: Targets,
}

/// What a server publishes of a round, and its buckets.
pub(crate) struct Published {
    pub(crate) round: Round,
    pub(crate) manifest: SignedManifest,
    pub(crate) mapping: Vec<u8>,
    pub(crate) buckets: Vec<Bucket>,
}

/// Boxes, one behind the other.
#[derive(Clone)]
pub(crate) struct Bucket(Vec<u8>);

impl Bucket {
    pub(crate) fn get(&self, position: usize) -> Option<&[u8]> {
        self.0.chunks_exact(BOX_BYTES).nth(position)
    }
}

impl World {
    pub(crate) fn new(seed: u64, names: &[&str], conversations: u8, retrieve: u16) -> Self {
        Self::from_round(1, seed, names, conversations, retrieve)
    }

    /// On a server whose rounds begin with this number.
    pub(crate) fn from_round(
        round: u64,
        seed: u64,
        names: &[&str],
        conversations: u8,
        retrieve: u16,
    ) -> Self {
        let code = if retrieve == 1 { CodeKind::Single } else { CodeKind::Cuckoo };
        Self::with_code(round, seed, names, conversations, retrieve, code)
    }

    pub(crate) fn with_code(
        round: u64,
        seed: u64,
        names: &[&str],
        conversations: u8,
        retrieve: u16,
        code: CodeKind,
    ) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let key = SigningKey::from_bytes(&[1; 32]);
        let (buckets, choices) = match code {
            CodeKind::Cuckoo => (pbc::recommended_buckets(retrieve.into(), 3).unwrap() as u16, 3),
            CodeKind::Hybrid => (9 * retrieve, 2),
            CodeKind::Single => (retrieve, 1),
            CodeKind::Partitioned | CodeKind::Standing if retrieve == 1 => (1, 1),
            CodeKind::Partitioned | CodeKind::Standing => (3 * retrieve, 3),
        };
        let parameters = ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: key.verifying_key().to_bytes(),
            seeds: SeedCommitment::default(),
            engine: "none".into(),
            security_bits: 128,
            code,
            retrieve,
            buckets,
            choices,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: ROUND_MS as u32,
            deposit_ms: 100,
            lookup_ms: 200,
            query_ms: 300,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
        };
        let settings = Settings { conversations };
        let joined = (Round(round), UnixMillis(round * ROUND_MS));
        let client = |name: &&str| Client::new(name, parameters.clone(), settings, joined, &mut rng).unwrap();
        let mut clients: Vec<Client> = names.iter().map(client).collect();
        if code.has_slots() {
            for (number, client) in (0..).zip(&mut clients) {
                client.keep_slot(OwnSlot { number, credential: [7; 16] });
            }
        }
        let notices = clients.iter().map(|_| Vec::new()).collect();
        let (previous, sent) = ([0; 32], BTreeMap::new());
        Self {
            key,
            parameters,
            clients,
            notices,
            round,
            rng,
            previous,
            seeds: None,
            lots: 1,
            noise: Vec::new(),
            missed: None,
            sent,
            standing: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> UnixMillis {
        UnixMillis(self.round * ROUND_MS)
    }

    /// Makes two clients each other's contacts, under each other's names.
    pub(crate) fn befriend(&mut self, one: usize, other: usize) {
        let now = self.now();
        let names = [self.clients[one].name().to_owned(), self.clients[other].name().to_owned()];
        let invitation = self.clients[one].invite(&names[1], now, &mut self.rng).unwrap();
        let copied = invitation.to_string().parse().unwrap();
        self.clients[other].accept(&names[0], &copied, now, &mut self.rng).unwrap();
    }

    pub(crate) fn say(&mut self, client: usize, conversation: &str, text: &str) {
        let id = self.id(client, conversation);
        self.clients[client].queue_text(id, text).unwrap();
    }

    pub(crate) fn id(&self, client: usize, conversation: &str) -> ConversationId {
        self.clients[client].find(conversation).unwrap()
    }

    /// The texts a client has received, with their senders.
    pub(crate) fn texts(&self, client: usize) -> Vec<(String, String)> {
        let text = |notice: &Notice| match notice {
            Notice::Text { from, text, .. } => Some((from.clone(), text.clone())),
            _ => None,
        };
        self.notices[client].iter().filter_map(text).collect()
    }

    pub(crate) fn warnings(&self) -> Vec<&Notice> {
        self.notices.iter().flatten().filter(|notice| matches!(notice, Notice::Warning(_))).collect()
    }

    pub(crate) fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.step(&vec![Fate::default(); self.clients.len()]);
        }
    }

    /// Runs until something is so, and no more than so many rounds.
    pub(crate) fn run_until(&mut self, rounds: u64, reached: impl Fn(&Self) -> bool) {
        let end = self.round + rounds;
        while self.round < end && !reached(self) {
            self.run(16.min(end - self.round));
        }
    }

    /// Runs until nobody's keys of two are to be renewed any more.
    pub(crate) fn renew(&mut self) {
        let renews = |client: &Client| {
            client.conversations().iter().any(|talk| talk.agreement == Some(KeyAgreement::Renewing))
        };
        let begun = self.round;
        while self.clients.iter().any(renews) {
            self.run(1);
            assert!(self.round < begun + 6000, "keys are not renewed");
        }
    }

    /// One round, and what becomes of each client in it.
    pub(crate) fn step(&mut self, fates: &[Fate]) {
        let deposits = self.deposits(fates);
        let published = self.publish(&deposits);
        self.read(&published, fates);
        self.round += 1;
    }

    /// All clients open the round; what arrives of what they send.
    pub(crate) fn deposits(&mut self, fates: &[Fate]) -> Vec<Deposit> {
        let (round, now) = (Round(self.round), self.now());
        let mut deposits = Vec::new();
        for (number, fate) in fates.iter().enumerate().filter(|(_, fate)| !fate.absent) {
            self.clients[number].open_round(round, now, &mut self.rng).unwrap();
            if fate.restarts {
                self.restart(number);
            }
            let (of, deposit) = self.clients[number].deposit().unwrap();
            assert_eq!(of, round);
            let deposit = deposit.clone();
            self.record(number, &deposit);
            if !fate.deposit_lost {
                deposits.push(self.arrived(number, deposit));
            }
        }
        deposits
    }

    /// What a server stores of what it is sent: with slots it learns no label.
    pub(crate) fn arrived(&self, client: usize, deposit: Deposit) -> Deposit {
        let client = &self.clients[client];
        let Some(slot) = client.slot() else { return deposit };
        let sent = client.outgoing().unwrap().1;
        let (knock, sealed) = sent.split_first_chunk().unwrap();
        assert!(sent.len() == SENT_BYTES && *sealed == deposit.sealed.0);
        Deposit { label: stored(slot.number, knock), ..deposit }
    }

    /// No key is ever used for two boxes.
    pub(crate) fn record(&mut self, client: usize, deposit: &Deposit) {
        let before = self.sent.insert((client, deposit.label.0), deposit.sealed.0);
        assert!(before.is_none_or(|before| before == deposit.sealed.0), "one key for two boxes");
    }

    pub(crate) fn publish(&mut self, deposits: &[Deposit]) -> Published {
        let round = Round(self.round);
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let segment = self.seeds.as_ref().and_then(|seeds| seeds.tree().of(round));
        if let Some(seeds) = &mut self.seeds {
            seed = seeds.seed(round).unwrap();
        } else if self.parameters.code.epoch_rounds() > 1 {
            // The seeds of an epoch follow from that of its last round.
            let epoch = self.parameters.code.epoch(round).0;
            seed = [0; 32];
            seed[..8].copy_from_slice(&epoch.to_le_bytes());
            seed = (round.0..epoch + STANDING_ROUNDS).fold(seed, |seed, _| manifest::seed::step(&seed));
        }
        let mut deposits = deposits.to_vec();
        let (manifest, mapping, buckets) = if self.parameters.code.has_slots() {
            self.sealed_table(&deposits, seed)
        } else {
            deposit::arrange(&mut deposits, &seed);
            self.sealed(&deposits, seed)
        };
        self.previous = manifest.digest();
        let manifest = SignedManifest::sign(&manifest, &self.key).with_segment(segment);
        Published { round, manifest, mapping, buckets }
    }

    /// The open round of these deposits, in their order, under a seed.
    pub(crate) fn sealed(&self, deposits: &[Deposit], seed: [u8; 32]) -> (Manifest, Vec<u8>, Vec<Bucket>) {
        let parameters = &self.parameters;
        let mut manifest = Manifest {
            version: MANIFEST_VERSION,
            round: Round(self.round),
            entries: deposits.len() as u64,
            engine: parameters.engine.clone(),
            code: parameters.code,
            retrieve: parameters.retrieve,
            buckets: parameters.buckets,
            choices: parameters.choices,
            mapping_kind: manifest::MAPPING_BLOOM,
            bucket_size: 1,
            round_seed: seed,
            mapping_digest: [0; 32],
            deposits_digest: manifest::deposits_digest(deposits),
            buckets_digest: [0x66; 32],
            profile: [0x77; 16],
            hint_digest: [0x88; 32],
            previous: self.previous,
        };
        let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let code = manifest.code().unwrap();
        let encoding = code.encode(&keys);
        manifest.bucket_size = encoding.largest().max(1) as u32;
        let mapping = BloomMapping::build(&seed, &*code, &encoding, &labels, manifest.bucket_size).unwrap();
        manifest.mapping_digest = BloomMapping::digest(&mapping);
        let elements: Vec<u8> = deposits.iter().flat_map(|deposit| deposit.sealed.0).collect();
        let buckets = encoding.materialise(BOX_BYTES, &elements, manifest.bucket_size as usize).unwrap();
        let buckets = buckets.into_iter().map(Bucket).collect();
        manifest.check().unwrap();
        (manifest, mapping, buckets)
    }

    /// The open round of these deposits on a server with slots.
    pub(crate) fn sealed_table(
        &mut self,
        deposits: &[Deposit],
        seed: [u8; 32],
    ) -> (Manifest, Vec<u8>, Vec<Bucket>) {
        let table = Table::holding(self.lots.max(1 + self.clients.len() as u32 / 32)).unwrap();
        let bytes = BOX_BYTES * table.places() as usize;
        if self.noise.len() < bytes {
            self.noise.resize(bytes, 0);
            // A stream of its own: no person's secrets are drawn from it.
            ChaCha20Rng::from_seed(*b"what nobody has sent to a server").fill_bytes(&mut self.noise);
        }
        let mut boxes = self.noise[..bytes].to_vec();
        table.lay(deposits, &seed).fill_all(&mut boxes);
        let parameters = &self.parameters;
        let size = table.places().div_ceil(u32::from(parameters.buckets / u16::from(parameters.choices)));
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            round: Round(self.round),
            entries: table.places().into(),
            engine: parameters.engine.clone(),
            code: parameters.code,
            retrieve: parameters.retrieve,
            buckets: parameters.buckets,
            choices: parameters.choices,
            mapping_kind: manifest::MAPPING_NONE,
            bucket_size: size,
            round_seed: seed,
            mapping_digest: [0; 32],
            deposits_digest: [0; 32],
            buckets_digest: [0x66; 32],
            profile: [0x77; 16],
            hint_digest: [0x88; 32],
            previous: self.previous,
        };
        manifest.check().unwrap();
        let code = manifest.slot_code().unwrap();
        let keys: Vec<[u8; 8]> = (0..manifest.entries).map(PartitionedCode::key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let buckets = code.encode(&keys).materialise(BOX_BYTES, &boxes, size as usize).unwrap();
        (manifest, Vec::new(), buckets.into_iter().map(Bucket).collect())
    }

    pub(crate) fn read(&mut self, published: &Published, fates: &[Fate]) {
        for (number, fate) in fates.iter().enumerate().filter(|(_, fate)| !fate.absent) {
            let notices = self.clients[number].ready(&published.manifest);
            self.notices[number].extend(notices);
            if fate.restarts {
                self.restart(number);
            }
            let retrieval = self.lookup(number, published);
            assert_eq!(retrieval.targets.len(), self.parameters.buckets.into());
            let answers = if fate.answers_lost {
                vec![None; self.parameters.buckets.into()]
            } else {
                answers(&retrieval, &published.buckets)
            };
            let notices = self.clients[number].received(retrieval, answers);
            self.notices[number].extend(notices);
            if fate.restarts {
                self.restart(number);
            }
        }
    }

    pub(crate) fn ready(&mut self, client: usize, manifest: &SignedManifest) -> Vec<Notice> {
        self.clients[client].ready(manifest)
    }

    pub(crate) fn lookup(&mut self, client: usize, published: &Published) -> Retrieval {
        let Ok(manifest) = Manifest::decode(&published.manifest.bytes) else {
            return self.clients[client].lookup(published.round, &published.mapping, &mut self.rng);
        };
        let epoch = manifest.code.epoch(published.round);
        let asks = |standing: &&Standing| (standing.epoch, standing.entries) == (epoch, manifest.entries);
        if let Some(standing) = self.standing.get(&client).filter(asks) {
            let mut again = match &standing.plan {
                Some(plan) => self.clients[client].look_again(published.round, plan),
                None => Retrieval::dummy(published.round, standing.targets.len()),
            };
            again.targets = standing.targets.clone();
            return again;
        }
        let retrieval = self.clients[client].lookup(published.round, &published.mapping, &mut self.rng);
        if manifest.code.epoch_rounds() > 1 {
            let (entries, targets) = (manifest.entries, retrieval.targets.clone());
            let plan = retrieval.plan().cloned();
            self.standing.insert(client, Standing { epoch, entries, plan, targets });
        }
        retrieval
    }

    pub(crate) fn restart(&mut self, client: usize) {
        self.clients[client] = Client::restore(&self.clients[client].snapshot()).unwrap();
        self.standing.remove(&client);
    }

    /// A box that nobody can open.
    pub(crate) fn noise(&mut self) -> SealedBox {
        let mut noise = [0; BOX_BYTES];
        self.rng.fill_bytes(&mut noise);
        SealedBox(noise)
    }
}

pub(crate) fn answers(retrieval: &Retrieval, buckets: &[Bucket]) -> Vec<Option<Vec<u8>>> {
    let answer =
        |(target, bucket): (&Option<usize>, &Bucket)| bucket.get(target.unwrap_or(0)).map(<[u8]>::to_vec);
    retrieval.targets.iter().zip(buckets).map(answer).collect()
}
