//! Clients that keep to the protocol, with different habits.

use core::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use mpir::{EngineClient, Form, RoundSpec, noop};
use pbc::{BatchCode as _, Oracle as _, PartitionedCode};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::mapping::Outcome;
use sotto_protocol::{
    BloomMapping, Deposit, Label, Lookup, Manifest, Round, SealedBox, ServerParameters, SignedManifest,
};
use sotto_wire::proto::round_event::Event;
use sotto_wire::proto::sotto_client::SottoClient;
use sotto_wire::{Failure, Refused, convert, proto};
use tokio::time::{sleep, timeout};
use tonic::{Request, Response, Status};

use super::ledger::Ledger;
use super::network::{Download, Intent, Line};
use super::world::{ROOT, World, rng};

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// Deposits in every round.
    Deposits,
    /// Deposits in every round, and retrieves from every one.
    Retrieves,
    /// Retrieves from every round and deposits nothing.
    Reads,
    /// Follows the rounds and says nothing.
    Silent,
    /// Comes and goes, in the middle of anything.
    Visits,
}

impl Habit {
    pub(super) const ALL: [Self; 5] =
        [Self::Deposits, Self::Retrieves, Self::Reads, Self::Silent, Self::Visits];

    fn deposits(self) -> bool {
        matches!(self, Self::Deposits | Self::Retrieves | Self::Visits)
    }

    fn retrieves(self) -> bool {
        matches!(self, Self::Retrieves | Self::Reads)
    }
}

/// A client, over all lives of a server.
pub(super) struct Member {
    seed: u64,
    number: u8,
    habit: Habit,
    parameters: ServerParameters,
    memory: Mutex<Memory>,
}

/// What a client keeps when a server crashes.
#[derive(Default)]
struct Memory {
    /// The newest round for which anything was sent: nothing is ever sent for an earlier one.
    newest: Option<Round>,
    /// With slots, its own, as the server gave it.
    slot: Bytes,
    /// Accounts that it gave up, since it never heard of the slot that they have.
    accounts: u8,
    /// Everything that it was told, and when.
    view: Vec<String>,
}

/// A client's life beside one life of a server.
pub(super) struct Presence {
    member: Arc<Member>,
    client: SottoClient<Line>,
    line: Line,
    world: Arc<World>,
    ledger: Arc<Ledger>,
    dice: StdRng,
    session: Bytes,
    keys: Bytes,
}

/// What is to be read.
#[derive(Default)]
struct Plan {
    targets: Vec<Option<usize>>,
    /// In which buckets which of the wanted deposits is to be found.
    expected: Vec<(usize, usize)>,
    /// Something is said not to be there.
    absent: bool,
}

/// Begin anew, with a new session.
#[derive(Debug)]
struct Again;

impl Member {
    pub(super) fn new(seed: u64, number: u8, habit: Habit, parameters: ServerParameters) -> Self {
        Self { seed, number, habit, parameters, memory: Mutex::default() }
    }

    /// Its half of the engine, in every life with the same secret: nothing here is private.
    fn pir(&self) -> Box<dyn EngineClient> {
        noop().client(&[self.number; 32])
    }

    /// What it has seen of the server.
    pub(super) fn view(&self) -> Vec<String> {
        self.memory.lock().unwrap().view.clone()
    }

    /// The key of its account.
    fn key(&self) -> SigningKey {
        let mut seed = [self.number; 32];
        seed[31] = seed[31].wrapping_add(self.memory.lock().unwrap().accounts);
        SigningKey::from_bytes(&seed)
    }

    /// The number of its slot, if it has one.
    fn slot(&self) -> Option<u32> {
        convert::slot(&self.memory.lock().unwrap().slot).unwrap().map(|slot| slot.number)
    }

    /// Its only deposit for a round, as it is stored, and as it is sent.
    fn deposit(&self, round: Round) -> (Deposit, Bytes) {
        let mut dice = rng(self.seed, format_args!("deposit {} {round}", self.number));
        let (mut label, mut sealed) = ([0; 16], [0; BOX_BYTES]);
        dice.fill_bytes(&mut label);
        dice.fill_bytes(&mut sealed);
        let sent = Deposit { label: Label(label), sealed: SealedBox(sealed) };
        let Some(slot) = self.slot() else {
            let bytes = Bytes::copy_from_slice(&sent.encode());
            return (sent, bytes);
        };
        let bytes = Bytes::copy_from_slice(&sent.encode()[4..]);
        (convert::deposit_in_table(&bytes, slot).unwrap(), bytes)
    }

    fn round(&self) -> Duration {
        Duration::from_millis(self.parameters.round_ms.into())
    }
}

impl Presence {
    pub(super) fn new(member: &Arc<Member>, line: Line, (world, ledger): (Arc<World>, Arc<Ledger>)) -> Self {
        let dice = rng(member.seed, format_args!("member {} in life {}", member.number, world.life()));
        Self {
            member: Arc::clone(member),
            client: SottoClient::new(line.clone()),
            line,
            world,
            ledger,
            dice,
            session: Bytes::new(),
            keys: Bytes::new(),
        }
    }

    pub(super) async fn live(mut self) {
        let round = u64::from(self.member.parameters.round_ms);
        loop {
            let pause = Duration::from_millis(self.dice.random_range(1..=round / 4));
            sleep(pause).await;
            if self.member.habit == Habit::Visits {
                let stay = Duration::from_millis(self.dice.random_range(1..=3 * round));
                // Whatever is under way is left so.
                let _ = timeout(stay, self.visit()).await;
            } else {
                let Again = self.visit().await;
            }
        }
    }

    async fn visit(&mut self) -> Again {
        match self.follow().await {
            Ok(()) => Again,
            Err(again) => again,
        }
    }

    /// Registers, and takes part as long as the server's events come.
    async fn follow(&mut self) -> Result<(), Again> {
        self.register().await?;
        if self.member.habit.retrieves() {
            self.upload().await?;
        }
        let request = proto::WatchRequest { session: self.session.clone() };
        let mut client = self.client.clone();
        let events = self.call("watch", client.watch(request)).await.map_err(|_| Again)?;
        let mut events = self.line.ends().download(events);
        loop {
            let event = timeout(3 * self.member.round(), events.message()).await;
            match event.map_err(|_| Again)? {
                Ok(Some(proto::RoundEvent { event: Some(event) })) => self.hear(event).await?,
                Ok(_) => return Ok(()),
                Err(status) => {
                    self.saw("the end of watching", Failure::from(status));
                    return Ok(());
                }
            }
        }
    }

    async fn hear(&mut self, event: Event) -> Result<(), Again> {
        match event {
            Event::Announced(_) => Ok(()),
            Event::Opened(proto::RoundOpened { round, elapsed_ms }) => {
                let round = Round(round);
                self.saw("opened", (round, elapsed_ms));
                self.ledger.heard_of_open(round);
                if self.member.habit.deposits() { self.deposit(round).await } else { Ok(()) }
            }
            Event::Ready(proto::RoundReady { manifest, elapsed_ms }) => {
                let manifest = manifest.and_then(|signed| self.manifest(&signed));
                let Some(manifest) = manifest else { return Ok(()) };
                self.saw("ready", (manifest.round, elapsed_ms));
                if !self.member.habit.retrieves() {
                    return Ok(());
                }
                if self.dice.random_range(0..4) == 0 {
                    self.look_back(manifest.round).await?;
                }
                self.retrieve(&manifest).await
            }
            Event::Directory(_) => Ok(()),
        }
    }

    fn manifest(&self, signed: &proto::SignedManifest) -> Option<Manifest> {
        let (bytes, signature) = (signed.manifest[..].try_into(), signed.signature[..].try_into());
        let signed = SignedManifest { bytes: bytes.unwrap(), signature: signature.unwrap(), segment: None };
        self.saw("manifest", format_args!("{:08x}", crc32c::crc32c(&signed.bytes)));
        self.ledger.saw_manifest(&signed)
    }

    /// One call, given up after a while.
    async fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = timeout(self.member.round(), call).await;
        let answer = answer.map_err(|_| Failure::Unreachable).and_then(|answer| Ok(answer?.into_inner()));
        self.saw(what, answer.as_ref().err());
        if let Err(Failure::Nonsense(_) | Failure::Refused(Refused::Malformed | Refused::Version)) = answer {
            self.world.violated(format_args!("{what} of a member was taken for malformed"));
        }
        answer
    }

    fn saw(&self, what: &str, how: impl Debug) {
        self.world.note(format_args!("member {} saw {what} {how:?}", self.member.number));
        let line = format!("{} {what} {how:?}", self.world.now().as_millis());
        self.member.memory.lock().unwrap().view.push(line);
    }

    async fn register(&mut self) -> Result<(), Again> {
        let key = self.member.key();
        let account = key.verifying_key().to_bytes();
        let mut client = self.client.clone();
        let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
        let answer = self.call("challenge", client.challenge(challenge)).await;
        let nonce = answer.map_err(|_| Again)?.nonce;
        let manifest_key = &self.member.parameters.manifest_key;
        let message = sotto_wire::register::message(manifest_key, &account, nonce[..].try_into().unwrap());
        let request = proto::RegisterRequest {
            account: Bytes::copy_from_slice(&account),
            nonce,
            signature: Bytes::copy_from_slice(&key.sign(&message).to_bytes()),
            token: Bytes::new(),
            slot: self.member.memory.lock().unwrap().slot.clone(),
        };
        let answer = self.call("register", client.register(request)).await;
        if let Err(Failure::Refused(Refused::Slot)) = answer {
            // The answer with the slot was lost, and so was the server that remembered it.
            let memory = &mut *self.member.memory.lock().unwrap();
            if memory.slot.is_empty() {
                memory.accounts += 1;
            } else {
                self.world.violated("a slot that was given is not taken");
            }
            return Err(Again);
        }
        let answer = answer.map_err(|_| Again)?;
        self.session = answer.session;
        if let Some(slot) = convert::slot(&answer.slot).unwrap() {
            self.ledger.given(slot.number, account);
            self.member.memory.lock().unwrap().slot = answer.slot;
        }
        Ok(())
    }

    async fn upload(&mut self) -> Result<(), Again> {
        let data = Bytes::from(self.member.pir().public_keys());
        let chunk = proto::KeysChunk { session: self.session.clone(), data };
        let mut client = self.client.clone();
        let answer = self.call("upload", client.upload_keys(tokio_stream::iter([chunk]))).await;
        self.keys = answer.map_err(|_| Again)?.digest;
        Ok(())
    }

    /// Deposits in this round, with the same bytes until there is an answer.
    async fn deposit(&mut self, round: Round) -> Result<(), Again> {
        {
            let memory = &mut *self.member.memory.lock().unwrap();
            if memory.newest > Some(round) {
                return Ok(());
            }
            memory.newest = Some(round);
        }
        let wait = Duration::from_millis(self.member.parameters.deposit_ms.into());
        // Some come when the round is about to end.
        let late = if self.member.habit == Habit::Visits { self.member.round() } else { wait };
        let later = self.dice.random_range(0..=late.as_millis() as u64);
        sleep(wait + Duration::from_millis(later)).await;
        let (deposit, bytes) = self.member.deposit(round);
        self.ledger.sent(round, &deposit);
        for _ in 0..4 {
            let mut request = Request::new(proto::DepositRequest {
                session: self.session.clone(),
                round: round.0,
                deposit: bytes.clone(),
            });
            request.extensions_mut().insert(Intent(round, deposit.clone()));
            let mut client = self.client.clone();
            match self.call("deposit", client.deposit(request)).await {
                Err(Failure::Unreachable | Failure::Refused(Refused::Busy)) => {}
                Err(Failure::Refused(Refused::UnknownSession)) => return Err(Again),
                Err(Failure::Refused(Refused::Quota)) => {
                    self.world.violated("the same deposit again was taken for another one");
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Fetches some manifests again.
    async fn look_back(&mut self, round: Round) -> Result<(), Again> {
        let request =
            proto::ManifestsRequest { session: self.session.clone(), first: round.back(5).0, last: round.0 };
        let mut client = self.client.clone();
        let Ok(manifests) = self.call("manifests", client.manifests(request)).await else { return Ok(()) };
        let mut manifests = self.line.ends().download(manifests);
        while let Some(signed) = self.message(&mut manifests).await {
            let _ = self.manifest(&signed);
        }
        Ok(())
    }

    /// The next message of a stream that has an end; `None` there, wherever it is.
    async fn message<T>(&self, stream: &mut Download<T>) -> Option<T> {
        timeout(self.member.round(), stream.message()).await.ok()?.ok()?
    }

    /// Retrieves what was acknowledged in a round, and looks at it.
    async fn retrieve(&mut self, manifest: &Manifest) -> Result<(), Again> {
        let round = manifest.round;
        let wanted = self.wanted(round);
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let Some(plan) = self.plan(manifest, &wanted, &mut rng).await else { return Ok(()) };
        let form = Form {
            buckets: manifest.buckets.into(),
            elements: manifest.bucket_size as usize,
            element_bytes: BOX_BYTES,
        };
        let (seed, whitening) = (manifest.query_seed(&ROOT.0), manifest.retrieval_seed(&ROOT.0));
        let profile = noop().profile(form).unwrap();
        let spec = RoundSpec { seed, whitening, round: round.0, form, profile };
        let sizes = noop().sizes(&spec).unwrap();
        let request = self.member.pir().ask(spec, &plan.targets, &mut rng).unwrap();
        let bytes = Bytes::from(request.bytes);
        for _ in 0..2 {
            match self.ask(round, &bytes).await {
                Ok(answers) if answers.len() == sizes.answer.bytes() => {
                    let elements = request.pending.read(&[], &answers);
                    let right = |(bucket, deposit): &(usize, usize)| {
                        elements[*bucket].as_deref().ok() == Some(&wanted[*deposit].sealed.0[..])
                    };
                    if plan.absent || !plan.expected.iter().all(right) {
                        self.world.violated(format_args!("round {round} does not serve what it has"));
                    }
                    return Ok(());
                }
                Err(Failure::Refused(Refused::UnknownSession | Refused::UnknownKeys)) => return Err(Again),
                Ok(_) | Err(Failure::Unreachable | Failure::Refused(Refused::Busy)) => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// What to read for these deposits, if that can be told.
    async fn plan(&mut self, manifest: &Manifest, wanted: &[Deposit], rng: &mut ChaCha20Rng) -> Option<Plan> {
        if manifest.code.has_slots() {
            let code = manifest.slot_code().unwrap();
            let slot = |deposit: &Deposit| u32::from_le_bytes(*deposit.label.0.first_chunk().unwrap());
            let keys: Vec<[u8; 8]> =
                wanted.iter().map(|deposit| PartitionedCode::key(slot(deposit).into())).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
            let schedule = code.schedule_drawn(&keys, &mut || rng.next_u64());
            let mut plan = Plan { targets: vec![None; manifest.buckets.into()], ..Plan::default() };
            for (number, key) in keys.iter().enumerate() {
                for bucket in schedule.assignment(number) {
                    plan.targets[bucket.to_usize()] = code.position(number, key, bucket);
                    plan.expected.push((bucket.to_usize(), number));
                }
            }
            return Some(plan);
        }
        let request = proto::MappingRequest { session: self.session.clone(), round: manifest.round.0 };
        let mut client = self.client.clone();
        let chunks = self.call("mapping", client.mapping(request)).await.ok()?;
        let mut chunks = self.line.ends().download(chunks);
        let mut mapping = Vec::new();
        while let Some(chunk) = self.message(&mut chunks).await {
            mapping.extend_from_slice(&chunk.data);
        }
        if BloomMapping::digest(&mapping) != manifest.mapping_digest {
            // It was cut.
            return None;
        }
        let mapping = BloomMapping::decode(&mapping, manifest).unwrap();
        let labels: Vec<Label> = wanted.iter().map(|deposit| deposit.label).collect();
        let lookup = Lookup::new(&*manifest.code().unwrap(), &mapping, &labels, rng);
        let found = lookup.readings().iter().enumerate();
        let found = found.filter(|(_, reading)| reading.outcome() == Outcome::Found);
        let expected = found.flat_map(|(number, reading)| {
            reading.buckets().into_iter().map(move |bucket| (bucket.to_usize(), number))
        });
        Some(Plan {
            targets: lookup.targets().to_vec(),
            expected: expected.collect(),
            absent: lookup.readings().iter().any(|reading| reading.outcome() == Outcome::Absent),
        })
    }

    /// Sends a multi-query; the bytes of the answers, perhaps not all.
    async fn ask(&self, round: Round, query: &Bytes) -> Result<Vec<u8>, Failure> {
        let (session, keys) = (self.session.clone(), self.keys.clone());
        let chunk = proto::QueryChunk { session, round: round.0, keys, data: query.clone() };
        let mut client = self.client.clone();
        let answers = self.call("retrieve", client.retrieve(tokio_stream::iter([chunk]))).await?;
        let mut answers = self.line.ends().download(answers);
        let mut bytes = Vec::new();
        while let Some(chunk) = self.message(&mut answers).await {
            bytes.extend_from_slice(&chunk.data);
        }
        self.saw("answers", format_args!("{:08x}", crc32c::crc32c(&bytes)));
        Ok(bytes)
    }

    /// As many deposits of a round as can be retrieved at once, by chance.
    fn wanted(&mut self, round: Round) -> Vec<Deposit> {
        let mut deposits = self.ledger.deposits(round);
        let most = usize::from(self.member.parameters.retrieve);
        while deposits.len() > most {
            deposits.swap_remove(self.dice.random_range(0..deposits.len()));
        }
        deposits
    }
}
