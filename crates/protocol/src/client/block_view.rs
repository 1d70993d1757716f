//! What a contact sees, in all that it is sent, of which of its messages of a block of eight rounds were read.

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

use crate::Round;
use crate::client::world::{Fate, World};
use crate::conversation::Talk;
use crate::message::{FIRST, Frame, Kind};
use crate::pair::Pair;
use crate::reaction::REACTION_ROUNDS;
use crate::seal::{OpeningKey, Plaintext};
use crate::stream::{Inbox, Item, check};
use crate::turn::Turn;

const HERE: Fate = Fate { absent: false, deposit_lost: false, answers_lost: false, restarts: false };
const TALK: u32 = 1;

/// A message of the contact's: its number, 0 for an acknowledgement alone; which of its messages of the block it says it
/// follows, 0 for none; whether it is told to be the first; what it acknowledges; and whether that is false.
type Message = (u32, usize, bool, u32, bool);

/// Alice as she is when a block begins, who speaks with mallory in every round.
struct Stage {
    alice: Vec<u8>,
    /// The first round of the block.
    begins: u64,
    /// That open what alice says in the two blocks after.
    keys: Vec<OpeningKey>,
    /// Of alice's texts, up to each.
    checks: Vec<u32>,
}

fn pair_of(world: &World, client: usize) -> Vec<u8> {
    match &world.clients[client].state.conversations[0].talk {
        Talk::Pair(pair) => postcard::to_allocvec(pair).unwrap(),
        Talk::Group(_) => Vec::new(),
    }
}

fn open(pair: &mut Pair, round: u64) -> (Option<crate::Deposit>, Vec<OpeningKey>) {
    let identity = SigningKey::from_bytes(&[1; 32]);
    let turn = Turn {
        round: Round(round),
        mine: true,
        slot: None,
        last: None,
        knocks: true,
        head: None,
        identity: &identity,
    };
    let (deposit, listening) = pair.open_round(&turn);
    (deposit, listening.into_iter().map(|listening| listening.key).collect())
}

impl Stage {
    /// Alice waits for so many texts to arrive.
    fn new(texts: u32) -> Self {
        let mut world = World::new(1, &["alice", "mallory"], 1, 4);
        world.befriend(0, 1);
        // So that the first message of each is the first of its texts.
        for client in &mut world.clients {
            let conversation = &mut client.state.conversations[0];
            let Talk::Pair(pair) = &mut conversation.talk else { panic!("a conversation of two") };
            let stored = postcard::to_allocvec(pair).unwrap();
            *pair = postcard::from_bytes::<Pair>(&stored).unwrap().meeting_classically();
        }
        world.run(40);
        (0..texts).for_each(|_| world.say(0, "mallory", "x"));
        // All are sent, and no answer has come.
        while world.round < 64 {
            world.step(&[HERE, Fate { absent: true, ..HERE }]);
        }
        assert_eq!(world.clients[0].conversations()[0].unacknowledged, texts as usize);
        let mut mallory: Pair = postcard::from_bytes(&pair_of(&world, 1)).unwrap();
        let after = 64 + REACTION_ROUNDS..64 + 3 * REACTION_ROUNDS;
        let keys = after.map(|round| open(&mut mallory, round).1.remove(0)).collect();
        let (mut inbox, mut checks) = (Inbox::default(), vec![0]);
        for number in 1..=texts {
            let before = inbox.acknowledgement().1;
            assert!(inbox.accept(Item::received(before, number, Kind::Text, 0, b"x")).1.is_ok());
            inbox.begin(Round(REACTION_ROUNDS * u64::from(number)));
            checks.push(inbox.acknowledgement().1);
        }
        Self { alice: pair_of(&world, 0), begins: 64, keys, checks }
    }

    /// In how many ways what alice says afterwards can look, by which of the messages she has read.
    fn outcomes(&self, messages: &[Message]) -> usize {
        // Whatever was read, what alice is afterwards is one of a few states.
        let mut states = BTreeSet::from([self.alice.clone()]);
        let mut messages = self.said(messages).into_iter();
        for round in self.begins..self.begins + REACTION_ROUNDS {
            let message = messages.next();
            let mut next = BTreeSet::new();
            for state in states {
                let mut alice: Pair = postcard::from_bytes(&state).unwrap();
                open(&mut alice, round);
                next.insert(postcard::to_allocvec(&alice).unwrap());
                if let Some(message) = &message {
                    alice.receive(TALK, message, Round(round), Round(round + 1), &[]).unwrap();
                    next.insert(postcard::to_allocvec(&alice).unwrap());
                }
            }
            states = next;
        }
        let answers = |state: Vec<u8>| {
            let mut alice: Pair = postcard::from_bytes(&state).unwrap();
            let said = (self.begins + REACTION_ROUNDS..).zip(&self.keys).map(|(round, key)| {
                let (deposit, _) = open(&mut alice, round);
                deposit.map(|deposit| key.open(&deposit.sealed.0).unwrap().to_vec())
            });
            said.collect::<Vec<_>>()
        };
        states.into_iter().map(answers).collect::<BTreeSet<_>>().len()
    }

    fn said(&self, messages: &[Message]) -> Vec<Plaintext> {
        let mut checks = vec![0];
        let message = |(round, (sequence, behind, first, acknowledgement, stray)): (u64, &Message)| {
            let (kind, content) = match *sequence {
                0 => (Kind::Acknowledgement, Vec::new()),
                // No two alike, or the check would not tell them apart.
                _ => (Kind::Text, round.to_string().into_bytes()),
            };
            let before = checks.get(*behind).copied().filter(|_| kind == Kind::Text).unwrap_or(0);
            checks.push(check(before, &Item::received(before, *sequence, kind, 0, &content)));
            let (sequence, acknowledgement) = (*sequence, *acknowledgement);
            let check = if *stray { 77 + round as u32 } else { self.checks[acknowledgement as usize] };
            let flags = if *first && sequence > 0 { FIRST } else { 0 };
            let (head, round, content) = (None, Round(round), Zeroizing::new(content));
            let frame = Frame { kind, flags, sequence, acknowledgement, check, before, round, head, content };
            frame.encode().unwrap()
        };
        (self.begins..).zip(messages).map(message).collect()
    }

    /// Messages that tell more than these, by changing one after another.
    fn climb(
        &self,
        mut best: Vec<Message>,
        acknowledged: u32,
        seed: u64,
        steps: usize,
    ) -> (usize, Vec<Message>) {
        let mut coins = ChaCha20Rng::seed_from_u64(seed);
        let mut coin = |below: usize| usize::try_from(coins.next_u64()).unwrap() % below;
        let mut most = self.outcomes(&best);
        for _ in 0..steps {
            let mut next = best.clone();
            for _ in 0..=coin(2) {
                let which = coin(next.len());
                let message = &mut next[which];
                match coin(4) {
                    0 => message.0 = u32::try_from(coin(9)).unwrap(),
                    1 => message.1 = coin(which + 1),
                    2 => message.2 = !message.2,
                    _ if acknowledged == 0 => {}
                    _ => (message.3, message.4) = (coin(1 + acknowledged as usize) as u32, false),
                }
                if acknowledged > 0 && coin(4) == 0 {
                    (message.3, message.4) = (1 + coin(60) as u32, true);
                }
            }
            let outcomes = self.outcomes(&next);
            if outcomes >= most {
                (most, best) = (outcomes, next);
            }
        }
        (most, best)
    }
}

/// How the false messages below were found: `cargo test --release -p sotto-protocol --lib climbing -- --ignored --nocapture`,
/// some minutes.
#[test]
#[ignore = "a search of some minutes, for what the test below asserts"]
fn what_a_block_tells_at_worst_is_searched_for_by_climbing() {
    let honest: Vec<Message> = (1..=8).map(|n| (n, n as usize - 1, n == 1, 0, false)).collect();
    for (stage, acknowledged) in [(Stage::new(0), 0), (Stage::new(16), 16)] {
        for seed in 0..3 {
            let (most, found) = stage.climb(honest.clone(), acknowledged, seed, 1500);
            println!("{acknowledged} texts waiting, seed {seed}: {most} outcomes, {found:?}");
        }
    }
}

/// An honest contact sees that nothing came, that something came but not the first, or up to which message all did. One
/// who numbers falsely sees no more, since each message follows one other; one who acknowledges falsely, too, while texts
/// wait for it, does. Both came out of climbing from the honest numbers.
#[test]
fn what_a_block_tells_of_its_messages_is_counted() {
    let honest = |messages: u32| {
        (1..=messages).map(|n| (n, n as usize - 1, n == 1, 0, false)).collect::<Vec<Message>>()
    };
    let numbered: [Message; 8] = [
        (7, 0, true, 0, false),
        (6, 1, true, 0, false),
        (6, 0, true, 0, false),
        (3, 2, true, 0, false),
        (7, 0, true, 0, false),
        (5, 2, true, 0, false),
        (2, 4, true, 0, false),
        (7, 2, false, 0, false),
    ];
    let acknowledged: [Message; 8] = [
        (1, 0, false, 3, false),
        (2, 1, false, 10, false),
        (2, 1, false, 11, false),
        (4, 3, true, 50, true),
        (5, 4, false, 15, false),
        (3, 5, true, 20, true),
        (3, 5, true, 29, true),
        (2, 7, true, 11, true),
    ];
    let (idle, waiting) = (Stage::new(0), Stage::new(16));
    let counted = [
        ("8 messages, as they should be", idle.outcomes(&honest(8))),
        ("the same, 16 texts waiting", waiting.outcomes(&honest(8))),
        ("8 messages, numbered falsely", idle.outcomes(&numbered)),
        ("8 messages, numbered and acknowledged falsely, 16 texts waiting", waiting.outcomes(&acknowledged)),
        ("2 messages, as they should be", idle.outcomes(&honest(2))),
        ("1 message", idle.outcomes(&honest(1))),
    ];
    for (what, outcomes) in counted {
        println!("{what}: {outcomes} outcomes, {:.1} bits", (outcomes as f64).log2());
    }
    assert_eq!(counted.map(|(_, outcomes)| outcomes), [10, 9, 10, 86, 4, 2]);
}
