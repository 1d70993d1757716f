//! What a contact sees, in all that it is sent, of which of its messages of a block of eight rounds were read.

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

use crate::Round;
use crate::client::world::{Fate, World};
use crate::conversation::{Talk, Turn};
use crate::message::{FIRST, Frame, Kind};
use crate::pair::Pair;
use crate::reaction::REACTION_ROUNDS;
use crate::seal::OpeningKey;
use crate::stream::{Inbox, Item};

const HERE: Fate = Fate { absent: false, deposit_lost: false, answers_lost: false, restarts: false };
const TALK: u32 = 1;

/// A message of the contact's: its number, 0 for an acknowledgement alone; whether it is told to be the first; what it
/// acknowledges; and whether that is false.
type Message = (u32, bool, u32, bool);

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
    let turn = Turn { round: Round(round), mine: true, head: None, identity: &identity };
    let (deposit, listening) = pair.open_round(&turn);
    (deposit, listening.into_iter().map(|listening| listening.key).collect())
}

impl Stage {
    /// Alice waits for so many texts to arrive.
    fn new(texts: u32) -> Self {
        let mut world = World::new(1, &["alice", "mallory"], 1, 4);
        world.befriend(0, 1);
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
            assert!(inbox.accept(Item::received(number, Kind::Text, 0, b"x")).1.is_ok());
            inbox.begin(Round(REACTION_ROUNDS * u64::from(number)));
            checks.push(inbox.acknowledgement().1);
        }
        Self { alice: pair_of(&world, 0), begins: 64, keys, checks }
    }

    /// In how many ways what alice says afterwards can look, by which of the messages she has read.
    fn outcomes(&self, messages: &[Message]) -> usize {
        let mut outcomes = BTreeSet::new();
        for read in 0_u32..1 << messages.len() {
            let mut alice: Pair = postcard::from_bytes(&self.alice).unwrap();
            for round in self.begins..self.begins + REACTION_ROUNDS {
                open(&mut alice, round);
                let number = round - self.begins;
                if read >> number & 1 == 1 {
                    self.hear(&mut alice, round, messages[number as usize]);
                }
            }
            let said = (self.begins + REACTION_ROUNDS..).zip(&self.keys).map(|(round, key)| {
                let (deposit, _) = open(&mut alice, round);
                deposit.map(|deposit| key.open(&deposit.sealed.0).unwrap().to_vec())
            });
            outcomes.insert(said.collect::<Vec<_>>());
        }
        outcomes.len()
    }

    fn hear(&self, alice: &mut Pair, round: u64, (sequence, first, acknowledgement, stray): Message) {
        let (kind, content) = match sequence {
            0 => (Kind::Acknowledgement, Vec::new()),
            // No two alike, or the check would not tell them apart.
            _ => (Kind::Text, round.to_string().into_bytes()),
        };
        let check = if stray { 77 + round as u32 } else { self.checks[acknowledgement as usize] };
        let flags = if first && sequence > 0 { FIRST } else { 0 };
        let (head, round, content) = (None, Round(round), Zeroizing::new(content));
        let frame = Frame { kind, flags, sequence, acknowledgement, check, round, head, content };
        alice.receive(TALK, &frame.encode().unwrap(), round, round.next(), &[]).unwrap();
    }
}

/// An honest contact sees that nothing came, that something came but not the first, or up to which message all did. One
/// who numbers and acknowledges falsely sees more, and more still if texts wait for its acknowledgements; the worst of
/// these came out of hill climbing, from the honest numbering, 1,500 steps at a time.
#[test]
fn what_a_block_tells_of_its_messages_is_counted() {
    let honest = |messages: u32| (1..=messages).map(|n| (n, n == 1, 0, false)).collect::<Vec<_>>();
    let numbered: [Message; 8] = [
        (5, false, 0, false),
        (2, true, 0, false),
        (3, true, 0, false),
        (4, false, 0, false),
        (3, true, 0, false),
        (4, true, 0, false),
        (5, true, 0, false),
        (6, true, 0, false),
    ];
    let acknowledged: [Message; 8] = [
        (3, false, 14, false),
        (2, true, 11, false),
        (2, false, 15, false),
        (4, false, 57, true),
        (3, true, 38, true),
        (5, false, 23, true),
        (4, true, 49, true),
        (3, true, 39, true),
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
    assert_eq!(counted.map(|(_, outcomes)| outcomes), [10, 9, 62, 165, 4, 2]);
}
