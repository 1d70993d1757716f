//! Two worlds under the same lies: in one, two people talk; in the other, the same two have nothing to do with each
//! other. What the server sees of the first person must be the same in both; what is said must arrive, once, when the
//! lies end; and the person must be told what a careful reader would want to know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use sotto_protocol::client::Client;

use crate::lies::{Account, Call, FAR, Lie, Plan};
use crate::world::{Happened, Person, Slots, World};

/// Far enough apart that a repeat after a pause does not fall on another call's time.
const SLOTS: Slots = Slots { round: 800, deposit: 250, lookup: 420, query: 620 };
/// How far the usual time of a kind of call may differ between the worlds, ms.
const SLOT_MS: u128 = 150;
/// Rounds behind a lie whose calls are compared, too.
const AFTER: u64 = 1;
/// People beside the two.
const CROWD: usize = 3;
/// Rounds in which two people exchange keys.
const BEGINNING: u64 = 8;
/// Rounds in which everything must arrive when the lies have ended.
const PATIENCE: u64 = 120;

/// Whom a lie is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The first person alone.
    Alice,
    /// Both, each in an own version.
    Everybody,
}

/// How much of the trace the lie leaves to the machine's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// Nothing: every call is compared.
    Calls,
    /// Which calls there are, since a session is opened again at some moment: their sizes are compared.
    Sizes,
}

/// A lie that is told for a few rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) lie: Lie,
    pub(crate) target: Target,
    pub(crate) rounds: u64,
    /// Rounds until the calls of the last one have ended.
    pub(crate) trail: u64,
    pub(crate) compare: Compare,
    /// What somebody must be told, if those talk to each other; nothing if that cannot be.
    pub(crate) told: &'static str,
}

impl Step {
    /// For three rounds, to the first person, who cannot know.
    pub(crate) const fn new(lie: Lie) -> Self {
        Self { lie, target: Target::Alice, rounds: 3, trail: 2, compare: Compare::Calls, told: "" }
    }

    /// Somebody is told something in which these words are.
    pub(crate) const fn told(self, told: &'static str) -> Self {
        Self { told, ..self }
    }

    pub(crate) const fn rounds(self, rounds: u64) -> Self {
        Self { rounds, ..self }
    }

    pub(crate) const fn trail(self, trail: u64) -> Self {
        Self { trail, ..self }
    }

    pub(crate) const fn everybody(self) -> Self {
        Self { target: Target::Everybody, ..self }
    }

    pub(crate) const fn sizes(self) -> Self {
        Self { compare: Compare::Sizes, ..self }
    }
}

/// Whether the two have anything to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    Idle,
    Talking,
}

/// The calls of one round, by kind: their sizes and the time of the first.
type Calls = BTreeMap<(u64, Call), (Vec<usize>, Option<u128>)>;

/// What one world showed.
struct Observed {
    steps: Vec<Calls>,
    /// What both were told since the step began.
    told: Vec<String>,
    /// Sizes of the messages of every call on the wire.
    shapes: BTreeSet<Vec<usize>>,
}

/// A running world with two people.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) alice: Person,
    pub(crate) bob: Person,
    pub(crate) account: Account,
    /// Others, who have nothing to say.
    _crowd: Vec<Person>,
    conversations: Option<[sotto_protocol::ConversationId; 2]>,
    said: usize,
    heard: [Vec<String>; 2],
}

impl Scene {
    pub(crate) async fn begin(seed: u64, secret: Secret) -> Self {
        let mut world = World::with(seed, SLOTS).await;
        let mut alice = world.client_for("Alice", 1).await;
        let mut bob = world.client_for("Bob", 1).await;
        let conversations = (secret == Secret::Talking).then(|| world.introduce(&mut alice, &mut bob).into());
        let account = account(&alice);
        let alice = Person::start(alice, world.watched()).await;
        let bob = Person::start(bob, world.unwatched()).await;
        let mut crowd = Vec::new();
        for number in 0..CROWD {
            let somebody = world.client_for(&format!("Somebody {number}"), 1).await;
            crowd.push(Person::start(somebody, world.unwatched()).await);
        }
        let (said, heard) = (0, Default::default());
        let scene = Self { world, alice, bob, account, _crowd: crowd, conversations, said, heard };
        scene.until(scene.newest() + BEGINNING).await;
        scene
    }

    /// The newest round that the server has opened.
    pub(crate) fn newest(&self) -> u64 {
        self.world.liar.seen(|seen| seen.newest)
    }

    /// Waits until a round is open.
    pub(crate) async fn until(&self, round: u64) {
        let rounds = round.saturating_sub(self.newest()) + 20;
        let waiting = async {
            while self.newest() < round {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let patience = Duration::from_millis(u64::from(SLOTS.round) * 3 * rounds);
        assert!(tokio::time::timeout(patience, waiting).await.is_ok(), "rounds do not go on");
    }

    /// Each says something to the other, if they talk.
    pub(crate) async fn say(&mut self) {
        if let Some([at_alice, at_bob]) = self.conversations {
            let text = format!("text {:04}", self.said);
            self.alice.handle.queue_text(at_alice, &text).await.unwrap();
            self.bob.handle.queue_text(at_bob, &text).await.unwrap();
            self.said += 1;
        }
    }

    /// What both were told since this was last asked; texts are kept.
    pub(crate) fn told(&mut self) -> String {
        let all = [self.alice.happened(), self.bob.happened()];
        let mut told = String::new();
        for (heard, Happened { texts, warnings, troubles, .. }) in self.heard.iter_mut().zip(all) {
            heard.extend(texts);
            warnings.iter().for_each(|warning| told += &format!("{warning}; "));
            troubles.iter().for_each(|trouble| told += &format!("{trouble}; "));
        }
        told
    }

    /// Waits until everything said has arrived, in order and once; gives what both were told meanwhile.
    pub(crate) async fn settle(&mut self) -> String {
        let (until, mut told) = (self.newest() + PATIENCE, String::new());
        let all = if self.conversations.is_some() { self.said } else { 0 };
        while self.newest() < until {
            told += &self.told();
            if self.heard.iter().all(|heard| heard.len() >= all) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let said: Vec<String> = (0..all).map(|number| format!("text {number:04}")).collect();
        assert_eq!(self.heard, [said.clone(), said], "not everything arrived once: {told}");
        told
    }

    /// No label, and so no key, served two boxes; nothing was deposited in a round far ahead.
    pub(crate) fn check_keys(&self) {
        self.world.liar.seen(|seen| {
            assert!(seen.deposits.values().all(|boxes| boxes.len() == 1), "one key for two boxes");
            assert!(!seen.rounds.contains(&FAR.0), "something was deposited in a round far ahead");
        });
    }

    /// The calls of Alice in these rounds.
    fn calls(&self, rounds: core::ops::Range<u64>) -> Calls {
        let mut calls = Calls::new();
        self.world.liar.seen(|seen| {
            let hers = |call: &&crate::hostile::SeenCall| call.account == self.account;
            for call in seen.calls.iter().filter(hers).filter(|call| rounds.contains(&call.round)) {
                let since = call.since.map(|since| since.as_millis());
                let place =
                    calls.entry((call.round - rounds.start, call.call)).or_insert((Vec::new(), since));
                place.0.push(call.bytes);
            }
        });
        calls
    }
}

/// The account of a client.
pub(crate) fn account(client: &Client) -> Account {
    SigningKey::from_bytes(client.account_seed()).verifying_key().to_bytes()
}

async fn observe(seed: u64, secret: Secret, steps: &'static [Step]) -> Observed {
    let mut scene = Scene::begin(seed, secret).await;
    let (mut observed, mut told) = (Vec::new(), Vec::<String>::new());
    for step in steps {
        scene.say().await;
        let start = scene.newest() + 1;
        let end = start + step.rounds;
        let target = (step.target == Target::Alice).then_some(scene.account);
        scene.world.liar.plan(Plan { lie: step.lie, rounds: start..end, target });
        scene.until(end + AFTER + step.trail).await;
        observed.push(scene.calls(start..end + AFTER));
        let news = scene.told();
        told.push(String::new());
        told.iter_mut().for_each(|told| *told += &news);
    }
    let news = scene.settle().await;
    told.iter_mut().for_each(|told| *told += &news);
    scene.check_keys();
    let calls = scene.world.calls();
    let shapes = calls.iter().map(|call| call.messages.clone()).filter(|call| !call.is_empty()).collect();
    scene.world.end().await;
    Observed { steps: observed, told, shapes }
}

/// Attempts at a play. A busy machine can move a call to another slot or round, in one world and not in the other; what
/// depends on a secret does so every time.
const ATTEMPTS: u64 = 4;

/// Plays the steps in both worlds, and compares what the server saw of Alice.
pub(crate) async fn play(seed: u64, steps: &'static [Step]) {
    for attempt in 1..ATTEMPTS {
        if tokio::spawn(play_once(seed + 1000 * attempt, steps)).await.is_ok() {
            return;
        }
    }
    play_once(seed, steps).await;
}

async fn play_once(seed: u64, steps: &'static [Step]) {
    let [idle, talking] =
        [Secret::Idle, Secret::Talking].map(|secret| tokio::spawn(observe(seed, secret, steps)));
    let (idle, talking) = (idle.await.unwrap(), talking.await.unwrap());
    for (number, step) in steps.iter().enumerate() {
        compare(step, &idle.steps[number], &talking.steps[number]);
        assert!(talking.told[number].contains(step.told), "{step:?}: {}", talking.told[number]);
    }
    // A session that is opened again may have missed a manifest.
    if steps.iter().all(|step| step.compare == Compare::Calls) {
        assert_eq!(idle.shapes, talking.shapes);
    }
}

fn compare(step: &Step, idle: &Calls, talking: &Calls) {
    let kinds: BTreeSet<Call> = idle.keys().map(|(_, call)| *call).collect();
    assert!(kinds.len() >= 2, "{step:?}: there is nothing to compare: {idle:?}");
    if step.compare == Compare::Sizes {
        let sizes = |calls: &Calls, kind: Call| -> BTreeSet<usize> {
            let of_kind = calls.iter().filter(|((_, call), _)| *call == kind);
            of_kind.flat_map(|(_, (sizes, _))| sizes.clone()).collect()
        };
        for kind in kinds.into_iter().filter(|kind| !sizes(talking, *kind).is_empty()) {
            assert_eq!(sizes(idle, kind), sizes(talking, kind), "{step:?}: {kind:?}");
        }
        return;
    }
    let looks =
        |calls: &Calls| calls.iter().map(|(place, (sizes, _))| (*place, sizes.clone())).collect::<Vec<_>>();
    assert_eq!(looks(idle), looks(talking), "{step:?}");
    for kind in kinds {
        let of_kind = idle.iter().filter(|((_, call), _)| *call == kind);
        let both =
            of_kind.filter_map(|(place, (_, since))| Some(since.as_ref()?.abs_diff(talking[place].1?)));
        let mut apart: Vec<u128> = both.collect();
        apart.sort_unstable();
        let usual = apart.get(apart.len() / 2).copied().unwrap_or(0);
        assert!(usual <= SLOT_MS, "{step:?}: {kind:?} is at another time by {apart:?} ms");
    }
}
