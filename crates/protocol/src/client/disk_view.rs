//! What somebody gets who takes the disk: whatever is in a stored state, byte by byte, against every secret that its owner
//! ever made.
//!
//! Every secret of three people is noted when it is made ([`crate::secret::witness`]), and every text. After each step,
//! all windows of 32 and of 16 bytes of each one's snapshot, which has the deposit in it, are looked up among them. What is
//! found must be something that has to be there at that moment; and of every kind, something is found while it has to be.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::client::Notice;
use crate::client::world::{self, Published, World};
use crate::conversation::{ConversationId, Talk};
use crate::reaction::block;
use crate::round::Round;
use crate::secret::witness::{self, GIVEN, Made, RANDOM};
use crate::{SignedManifest, domain};

const ALICE: usize = 0;
const BOB: usize = 1;
const CAROL: usize = 2;
const NAMES: [&str; 3] = ["alice", "bob", "carol"];
const ROUNDS: u64 = 200;
const RETAINED: u64 = 2;
/// Rounds after which new keys of a group have been handed over, taken and forgotten, if nothing is lost.
const HANDED_OVER: u64 = 40;

/// What a window of a snapshot is.
#[derive(Clone, Copy)]
enum Known {
    /// The number of a secret.
    Secret(usize),
    /// A part of the text of this number.
    Text(usize),
}

struct Text {
    from: usize,
    to: usize,
    words: String,
    sequence: u32,
    /// The first round in which its sender must have forgotten it.
    gone: Option<u64>,
    shown: bool,
}

struct Disk {
    world: World,
    made: Vec<Made>,
    /// Secrets from which a chain was stepped on.
    stepped: BTreeSet<Vec<u8>>,
    /// By their bytes, of 16 or 32.
    known: HashMap<Vec<u8>, Known>,
    texts: Vec<Text>,
    /// Of each person, the rounds that were read.
    read: [BTreeSet<u64>; 3],
    /// What was found of each kind, and how often.
    found: BTreeMap<String, usize>,
    searches: usize,
}

impl Disk {
    fn new() -> Self {
        witness::acts(usize::MAX, 0, "new");
        let world = World::new(1, &NAMES, 4, 8);
        let mut disk = Self {
            world,
            made: Vec::new(),
            stepped: BTreeSet::new(),
            known: HashMap::new(),
            texts: Vec::new(),
            read: Default::default(),
            found: BTreeMap::new(),
            searches: 0,
        };
        disk.note();
        // Four of each person, in the order of their fields.
        for (number, made) in disk.made.iter_mut().enumerate() {
            made.owner = number / 4;
        }
        assert_eq!(disk.made.len(), 12);
        disk
    }

    /// Somebody does something.
    fn acts<T>(&mut self, who: usize, doing: &'static str, act: impl FnOnce(&mut World) -> T) -> T {
        let newest = self.newest(who);
        // What is made while a round opens is of that round.
        let round = if doing == "open" { self.world.round } else { newest };
        witness::acts(who, round, doing);
        let done = act(&mut self.world);
        self.note();
        self.check(who, doing);
        done
    }

    fn newest(&self, who: usize) -> u64 {
        self.world.clients[who].deposit().map_or(0, |(round, _)| round.0)
    }

    fn note(&mut self) {
        for made in witness::take() {
            if made.domain == domain::CHAIN_STEP {
                self.stepped.extend(made.parent.map(Vec::from));
            }
            let secret = [16, 32].contains(&made.bytes.len()) && made.bytes.iter().any(|byte| *byte != 0);
            if secret && made.domain != domain::GROUP_MARK {
                // Of two who make the same, each has it to keep: the owner is looked for by the bytes.
                self.known.entry(made.bytes.clone()).or_insert(Known::Secret(self.made.len()));
                self.made.push(made);
            }
        }
    }

    /// All secrets that this person made whose bytes are these.
    fn by(&self, who: usize, bytes: &[u8]) -> impl Iterator<Item = &Made> {
        self.made.iter().filter(move |made| made.owner == who && made.bytes == bytes)
    }

    fn conversation(&self, who: usize, name: &str) -> Option<ConversationId> {
        self.world.clients[who].find(name)
    }

    /// Whether somebody waits for an answer to an invitation.
    fn waits(&self, who: usize) -> bool {
        let waited_for = [(ALICE, "bob"), (CAROL, "alice"), (BOB, "nobody")];
        waited_for.into_iter().any(|(inviter, name)| {
            let open = self.conversation(inviter, name);
            inviter == who && open.is_some_and(|id| self.world.clients[who].contact_identity(id).is_none())
        })
    }

    /// Whether a share is to serve, and has not yet led to keys.
    fn shares(&self, who: usize, share: &[u8]) -> bool {
        self.world.clients[who].state.conversations.iter().any(|conversation| {
            matches!(&conversation.talk, Talk::Pair(pair) if pair.share_bytes().is_some_and(|kept| kept == share))
        })
    }

    /// The kind of a secret that has to be in this person's state now; `None` if it must not be there.
    fn belongs(&self, who: usize, made: &Made) -> Option<&'static str> {
        let client = &self.world.clients[who];
        let newest = self.newest(who);
        let of_newest = made.owner == who && made.round == newest;
        let number = |made: &Made| {
            let alike = |other: &&Made| other.owner == made.owner && other.doing == made.doing;
            self.made.iter().filter(alike).position(|other| other.bytes == made.bytes)
        };
        match (made.domain.as_str(), made.doing) {
            (RANDOM, "new") if made.owner == who => match number(made)? {
                0 => Some("account"),
                1 => Some("identity"),
                2 => (newest == 0).then_some("store"),
                _ => Some("turns"),
            },
            // The exchange secret, the share of a renewal and the invitation's secret.
            (RANDOM, "invite") if made.owner == who && number(made)? == 0 => {
                self.waits(who).then_some("exchange secret")
            }
            (RANDOM | domain::RENEWAL_SHARE, _) if made.owner == who && self.shares(who, &made.bytes) => {
                Some("share of a renewal")
            }
            (domain::HANDSHAKE_BASE, "invite") => (made.owner == who && self.waits(who)).then_some("base"),
            (domain::CHAIN_STEP | domain::PAIR_CHAIN | domain::GROUP_CHAIN | domain::REQUEST_CHAIN, _) => {
                (of_newest && !self.stepped.contains(&made.bytes)).then_some("chain")
            }
            (domain::MESSAGE_LABEL | domain::MESSAGE_KEY, _) => {
                let label = |other: &&Made| {
                    other.domain == domain::MESSAGE_LABEL && other.owner == who && other.parent == made.parent
                };
                let label = &self.made.iter().find(label)?.bytes;
                let (_, deposit) = client.deposit()?;
                let kept = !self.read[who].contains(&made.round) && made.round + RETAINED >= newest;
                let wants = client.state.wants.get(&Round(made.round));
                let wanted =
                    wants.is_some_and(|wants| wants.iter().any(|want| want.key.label().0 == label[..]));
                let key = made.domain == domain::MESSAGE_KEY;
                match (made.owner == who && kept && wanted, key) {
                    (true, true) => Some("key of a box"),
                    (true, false) => Some("label of a box"),
                    (false, false) if deposit.label.0 == label[..] => Some("label of the deposit"),
                    _ => None,
                }
            }
            (domain::GROUP_BASE, _) => (made.owner == who).then_some("base of a group"),
            (domain::FRESH, _) if made.owner == who && made.fields != [1] => {
                let last = |other: &&Made| {
                    other.owner == who && other.domain == domain::FRESH && other.fields != [1]
                };
                let newest = self.made.iter().rfind(last)?;
                (newest.bytes == made.bytes).then_some("store")
            }
            // Also with those to whom it was handed over.
            (domain::FRESH, _) if made.fields == [1] => {
                (made.round + HANDED_OVER > newest).then_some("new keys of a group")
            }
            _ => None,
        }
    }

    /// Everything in a person's snapshot is there because it has to be.
    fn check(&mut self, who: usize, doing: &str) {
        let state = self.world.clients[who].snapshot();
        let round = self.world.round;
        self.searches += 1;
        for window in state.windows(16).chain(state.windows(32)) {
            let kind = match self.known.get(window) {
                None => continue,
                Some(Known::Secret(number)) => {
                    let made = &self.made[*number];
                    // Whoever else made the same bytes may have them for another reason.
                    let own =
                        self.by(who, &made.bytes).chain([made]).find_map(|made| self.belongs(who, made));
                    assert!(own.is_some(), "{}, round {round}, {doing}: {made:?}", NAMES[who]);
                    own.unwrap_or_default()
                }
                Some(Known::Text(number)) => {
                    let text = &self.texts[*number];
                    let sender = text.from == who && text.gone.is_none_or(|gone| self.newest(who) < gone);
                    let reader = text.to == who && !text.shown;
                    assert!(sender || reader, "{}, round {round}, {doing}: {}", NAMES[who], text.words);
                    if sender { "text said" } else { "text read" }
                }
            };
            *self.found.entry(kind.to_owned()).or_default() += 1;
        }
    }

    fn say(&mut self, from: usize, to: usize, words: String) {
        let id = self.conversation(from, NAMES[to]).unwrap();
        for window in words.as_bytes().windows(16) {
            self.known.insert(window.to_vec(), Known::Text(self.texts.len()));
        }
        let sequence = self.world.clients[from].queue_text(id, &words).unwrap().sequence;
        self.texts.push(Text { from, to, words, sequence, gone: None, shown: false });
        self.check(from, "say");
    }

    fn take(&mut self, who: usize, notices: Vec<Notice>) {
        let next_block = (block(Round(self.world.round)) + 1) * 8;
        for notice in notices {
            match notice {
                Notice::Acknowledged { conversation, message } => {
                    let of = |text: &&mut Text| {
                        text.from == who
                            && text.sequence == message.sequence
                            && self.world.clients[who].find(NAMES[text.to]) == Some(conversation)
                    };
                    if let Some(text) = self.texts.iter_mut().find(of) {
                        text.gone = Some(next_block);
                    }
                }
                Notice::Text { conversation, text: words, number, .. } => {
                    self.acts(who, "show", |world| world.clients[who].shown(conversation, number));
                    let shown = self.texts.iter_mut().find(|text| text.words == words).unwrap();
                    shown.shown = true;
                    self.check(who, "shown");
                }
                _ => {}
            }
        }
    }

    fn publish(&mut self) -> Published {
        let (round, now) = (Round(self.world.round), self.world.now());
        let mut deposits = Vec::new();
        for who in [ALICE, BOB, CAROL] {
            self.acts(who, "open", |world| {
                world.clients[who].open_round(round, now, &mut world.rng).unwrap();
            });
            deposits.push(self.world.clients[who].deposit().unwrap().1.clone());
        }
        self.world.publish(&deposits)
    }

    fn read(&mut self, who: usize, published: &Published) {
        let (round, manifest): (u64, &SignedManifest) = (published.round.0, &published.manifest);
        let mut notices = self.acts(who, "believe", |world| world.ready(who, manifest));
        // The keys are gone when the round is read, whatever came of it.
        self.read[who].insert(round);
        let read = |world: &mut World| {
            let retrieval = world.lookup(who, published);
            let answers = world::answers(&retrieval, &published.buckets);
            world.clients[who].received(retrieval, answers)
        };
        notices.extend(self.acts(who, "read", read));
        self.take(who, notices);
    }

    fn invite(&mut self, inviter: usize, invited: usize) {
        let now = self.world.now();
        let name = if inviter == BOB { "nobody" } else { NAMES[invited] };
        let invite = |world: &mut World| world.clients[inviter].invite(name, now, &mut world.rng).unwrap();
        let invitation = self.acts(inviter, "invite", invite);
        if inviter != BOB {
            let accept = |world: &mut World| {
                world.clients[invited].accept(NAMES[inviter], &invitation, now, &mut world.rng).unwrap();
            };
            self.acts(invited, "accept", accept);
        }
    }

    fn group(&mut self) {
        let now = self.world.now();
        let others =
            [BOB, CAROL].map(|other| (NAMES[other].to_owned(), self.world.clients[other].identity()));
        let create =
            |world: &mut World| world.clients[ALICE].create_group("crew", &others, &mut world.rng).unwrap();
        let card = self.acts(ALICE, "group", create);
        for member in [BOB, CAROL] {
            self.acts(member, "group", |world| world.clients[member].join_group(&card, now).unwrap());
        }
    }

    fn new_keys(&self, who: usize) -> bool {
        self.world.clients[who]
            .conversations()
            .iter()
            .any(|conversation| conversation.name == "crew" && !conversation.on_card)
    }
}

/// Handshakes on both sides, one that nobody answers, texts, a group that changes its keys twice, a round that is never
/// read: nothing of it stays longer than it has to.
#[test]
fn no_window_of_a_stored_state_is_a_secret_of_the_past() {
    let mut disk = Disk::new();
    disk.invite(ALICE, BOB);
    disk.invite(CAROL, ALICE);
    disk.group();
    let words = |number: u64, length: usize| -> String {
        (0..length)
            .map(|at| char::from(b'a' + ((number as usize * 7 + at * at / 5 + at) % 26) as u8))
            .collect()
    };
    for step in 0..ROUNDS {
        match step {
            20 => disk.say(ALICE, BOB, words(step, 700)),
            24 => disk.say(BOB, ALICE, words(step, 90)),
            30 => disk.say(CAROL, ALICE, words(step, 300)),
            60 => disk.invite(BOB, BOB),
            90 => {
                let id = disk.conversation(ALICE, "crew").unwrap();
                disk.acts(ALICE, "remove", |world| world.clients[ALICE].remove_member(id, 2).unwrap());
            }
            130 => {
                for who in [ALICE, BOB, CAROL] {
                    disk.acts(who, "restore", |world| world.restart(who));
                }
            }
            150 => disk.say(BOB, ALICE, words(step, 1000)),
            _ => {}
        }
        let published = disk.publish();
        for who in [ALICE, BOB, CAROL] {
            // A round that nobody reads, and one after which another one is opened before it is read.
            if step != 40 {
                disk.read(who, &published);
            }
        }
        disk.world.round += 1;
    }
    assert!(disk.new_keys(ALICE) && disk.new_keys(BOB));
    assert!(disk.texts.iter().all(|text| text.shown && text.gone.is_some()));
    let searched = disk.made.iter().fold(BTreeMap::<&str, usize>::new(), |mut searched, made| {
        *searched.entry(&made.domain).or_default() += 1;
        searched
    });
    println!("searched for: {searched:?}\nfound while they had to be there: {:?}", disk.found);
    let kinds = [
        "account",
        "base",
        "base of a group",
        "chain",
        "exchange secret",
        "identity",
        "key of a box",
        "label of a box",
        "label of the deposit",
        "new keys of a group",
        "share of a renewal",
        "store",
        "text read",
        "text said",
        "turns",
    ];
    assert_eq!(disk.found.keys().map(String::as_str).collect::<Vec<_>>(), kinds);
    // What has to be there always is found always.
    assert!(["account", "identity", "store", "turns"].iter().all(|kind| disk.found[*kind] == disk.searches));
    let never = [
        GIVEN,
        domain::ROUND_KEY,
        domain::PAIR_ROOT,
        domain::HANDSHAKE_SECRET,
        domain::REQUEST_KEY,
        domain::RENEWAL_KEY,
        domain::RENEWAL_RANDOMNESS,
        domain::RENEWAL_EXCHANGE,
        domain::RENEWAL_SECRET,
        domain::RENEWED_ROOT,
    ];
    for never in never {
        assert!(searched[never] > 0, "{never}");
    }
}
