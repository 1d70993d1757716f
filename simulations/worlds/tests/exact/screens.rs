//! Worlds in which the same is said, and which differ in who looks: whether a program is attached, to what, when, and what
//! it says was shown. Everybody's wires are the same, and so is every byte of the boxes that contacts fetch.

use core::time::Duration;
use std::sync::Arc;

use mpir::noop;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use serde_json::{Value, json};
use sotto::Screens;
use sotto_participant::host::Work;
use sotto_protocol::{RoundMode, UnixMillis};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::lies::{Change, Lie};
use crate::machine::{BASE_MS, Line};
use crate::server::Seen;
use crate::stage::at;
use crate::traces::difference;
use crate::world::{Person, Told, World, parameters, quick};

/// Long enough for a text that is lost twice to come, and to be acknowledged two blocks later.
const ROUNDS: u64 = 150;

/// Who looks at what Alice is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// No program. What lasts waits in the news.
    Nobody,
    /// Not even the events are taken.
    Deaf,
    /// One that is there from the beginning, at Bob, and says of everything that it was shown.
    Always,
    /// The same, of a machine on which what a person wants takes longer than a deposit may.
    AlwaysSlow,
    /// One that shows and says nothing of it.
    Silent,
    /// One that is attached and takes nothing.
    Stuck,
    /// Several, at odd moments, at all that there is; they ask for the texts, too.
    Now,
    /// A screen, which listens to everything, comes and goes at odd moments, and says of all texts that they were shown.
    Listens,
    /// One that blocks Bob soon, and shows what others say.
    Blocks,
}

const LOOKS: [Looks; 8] = [
    Looks::Always,
    Looks::Deaf,
    Looks::AlwaysSlow,
    Looks::Silent,
    Looks::Listens,
    Looks::Stuck,
    Looks::Blocks,
    Looks::Now,
];

/// What a world shows, to others and to Alice.
struct Observed {
    tapes: Vec<Vec<Line>>,
    seen: Vec<Vec<Seen>>,
    others: Vec<Told>,
    /// Lines that wait in the news at the end, and texts that nobody has seen.
    waiting: (usize, usize),
    /// What programs were told.
    shown: usize,
    /// Who said what programs were told.
    heard: Vec<String>,
}

/// A program at the desk.
struct Program(DuplexStream);

impl Program {
    async fn come(screens: &Screens, room: usize) -> Self {
        let (near, far) = duplex(room);
        tokio::spawn(screens.serve(far));
        let mut program = Self(near);
        let greeting = program.hear().await.unwrap();
        program.say(&greeting).await;
        program
    }

    async fn say(&mut self, frame: &Value) {
        let json = serde_json::to_vec(frame).unwrap();
        self.0.write_all(&u32::try_from(json.len()).unwrap().to_le_bytes()).await.unwrap();
        self.0.write_all(&json).await.unwrap();
    }

    async fn hear(&mut self) -> Option<Value> {
        let length = self.0.read_u32_le().await.ok()?;
        let mut json = vec![0; length as usize];
        self.0.read_exact(&mut json).await.ok()?;
        Some(serde_json::from_slice(&json).unwrap())
    }

    async fn attach(&mut self, conversation: &str) {
        self.say(&json!({"attach": {"conversation": conversation, "verbose": true}})).await;
    }

    /// Shows what comes, and says so or does not, until it is ended.
    fn show(mut self, confirms: bool, shown: mpsc::UnboundedSender<Option<String>>) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Some(frame) = self.hear().await {
                assert!(frame.pointer("/reply/failed").is_none(), "{frame}");
                let from = frame.pointer("/told/text/from").and_then(Value::as_str);
                let _ = shown.send(from.map(str::to_owned));
                if let Some(text) = frame.pointer("/told/text").filter(|_| confirms) {
                    let shown = json!({"id": text["id"], "number": text["number"]});
                    self.say(&json!({"account": {"shown": shown}})).await;
                }
            }
        })
    }
}

/// Programs come and go, at moments that have nothing to do with rounds.
async fn look(looks: Looks, screens: &Screens, world: &World, shown: &mpsc::UnboundedSender<Option<String>>) {
    match looks {
        Looks::Nobody | Looks::Deaf => {}
        Looks::Always | Looks::AlwaysSlow | Looks::Silent => {
            let mut program = Program::come(screens, 1 << 16).await;
            program.attach("Bob").await;
            drop(program.show(looks != Looks::Silent, shown.clone()));
        }
        Looks::Stuck => {
            let mut program = Program::come(screens, 64).await;
            program.attach("Bob").await;
            // It stays, and takes nothing.
            world.until(at(ROUNDS, 0)).await;
        }
        Looks::Now => {
            for (place, conversation) in ["Carol", "desk", "Bob", "Bob", "desk", "Carol"].iter().enumerate() {
                world.until(at(9 * place as u64 + 11, 137 * place as u64 + 29)).await;
                let mut program = Program::come(screens, 1 << 16).await;
                program.attach(conversation).await;
                let showing = program.show(place != 2, shown.clone());
                let mut asking = Program::come(screens, 1 << 16).await;
                for _ in 0..40 {
                    asking.say(&json!({"account": {"unshown": {"conversation": null}}})).await;
                    let texts = asking.hear().await.unwrap();
                    assert!(texts.pointer("/reply/texts").is_some(), "{texts}");
                    let past = json!({"conversation": "Bob", "before": null, "most": 9});
                    asking.say(&json!({"account": {"past": past}})).await;
                    let past = asking.hear().await.unwrap();
                    assert!(past.pointer("/reply/past/texts").is_some(), "{past}");
                    asking.say(&json!("status")).await;
                    asking.hear().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(83)).await;
                }
                showing.abort();
            }
        }
        Looks::Blocks => {
            let mut program = Program::come(screens, 1 << 16).await;
            world.until(at(4, 57)).await;
            program.say(&json!({"account": {"block": {"name": "Bob", "blocked": true}}})).await;
            assert_eq!(program.hear().await.unwrap(), json!({"reply": "done"}));
            program.say(&json!("listen")).await;
            drop(program.show(true, shown.clone()));
        }
        Looks::Listens => {
            for (from, to) in [(0, 31), (33, 34), (40, 101), (103, ROUNDS)] {
                world.until(at(from, 211)).await;
                let mut screen = Program::come(screens, 1 << 16).await;
                screen.say(&json!("listen")).await;
                let showing = screen.show(true, shown.clone());
                world.until(at(to, 377)).await;
                showing.abort();
            }
        }
    }
}

async fn observe(seed: u64, looks: Looks) -> Observed {
    let mut world = World::new(seed, parameters(&*noop(), RoundMode::Deadline), 2);
    let [mut alice, mut bob, mut carol, mut dave] =
        ["Alice", "Bob", "Carol", "Dave"].map(|name| world.client(name, 3));
    for other in [&mut bob, &mut carol] {
        let [at_alice, at_other] = world.introduce(&mut alice, other);
        for text in 0..6 {
            alice.queue_text(at_alice, &format!("from Alice {text}")).unwrap();
            other.queue_text(at_other, &format!("much to say {text} ").repeat(9)).unwrap();
        }
    }
    let roster = [("Carol".to_owned(), carol.identity()), ("Dave".to_owned(), dave.identity())];
    let mut rng = ChaCha20Rng::from_seed(world.rng("the group"));
    let card = alice.create_group("desk", &roster, &mut rng).unwrap();
    for member in [&mut carol, &mut dave] {
        let id = member.join_group(&card, UnixMillis(BASE_MS)).unwrap();
        member.queue_text(id, "to all").unwrap();
    }
    // A warning, which lasts, and troubles, which pass.
    let account = crate::world::account(&alice);
    world.server.plan(Lie::Answer(Change::Flip), &(20..23), Some(account));

    let mut people = Vec::new();
    for (place, client) in (0..).zip([alice, bob, carol, dave]) {
        world.until(100 * place).await;
        let slow: crate::machine::Pace =
            |work| if work == Work::Person { Duration::from_millis(400) } else { quick(work) };
        let pace = if place == 0 && looks == Looks::AlwaysSlow { slow } else { quick };
        people.push(world.start(client, pace).await);
    }
    let directory = tempfile::tempdir().unwrap();
    let server = world.settings().address.clone();
    let screens = Arc::new(Screens::new(directory.path(), people[0].handle.clone(), server));
    if looks != Looks::Deaf {
        let (_, nothing) = mpsc::channel(1);
        let mut events = core::mem::replace(&mut people[0].events, nothing);
        let desk = Arc::clone(&screens);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                desk.hear(event).await;
            }
        });
    }
    let (shown, mut told) = mpsc::unbounded_channel();
    look(looks, &screens, &world, &shown).await;
    world.until(at(ROUNDS, 650)).await;
    let finish = |person: &Person| {
        let handle = person.handle.clone();
        tokio::spawn(async move { handle.finish().await })
    };
    let mut finishing = people.iter().map(finish).collect::<Vec<_>>().into_iter();
    let alice = finishing.next().unwrap().await.unwrap().unwrap();
    for finished in finishing {
        finished.await.unwrap().unwrap();
    }
    world.until(at(ROUNDS + 8, 0)).await;
    let unseen = alice.unshown().count();
    let tapes = people.iter().map(|person| person.machine.tape.lines()).collect();
    let seen = people.iter().map(|person| world.server.seen(&person.account)).collect();
    let others = people[1..].iter_mut().map(Person::told).collect();
    let told: Vec<Option<String>> = core::iter::from_fn(|| told.try_recv().ok()).collect();
    let waiting = (Screens::waiting(directory.path()), unseen);
    let (shown, heard) = (told.len(), told.into_iter().flatten().collect());
    Observed { tapes, seen, others, waiting, shown, heard }
}

fn play(seed: u64, looks: Looks) -> Observed {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(observe(seed, looks))
}

#[test]
fn who_looks_at_what_came_and_what_was_shown_shows_to_nobody() {
    for seed in crate::seeds() {
        let nobody = play(seed, Looks::Nobody);
        // Alice was told of two contacts and a group, and of the warning; what was said came and waits.
        assert!(nobody.waiting.0 >= 3 && nobody.waiting.1 >= 8, "seed {seed}: {:?}", nobody.waiting);
        assert!(nobody.others[0].acknowledged >= 6, "seed {seed}: {:?}", nobody.others[0]);
        // One that is attached, one that is slow, one that listens and one that blocks stand for the others in the gate.
        let step = if crate::more_seeds() { 1 } else { 2 };
        for looks in LOOKS.into_iter().step_by(step) {
            let what = format!("{looks:?}, seed {seed}");
            let other = play(seed, looks);
            for (person, (one, other)) in nobody.tapes.iter().zip(&other.tapes).enumerate() {
                let difference = difference(one, other);
                assert_eq!(difference, None, "{what}, {person}: {}", difference.as_deref().unwrap_or(""));
            }
            // What is late is said in another turn, as it is with all slow work.
            if looks != Looks::AlwaysSlow {
                assert!(nobody.seen == other.seen, "{what}: another byte was sent");
                assert_eq!(nobody.others, other.others, "{what}");
            }
            // It made a difference to the person.
            let (lines, texts) = other.waiting;
            let different = match looks {
                Looks::Nobody => false,
                Looks::Deaf => lines == 0 && texts == nobody.waiting.1,
                Looks::Stuck => texts == nobody.waiting.1,
                Looks::Silent => lines < nobody.waiting.0 && texts == nobody.waiting.1 && other.shown > 6,
                Looks::Always | Looks::AlwaysSlow => texts < nobody.waiting.1 && other.shown > 6,
                Looks::Listens => lines == 0 && texts == 0 && other.shown > 6,
                // What Bob says from then on nobody is to see.
                Looks::Blocks => texts == 0 && other.shown > 6 && !other.heard.contains(&"Bob".to_owned()),
                Looks::Now => texts < nobody.waiting.1 && other.shown > 6,
            };
            assert!(different, "{what}: {:?}, shown {}", other.waiting, other.shown);
        }
    }
}
