//! A server in memory, which takes no time but that of its rounds, notes what it sees, and lies as it is told to.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{Engine, Engines, PublicKeys};
use sotto_protocol::manifest::seed::SeedTree;
use sotto_protocol::manifest::{Manifest, SignedManifest, mapping_kind};
use sotto_protocol::server::{SeedChain, segment_end};
use sotto_protocol::{Deposit, MANIFEST_VERSION, Round, RoundMode, ServerParameters};
use sotto_wire::proto::{self, round_event::Event};
use sotto_wire::root::endorse;
use sotto_wire::{Announced, Info, Refused};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;

use crate::forgery::{Material, Ready};
use crate::lies::{Call, Forgery, Lie, Pretence};
use crate::teller::{News, Shown, Teller, reseeded};

pub(crate) type Account = [u8; 32];

/// How long a sealed round is built.
pub(crate) const BUILD_MS: u64 = 20;

/// A call as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Since the server began.
    pub(crate) at: Duration,
    pub(crate) node: u8,
    pub(crate) account: Account,
    pub(crate) call: Call,
    pub(crate) round: u64,
    /// The deposit, the query or the keys.
    pub(crate) bytes: Bytes,
    /// The digest of the keys, uploaded or named.
    pub(crate) keys: [u8; 32],
}

pub(crate) struct State {
    pub(crate) open: Round,
    pub(crate) opened: Instant,
    pub(crate) deposits: BTreeMap<Account, Deposit>,
    pub(crate) ready: BTreeMap<Round, Arc<Ready>>,
    /// What somebody was shown in place of that.
    pub(crate) shown: BTreeMap<Account, BTreeMap<Round, Arc<Ready>>>,
    newest: [u8; 32],
    seeds: SeedChain,
    /// Of each node, as are sessions, of which the first byte is the node.
    pub(crate) keys: BTreeMap<(u8, Account), Vec<Keys>>,
    /// Where its nodes are, as it tells everybody.
    pub(crate) directory: Option<proto::Directory>,
    pub(crate) sessions: BTreeMap<[u8; 32], Account>,
    /// Sessions that were ever opened.
    pub(crate) registered: u64,
    /// Multi-queries that stand, by their digests.
    pub(crate) standing: BTreeMap<[u8; 32], Bytes>,
    /// With slots, who has which.
    pub(crate) slots: BTreeMap<Account, u32>,
    pub(crate) watchers: Vec<(Teller, Watcher)>,
    seen: Vec<Seen>,
    pub(crate) answers: Vec<(Round, Bytes)>,
}

/// Keys, and their digest.
type Keys = ([u8; 32], PublicKeys);
/// A lie, in which rounds it is told, and whom; everybody if nobody is named.
type Plan = (Lie, Range<u64>, Option<Account>);
type Watcher = mpsc::UnboundedSender<Result<proto::RoundEvent, Status>>;

/// Changes the answers of a round, bucket by bucket.
pub(crate) type Tampering = Box<dyn FnMut(u64, &mut Vec<Vec<u8>>) + Send>;

/// A server.
pub(crate) struct Server {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) parameters: ServerParameters,
    first: Round,
    root: SigningKey,
    key: SigningKey,
    /// What is announced since there is another key, and that.
    rotation: Mutex<Option<(ServerParameters, SigningKey)>>,
    /// Whoever signs has the former key alone.
    thief: AtomicBool,
    /// What it tells of itself to who follows the rounds is what it was.
    replays: AtomicBool,
    began: Instant,
    /// Sets of keys held for each account.
    pub(crate) generations: usize,
    plans: Mutex<Vec<Plan>>,
    pretence: Mutex<Pretence>,
    pub(crate) tampering: Mutex<Tampering>,
    pub(crate) state: Mutex<State>,
}

/// The calls of one of its nodes.
pub(crate) struct Calls(pub(crate) Arc<Server>, pub(crate) u8);

impl Server {
    pub(crate) fn start(mut parameters: ServerParameters, first: Round, generations: usize) -> Arc<Self> {
        let (root, key) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        parameters.manifest_key = key.verifying_key().to_bytes();
        let secret = [3; 32];
        let seeds = SeedTree::new(first, vec![segment_end(&secret, first, 0)]).unwrap();
        parameters.seeds = seeds.commitment();
        let seeds = SeedChain::new(secret.into(), seeds).unwrap();
        let state = State {
            open: first,
            opened: Instant::now(),
            deposits: BTreeMap::new(),
            ready: BTreeMap::new(),
            shown: BTreeMap::new(),
            newest: [0; 32],
            seeds,
            keys: BTreeMap::new(),
            directory: None,
            sessions: BTreeMap::new(),
            registered: 0,
            standing: BTreeMap::new(),
            slots: BTreeMap::new(),
            watchers: Vec::new(),
            seen: Vec::new(),
            answers: Vec::new(),
        };
        let engine = Arc::clone(Engines::default().get(&parameters.engine).unwrap());
        let server = Arc::new(Self {
            engine,
            parameters,
            first,
            root,
            key,
            rotation: Mutex::default(),
            thief: AtomicBool::new(false),
            replays: AtomicBool::new(false),
            began: Instant::now(),
            generations,
            plans: Mutex::default(),
            pretence: Mutex::new(Pretence::None),
            tampering: Mutex::new(Box::new(|_, _| {})),
            state: Mutex::new(state),
        });
        tokio::spawn(Arc::clone(&server).rounds());
        server
    }

    pub(crate) fn root(&self) -> [u8; 32] {
        self.root.verifying_key().to_bytes()
    }

    /// Announces another key, which signs from this round on, counted from the first.
    pub(crate) fn rotate(&self, round: u64) {
        let key = SigningKey::from_bytes(&[4; 32]);
        let mut parameters = self.said();
        let first = Round(self.first.0 + round);
        parameters.key_epoch = parameters.key_epoch.next(parameters.manifest_key, first, Round(u64::MAX));
        (parameters.serial, parameters.manifest_key) =
            (parameters.serial + 1, key.verifying_key().to_bytes());
        *self.rotation.lock().unwrap() = Some((parameters, key));
        self.tell_announced();
    }

    /// From now on it tells who follows the rounds, and whoever begins to, what it was before there was another key.
    pub(crate) fn replay(&self) {
        self.replays.store(true, Ordering::Relaxed);
        self.tell_announced();
    }

    /// Tells who follows the rounds so many announcements of other keys that nobody has signed.
    pub(crate) fn flood(&self, many: u64) {
        let said = self.said();
        for serial in 1..=many {
            let forged = ServerParameters { serial: said.serial + serial, ..said.clone() };
            let announced = (&Announced::new(&forged, [0; 64])).into();
            for (_, watcher) in &self.state.lock().unwrap().watchers {
                let event = Some(Event::Announced(proto::Announcement::clone(&announced)));
                drop(watcher.send(Ok(proto::RoundEvent { event })));
            }
        }
    }

    fn tell_announced(&self) {
        let state = self.state.lock().unwrap();
        for (_, watcher) in &state.watchers {
            let event = Some(Event::Announced(self.announced()));
            drop(watcher.send(Ok(proto::RoundEvent { event })));
        }
    }

    /// From now on the former key signs everything.
    pub(crate) fn steal(&self) {
        self.thief.store(true, Ordering::Relaxed);
    }

    fn said(&self) -> ServerParameters {
        let rotation = self.rotation.lock().unwrap();
        rotation.as_ref().map_or_else(|| self.parameters.clone(), |(parameters, _)| parameters.clone())
    }

    /// What it tells of itself to who follows the rounds.
    pub(crate) fn announced(&self) -> proto::Announcement {
        let replays = self.replays.load(Ordering::Relaxed);
        let parameters = if replays { self.parameters.clone() } else { self.said() };
        (&Announced::new(&parameters, endorse(&self.root, &parameters))).into()
    }

    /// What signs a round.
    pub(crate) fn key_of(&self, round: Round) -> SigningKey {
        match &*self.rotation.lock().unwrap() {
            Some((parameters, key))
                if round >= parameters.key_epoch.first && !self.thief.load(Ordering::Relaxed) =>
            {
                key.clone()
            }
            _ => self.key.clone(),
        }
    }

    /// From now on the answers of rounds are changed before they are signed and sent.
    pub(crate) fn tamper(&self, tampering: Tampering) {
        *self.tampering.lock().unwrap() = tampering;
    }

    /// Tells a lie in some rounds, counted from the first, to somebody or to everybody.
    pub(crate) fn plan(&self, lie: Lie, rounds: &Range<u64>, whom: Option<Account>) {
        let rounds = self.first.0 + rounds.start..self.first.0 + rounds.end;
        self.plans.lock().unwrap().push((lie, rounds, whom));
    }

    pub(crate) fn pretence(&self) -> Pretence {
        *self.pretence.lock().unwrap()
    }

    /// From now on whoever asks is told this.
    pub(crate) fn pretend(&self, pretence: Pretence) {
        *self.pretence.lock().unwrap() = pretence;
    }

    /// Loses everything but the keys, and begins with this round, counted from the first.
    pub(crate) fn restart(&self, round: u64) {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        state.open = Round(self.first.0 + round);
        state.opened = Instant::now();
        state.newest = [0; 32];
        state.deposits.clear();
        state.ready.clear();
        state.shown.clear();
        state.keys.clear();
        state.sessions.clear();
        state.watchers.clear();
    }

    /// Forgets what only one node knew of somebody: session and keys.
    pub(crate) fn forget(&self, node: u8, account: &Account) {
        let mut state = self.state.lock().unwrap();
        state.keys.remove(&(node, *account));
        state.sessions.retain(|session, of| session[0] != node || of != account);
        state.watchers.retain(|(teller, _)| teller.account != *account);
    }

    /// Tells everybody where its nodes are, now and whenever somebody begins to listen.
    pub(crate) fn tell_directory(&self, directory: proto::Directory) {
        let mut state = self.state.lock().unwrap();
        for (_, watcher) in &state.watchers {
            let event = Some(Event::Directory(directory.clone()));
            drop(watcher.send(Ok(proto::RoundEvent { event })));
        }
        state.directory = Some(directory);
    }

    /// What was seen of an account.
    pub(crate) fn seen(&self, account: &Account) -> Vec<Seen> {
        self.state.lock().unwrap().seen.iter().filter(|seen| seen.account == *account).cloned().collect()
    }

    /// The answers of a round, whosoever asked, and the boxes in it.
    pub(crate) fn answered(&self, round: Round) -> (Vec<Bytes>, Vec<u8>) {
        let state = self.state.lock().unwrap();
        let answers = state.answers.iter().filter(|(of, _)| *of == round);
        (answers.map(|(_, answer)| answer.clone()).collect(), state.ready[&round].boxes.clone())
    }

    /// What holds for somebody in a round, and for how many rounds it has.
    pub(crate) fn lies(&self, account: &Account, round: u64) -> Vec<(Lie, u64)> {
        let plans = self.plans.lock().unwrap();
        let fits =
            |(_, rounds, whom): &&Plan| rounds.contains(&round) && whom.is_none_or(|whom| whom == *account);
        plans.iter().filter(fits).map(|(lie, rounds, _)| (*lie, round - rounds.start)).collect()
    }

    async fn rounds(self: Arc<Self>) {
        let length = Duration::from_millis(self.parameters.round_ms.into());
        loop {
            let until = {
                let mut state = self.state.lock().unwrap();
                state.opened = Instant::now();
                self.announce_open(&mut state);
                state.opened + length
            };
            sleep_until(until).await;
            let mut state = self.state.lock().unwrap();
            let (round, deposits) = (state.open, core::mem::take(&mut state.deposits));
            state.open = Round(round.0 + 1);
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                sleep(Duration::from_millis(BUILD_MS)).await;
                server.publish(round, &deposits.into_iter().collect::<Vec<_>>());
            });
        }
    }

    /// Everything about a round that does not follow from its deposits.
    fn manifest(&self, state: &mut State, round: Round, previous: [u8; 32]) -> Manifest {
        let parameters = &self.parameters;
        Manifest {
            version: MANIFEST_VERSION,
            round,
            entries: 0,
            engine: self.engine.name().to_owned(),
            code: parameters.code,
            retrieve: parameters.retrieve,
            buckets: parameters.buckets,
            choices: parameters.choices,
            mapping_kind: mapping_kind(parameters.code),
            bucket_size: 1,
            round_seed: state.seeds.seed(round).unwrap(),
            mapping_digest: [0; 32],
            deposits_digest: [0; 32],
            buckets_digest: [0; 32],
            profile: [0; 16],
            hint_digest: [0; 32],
            previous,
        }
    }

    fn announce_open(&self, state: &mut State) {
        let round = state.open;
        let watchers = core::mem::take(&mut state.watchers);
        for (mut teller, watcher) in watchers {
            let account = teller.account;
            let lies = self.lies(&account, round.0);
            let early = lies.iter().any(|(lie, _)| *lie == Lie::ReadyFirst).then(|| {
                let previous = self.last_shown(state, &account);
                let manifest = self.manifest(state, round, previous);
                let segment = state.seeds.tree().of(round);
                let material = Material {
                    deposited: &[],
                    manifest,
                    key: &self.key_of(round),
                    root: self.root(),
                    segment,
                    engine: &*self.engine,
                };
                let early = Arc::new(Ready::new(material, Some((Forgery::Empty, &account))));
                state.shown.entry(account).or_default().insert(round, Arc::clone(&early));
                early
            });
            let shown = Shown { lies: &lies, early: early.as_deref(), reseeded: Vec::new() };
            let events = teller.events(&News::Opened(round, 0), shown);
            if send(&watcher, events) {
                state.watchers.push((teller, watcher));
            }
        }
    }

    /// The digest of the newest manifest that somebody was shown.
    fn last_shown(&self, state: &State, account: &Account) -> [u8; 32] {
        let newest = state.ready.keys().next_back().copied();
        let shown = state.shown.get(account).and_then(|shown| shown.last_key_value());
        shown
            .filter(|(round, _)| Some(**round) >= newest)
            .map_or(state.newest, |(_, shown)| shown.manifest.digest())
    }

    fn publish(&self, round: Round, deposited: &[(Account, Deposit)]) {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        let segment = state.seeds.tree().of(round);
        let previous: BTreeMap<Account, [u8; 32]> = {
            let all = state.watchers.iter().map(|(teller, _)| teller.account);
            all.map(|account| (account, self.last_shown(state, &account))).collect()
        };
        let before = state.newest;
        let honest = self.manifest(state, round, before);
        let material = Material {
            deposited,
            manifest: honest.clone(),
            key: &self.key_of(round),
            root: self.root(),
            segment: segment.clone(),
            engine: &*self.engine,
        };
        let ready = Arc::new(Ready::new(material, None));
        ready.manifest.check().unwrap();
        state.newest = ready.manifest.digest();
        state.ready.insert(round, Arc::clone(&ready));
        let watchers = core::mem::take(&mut state.watchers);
        for (mut teller, watcher) in watchers {
            let account = teller.account;
            let lies = self.lies(&account, round.0);
            let previous = previous[&account];
            let forgery = lies.iter().find_map(|(lie, _)| match lie {
                Lie::Forge(forgery) => Some(*forgery),
                _ => None,
            });
            // Who has been shown another history stays in it.
            let theirs = match forgery {
                Some(forgery) => {
                    let manifest = Manifest { previous, ..honest.clone() };
                    let segment = segment.clone();
                    let material = Material {
                        deposited,
                        manifest,
                        key: &self.key_of(round),
                        root: self.root(),
                        segment,
                        engine: &*self.engine,
                    };
                    Some(Arc::new(Ready::new(material, Some((forgery, &account)))))
                }
                None if previous != before => Some(Arc::new(ready.after(previous, &self.key_of(round)))),
                None => None,
            };
            let shown = state.shown.entry(account).or_default();
            if let Some(theirs) = &theirs {
                // What was shown first is what is answered for.
                shown.entry(round).or_insert_with(|| Arc::clone(theirs));
            }
            let reseeded = if lies.iter().any(|(lie, _)| matches!(lie, Lie::Flood | Lie::ReplaySeeds)) {
                let recent = state.ready.range(round.back(6)..);
                recent
                    .map(|(_, ready)| {
                        SignedManifest::sign(&reseeded(&ready.manifest), &self.key_of(ready.manifest.round))
                    })
                    .collect()
            } else {
                Vec::new()
            };
            let shown = Shown { lies: &lies, early: None, reseeded };
            let events = teller.events(&News::Ready(theirs.as_ref().unwrap_or(&ready), 0), shown);
            if send(&watcher, events) {
                state.watchers.push((teller, watcher));
            }
        }
    }

    /// Notes a call, and does with it what is planned.
    pub(crate) async fn meet(
        &self,
        node: u8,
        call: Call,
        session: &[u8],
        round: u64,
        bytes: Bytes,
        keys: [u8; 32],
    ) -> Result<Account, Status> {
        let session: [u8; 32] = session.try_into().map_err(|_| Status::from(Refused::UnknownSession))?;
        let account = if call == Call::Register {
            session
        } else {
            let known = self.state.lock().unwrap().sessions.get(&session).copied();
            let known = known.filter(|_| session[0] == node);
            known.ok_or_else(|| Status::from(Refused::UnknownSession))?
        };
        let at = self.began.elapsed();
        self.state.lock().unwrap().seen.push(Seen { at, node, account, call, round, bytes, keys });
        for (lie, _) in self.lies(&account, round) {
            match lie {
                Lie::Refuse(kind, refused) if kind == call => return Err(refused.into()),
                Lie::Delay(kind, ms) if kind == call => sleep(Duration::from_millis(ms)).await,
                Lie::Withhold(kind) if kind == call => core::future::pending().await,
                _ => {}
            }
        }
        Ok(account)
    }

    pub(crate) fn open(&self) -> u64 {
        self.state.lock().unwrap().open.0
    }

    pub(crate) fn ready(&self, account: &Account, round: u64) -> Result<Arc<Ready>, Status> {
        let state = self.state.lock().unwrap();
        let shown = state.shown.get(account).and_then(|shown| shown.get(&Round(round)));
        shown.or_else(|| state.ready.get(&Round(round))).cloned().ok_or_else(|| Refused::RoundNotReady.into())
    }

    /// What it says of itself.
    pub(crate) fn info(&self) -> Info {
        let mut parameters = self.said();
        let pretence = *self.pretence.lock().unwrap();
        let other = SigningKey::from_bytes(&[9; 32]);
        let root = if pretence == Pretence::Root { &other } else { &self.root };
        parameters.serial += u64::from(!matches!(pretence, Pretence::None | Pretence::Root | Pretence::Slot));
        match pretence {
            Pretence::None | Pretence::Root | Pretence::Slot => {}
            Pretence::Retrieve => parameters.retrieve -= 1,
            Pretence::Buckets => parameters.buckets += 4,
            Pretence::Choices => parameters.choices -= 1,
            Pretence::Engine => parameters.engine = "another".to_owned(),
            Pretence::ClosedLoop => parameters.mode = RoundMode::ClosedLoop,
            Pretence::ManyBuckets => (parameters.buckets, parameters.retrieve) = (1024, 682),
        }
        let endorsement = endorse(root, &parameters);
        Info { parameters, open: Round(self.open()), endorsement, token_required: false }
    }
}

/// Tells events, each at its time; whether anybody is there to hear them.
fn send(watcher: &Watcher, events: Vec<(Duration, proto::RoundEvent)>) -> bool {
    for (delay, event) in events {
        if delay.is_zero() {
            drop(watcher.send(Ok(event)));
        } else {
            let watcher = watcher.clone();
            tokio::spawn(async move {
                sleep(delay).await;
                drop(watcher.send(Ok(event)));
            });
        }
    }
    !watcher.is_closed()
}
