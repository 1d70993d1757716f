//! People who talk, whose processes die and are started again from what is on the disk; and what must hold then, whenever
//! they died: no key seals two boxes, nothing leaves before it is stored, and every text that was taken is seen, in order.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mpir::{Engine, noop};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sotto_participant::host::Disk as _;
use sotto_participant::{Event, Handle, HandleError, Participant, Trouble};
use sotto_protocol::client::{Client, MessageId, Notice};
use sotto_protocol::{ConversationId, RoundMode, UnixMillis};
use sotto_session::ConnectionSettings;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lies::Call;
use crate::machine::{BASE_MS, Machine, Memory};
use crate::mortal::{Death, Done, Fate, Mortal, Process};
use crate::server::Account;
use crate::wire::Wire;
use crate::world::{ROUND_MS, World, parameters, quick};

/// Nobody waits longer for what was said.
const ROUNDS_MAX: u64 = 400;
/// When another manifest key is announced, which signs from the eighth round after that on.
const ROTATED: u64 = 6;
/// Rounds that are played after everything has arrived.
const AFTER: u64 = 4;

/// Who talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Alice and Bob.
    Two,
    /// Alice, Bob and Carol, of whom everybody knows everybody, in a group.
    Group,
}

/// What becomes of a person's processes, one after the other, and after how many milliseconds the next one is started. The
/// one after the last lives on.
pub(crate) type Fates = Vec<(Fate, u64)>;

/// A text that somebody typed.
#[derive(Clone, Debug)]
struct Said {
    to: &'static str,
    text: String,
    /// Whether the program has said that it is stored.
    taken: bool,
}

/// What the person knows, whatever becomes of the processes.
#[derive(Default)]
struct Log {
    said: Vec<Said>,
    numbers: BTreeMap<MessageId, usize>,
    shown: Vec<(Duration, String)>,
    acknowledged: Vec<(Duration, MessageId)>,
    warnings: Vec<String>,
    /// How often the person was told that something could not be stored.
    not_stored: u64,
    processes: Vec<Arc<Process>>,
}

/// Somebody whose processes die.
struct Person {
    name: &'static str,
    account: Account,
    seed: [u8; 32],
    settings: ConnectionSettings,
    began: Instant,
    wire: Arc<Wire>,
    disk: Memory,
    /// What is to be said, when, to whom.
    says: Vec<(u64, &'static str, ConversationId, String)>,
    log: Arc<Mutex<Log>>,
}

impl Person {
    async fn run(self: Arc<Self>, fates: Fates) {
        let last = (Fate::NONE, 0);
        for (number, (fate, pause)) in fates.into_iter().chain([last]).enumerate() {
            let mut seed = self.seed;
            seed[0] ^= u8::try_from(number).unwrap();
            let machine = Machine::new(self.wire.dial.clone(), self.began, seed, quick);
            let process = Process::new(machine, self.disk.clone(), Arc::clone(&self.wire), fate, self.began);
            self.log.lock().unwrap().processes.push(Arc::clone(&process));
            tokio::select! {
                biased;
                () = process.died() => {}
                () = self.live(&process) => {}
            }
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// What a program of the person does with one process.
    async fn live(&self, process: &Arc<Process>) {
        let client = Client::restore(&self.disk.newest().unwrap()).unwrap();
        let (host, disk) = (Arc::new(Mortal(Arc::clone(process))), Box::new(Mortal(Arc::clone(process))));
        let starting = Participant::start_on(host, client, Some(disk), self.settings.clone());
        let Ok(started) = tokio::spawn(starting).await else { return core::future::pending().await };
        let (handle, mut events) = started.unwrap();
        let unshown: Vec<_> = handle.ask(|client| client.unshown().cloned().collect()).await.unwrap();
        for text in &unshown {
            self.show(&handle, text.conversation, text.number, &text.text).await;
        }
        loop {
            let next = self.log.lock().unwrap().said.len();
            let due = self.says.get(next).map(|(ms, ..)| self.began + Duration::from_millis(*ms));
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.hear(&handle, event).await,
                () = async { sleep_until(due.unwrap()).await }, if due.is_some() => self.say(&handle, next).await,
                else => return core::future::pending().await,
            }
        }
    }

    async fn say(&self, handle: &Handle, next: usize) {
        let (_, to, conversation, text) = self.says[next].clone();
        self.log.lock().unwrap().said.push(Said { to, text: text.clone(), taken: false });
        match handle.queue_text(conversation, &text).await {
            Ok(number) => {
                let mut log = self.log.lock().unwrap();
                log.said[next].taken = true;
                log.numbers.insert(number, next);
            }
            Err(error) => self.refused(&error).await,
        }
    }

    async fn show(&self, handle: &Handle, conversation: ConversationId, number: u64, text: &str) {
        self.log.lock().unwrap().shown.push((self.began.elapsed(), text.to_owned()));
        if let Err(error) = handle.change(move |client| client.shown(conversation, number)).await {
            self.refused(&error).await;
        }
    }

    async fn refused(&self, error: &HandleError) {
        match error {
            HandleError::Store(_) => self.log.lock().unwrap().not_stored += 1,
            // The process has died.
            HandleError::Stopped => core::future::pending().await,
            error => unreachable!("neither full nor dead: {error}"),
        }
    }

    async fn hear(&self, handle: &Handle, event: Event) {
        let at = self.began.elapsed();
        match event {
            Event::Notice(Notice::Text { conversation, number, text, .. }) => {
                self.show(handle, conversation, number, &text).await;
            }
            Event::Notice(Notice::Acknowledged { message, .. }) => {
                self.log.lock().unwrap().acknowledged.push((at, message));
            }
            Event::Notice(Notice::Warning(warning)) => {
                self.log.lock().unwrap().warnings.push(warning.to_string());
            }
            Event::Trouble { trouble: Trouble::Store(_), .. } => self.log.lock().unwrap().not_stored += 1,
            _ => {}
        }
    }

    /// Texts of this person to this conversation, so that no two are the same.
    fn prefix(&self, to: &str) -> String {
        format!("{} to {to}: ", self.name)
    }

    /// Whether this one's disk, or screen, had a text at some moment.
    fn has(&self, text: &str, at: Duration) -> bool {
        let log = self.log.lock().unwrap();
        let shown = log.shown.iter().any(|(when, shown)| *when <= at && shown == text);
        let stored = || {
            let snapshots = self.disk.snapshots();
            let (_, newest) = snapshots.iter().rfind(|(when, _)| *when <= at).unwrap();
            Client::restore(newest).unwrap().unshown().any(|unshown| unshown.text == text)
        };
        shown || stored()
    }
}

/// What was played.
pub(crate) struct Played {
    /// How many processes died.
    pub(crate) deaths: u64,
    /// What Alice's first process did.
    pub(crate) done: Done,
    /// How long it took until everything had arrived, ms.
    pub(crate) ms: u64,
}

/// Plays a world in which Alice's and Bob's processes have these fates, until everything has arrived, and checks it.
pub(crate) fn play(what: &str, seed: u64, company: Company, fates: [Fates; 2]) -> Played {
    play_with(&*noop(), what, seed, company, fates)
}

/// The same with a given engine.
pub(crate) fn play_with(
    engine: &dyn Engine,
    what: &str,
    seed: u64,
    company: Company,
    fates: [Fates; 2],
) -> Played {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(drill(engine, what, seed, company, fates))
}

async fn drill(engine: &dyn Engine, what: &str, seed: u64, company: Company, fates: [Fates; 2]) -> Played {
    let world = World::new(seed, parameters(engine, RoundMode::Deadline), 2);
    let people = people(&world, company);
    // Until then somebody may die at a moment that is fixed.
    let moment = |(fate, pause): &(Fate, u64)| match fate.death {
        Death::At(ms) => ms + pause,
        _ => 0,
    };
    let earliest = fates.iter().flatten().map(moment).max().unwrap_or_default();
    for (person, fates) in people.iter().zip(fates.into_iter().chain([Fates::new()])) {
        tokio::spawn(Arc::clone(person).run(fates));
    }
    let mut rounds = 0;
    while rounds * u64::from(ROUND_MS) < earliest || !arrived(&people) {
        rounds += 1;
        assert!(rounds <= ROUNDS_MAX, "{what}: it does not end: {}", describe(&people));
        world.until(rounds * u64::from(ROUND_MS) + 950).await;
        if rounds == ROTATED {
            world.server.rotate(ROTATED + 8);
        }
    }
    let done = people[0].log.lock().unwrap().processes[0].done();
    world.until((rounds + AFTER) * u64::from(ROUND_MS) + 950).await;
    check(what, &world, &people);
    let dead = |person: &Arc<Person>| {
        person.log.lock().unwrap().processes.iter().filter(|process| process.is_dead()).count() as u64
    };
    let deaths = people.iter().map(dead).sum();
    Played { deaths, done, ms: rounds * u64::from(ROUND_MS) }
}

/// People who have what they want to say ready, each with a disk on which the account is stored.
fn people(world: &World, company: Company) -> Vec<Arc<Person>> {
    let names: &[&'static str] = match company {
        Company::Two => &["Alice", "Bob"],
        Company::Group => &["Alice", "Bob", "Carol"],
    };
    let places = if company == Company::Two { 1 } else { 3 };
    let mut clients: Vec<Client> = names.iter().map(|name| world.client(name, places)).collect();
    for one in 0..clients.len() {
        for other in one + 1..clients.len() {
            let [first, second] = clients.get_disjoint_mut([one, other]).unwrap();
            world.introduce(first, second);
        }
    }
    if let [alice, bob, carol] = &mut clients[..] {
        let roster = [("Bob".to_owned(), bob.identity()), ("Carol".to_owned(), carol.identity())];
        let now = UnixMillis(BASE_MS);
        let mut rng = ChaCha20Rng::from_seed(world.rng("the group"));
        let card = alice.create_group("desk", &roster, &mut rng).unwrap();
        for member in [bob, carol] {
            member.join_group(&card, now).unwrap();
        }
    }
    let person = |(name, client): (&&'static str, &Client)| {
        let disk = Memory::new(world.began);
        disk.save(&client.snapshot()).unwrap();
        let mut person = Person {
            name,
            account: crate::world::account(client),
            seed: world.rng(&format!("machine of {name}")),
            settings: world.settings(),
            began: world.began,
            wire: Arc::new(world.wire()),
            disk,
            says: Vec::new(),
            log: Arc::default(),
        };
        let pair = if *name == "Alice" { "Bob" } else { "Alice" };
        let to: &[&'static str] = if company == Company::Two { &[pair] } else { &[pair, "desk"] };
        for (number, at) in [300, 2180, 6420, 6430, 9090, 12_700].into_iter().enumerate() {
            let to = to[number % to.len()];
            // One of them takes several boxes.
            let more = if number == 3 { "and so on ".repeat(50) } else { String::new() };
            let text = format!("{}{number} {more}", person.prefix(to));
            person.says.push((at, to, client.find(to).unwrap(), text));
        }
        Arc::new(person)
    };
    names.iter().zip(&clients).map(person).collect()
}

/// Who is to see what somebody says.
fn receivers<'a>(
    people: &'a [Arc<Person>],
    person: &'a Person,
    to: &'a str,
) -> impl Iterator<Item = &'a Arc<Person>> {
    people.iter().filter(move |other| other.name != person.name && (to == "desk" || to == other.name))
}

/// Whether everything is said that was to be said, and has arrived, as far as anybody knows.
fn arrived(people: &[Arc<Person>]) -> bool {
    people.iter().all(|person| {
        let log = person.log.lock().unwrap();
        let client = Client::restore(&person.disk.newest().unwrap()).unwrap();
        log.said.len() == person.says.len() && client.conversations().iter().all(|with| with.queued == 0)
    })
}

fn describe(people: &[Arc<Person>]) -> String {
    let of = |person: &Arc<Person>| {
        let log = person.log.lock().unwrap();
        let client = Client::restore(&person.disk.newest().unwrap()).unwrap();
        format!(
            "{}: said {:?}, shown {:?}, warnings {:?}, {:?}",
            person.name,
            log.said,
            log.shown,
            log.warnings,
            client.conversations()
        )
    };
    people.iter().map(of).collect::<Vec<_>>().join("\n")
}

fn check(what: &str, world: &World, people: &[Arc<Person>]) {
    let mut boxes = BTreeMap::new();
    for person in people {
        stored_before_sent(what, world, person, &mut boxes);
        every_text_is_seen(what, people, person);
        acknowledged_is_kept(what, people, person);
        let log = person.log.lock().unwrap();
        let failed: u64 = log.processes.iter().map(|process| process.done().failed).sum();
        let deaths = log.processes.len() - 1;
        // What failed just before the process died nobody was told.
        let told = log.not_stored == failed || deaths > 0 && log.not_stored < failed;
        assert!(told, "{what}: {failed} writes failed, {} were told", log.not_stored);
        assert!(log.warnings.is_empty(), "{what}: {:?}", log.warnings);
    }
}

/// What leaves is in a state that was on the disk before, or is random; and no label, and so no key, serves two boxes.
fn stored_before_sent(what: &str, world: &World, person: &Person, boxes: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let snapshots = person.disk.snapshots();
    let processes = person.log.lock().unwrap().processes.clone();
    let noise: BTreeSet<Vec<u8>> =
        processes.iter().flat_map(|process| process.noise()).map(Vec::from).collect();
    for seen in world.server.seen(&person.account).iter().filter(|seen| seen.call == Call::Deposit) {
        let (label, sealed) = seen.bytes.split_at(16);
        let first = boxes.entry(label.to_vec()).or_insert_with(|| sealed.to_vec());
        assert_eq!(first, sealed, "{what}: in round {} one key for two boxes", seen.round);
        let recent = snapshots.iter().rev().skip_while(|(at, _)| *at > seen.at);
        let stored = recent.take(40).any(|(_, state)| state.windows(304).any(|window| window == seen.bytes));
        let random = noise.contains(&seen.bytes[..]);
        assert!(stored || random, "{what}: what leaves in round {} was not stored", seen.round);
    }
}

/// Every text that was taken is seen by everybody who should see it, in order; what was not may be, once.
fn every_text_is_seen(what: &str, people: &[Arc<Person>], person: &Person) {
    let said = person.log.lock().unwrap().said.clone();
    let to: BTreeSet<&str> = said.iter().map(|said| said.to).collect();
    for to in to {
        for receiver in receivers(people, person, to) {
            let log = receiver.log.lock().unwrap();
            let prefix = person.prefix(to);
            let shown = log.shown.iter().map(|(_, text)| text).filter(|text| text.starts_with(&prefix));
            let mut times: BTreeMap<&String, usize> = BTreeMap::new();
            let mut heard: Vec<&String> = Vec::new();
            for text in shown {
                let before = times.entry(text).or_default();
                if *before == 0 {
                    heard.push(text);
                }
                *before += 1;
            }
            let due = said.iter().filter(|said| said.to == to);
            let due = due.filter(|said| said.taken || times.contains_key(&said.text));
            let due: Vec<&String> = due.map(|said| &said.text).collect();
            assert_eq!(heard, due, "{what}: {} hears this", receiver.name);
            // Between being seen and being stored as seen a process may die, and then the text is shown again.
            let most = log.processes.len();
            assert!(times.values().all(|times| *times <= most), "{what}: {times:?}");
        }
    }
}

/// What somebody is told has arrived was, at that moment, on the other's disk or screen.
fn acknowledged_is_kept(what: &str, people: &[Arc<Person>], person: &Person) {
    let log = person.log.lock().unwrap();
    for (at, message) in &log.acknowledged {
        // One of which the process died before it could tell its number.
        let Some(number) = log.numbers.get(message) else { continue };
        let Said { to, text, .. } = &log.said[*number];
        for receiver in receivers(people, person, to) {
            assert!(receiver.has(text, *at), "{what}: acknowledged and lost at {}: {text}", receiver.name);
        }
    }
}
