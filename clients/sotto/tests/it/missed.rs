//! What befalls people: a lid is closed, the server restarts, a network is gone, a program is killed. Nobody misses anything by
//! that: every text is shown once to everyone whom it is for, in the order in which it was said. And whatever befalls them,
//! what their machines send and receive has the shape of what an idle person's does.

use std::path::Path;

use std::collections::{BTreeMap, BTreeSet};

use crate::calls::Calls;
use crate::programs::{Home, Program, Relay, Server, config, loopback};
use crate::terminal::Screen;
use sotto_wire::Transport;
use sottod::Config;

/// Rounds that the server can still be asked for.
const RETAINED: u8 = 4;

fn lasting(data: &Path) -> Config {
    Config {
        data: Some(data.to_owned()),
        // So that relays see the calls.
        transport: Transport::Plaintext,
        retained: RETAINED,
        retrieve: 4,
        choices: 3,
        // Five machines share two cores with all other tests: in shorter rounds nobody asks in time where those are slow.
        ..config(loopback())
    }
}

/// What one person said and saw in a conversation, by however many programs.
struct Talk<'home> {
    home: &'home Home,
    me: &'static str,
    with: &'static str,
    program: Option<Program>,
    said: Vec<String>,
    /// Who had said it, and what.
    shown: Vec<(String, String)>,
}

impl<'home> Talk<'home> {
    fn of(home: &'home Home, me: &'static str, with: &'static str) -> Self {
        let mut talk = Self { home, me, with, program: None, said: Vec::new(), shown: Vec::new() };
        talk.opens();
        talk
    }

    fn opens(&mut self) {
        self.program = Some(Program::start(self.home, &["chat", self.with, "--json"]));
    }

    fn program(&mut self) -> &mut Program {
        self.program.as_mut().unwrap()
    }

    fn says(&mut self, text: &str) {
        let text = format!("{} to {}: {text}", self.me, self.with);
        self.program().says(&text);
        self.said.push(text);
    }

    /// A text longer than a box.
    fn says_much(&mut self) {
        let text = "word ".repeat(100);
        self.says(text.trim_end());
    }

    fn shows(&mut self, printed: &str) {
        let text: serde_json::Value = serde_json::from_str(printed).unwrap();
        let part = |name: &str| text[name].as_str().unwrap().to_owned();
        assert_eq!(part("conversation"), self.with);
        self.shown.push((part("from"), part("text")));
    }

    /// Waits until the last text that somebody has said is there.
    fn hears(&mut self, other: &Talk<'_>) {
        let last = (other.me.to_owned(), other.said.last().unwrap().clone());
        while !self.shown.contains(&last) {
            let printed = self.program().hears();
            self.shows(&printed);
        }
    }

    fn ends(&mut self) {
        let (code, printed) = self.program.take().unwrap().end();
        assert_eq!(code, Some(0));
        printed.iter().for_each(|printed| self.shows(printed));
    }

    /// Kills the program in the midst of what it does, and waits until its person's participant has noticed.
    fn dies(&mut self) {
        let before = attached(self.home);
        for printed in self.program.take().unwrap().dies() {
            self.shows(&printed);
        }
        while attached(self.home) >= before {}
    }

    /// Whether the last text was taken before the program died.
    fn was_taken(&self) -> bool {
        let kept = self.home.json(&["history", self.with, "--json"]);
        kept.iter().any(|past| past["text"].as_str() == self.said.last().map(String::as_str))
    }

    /// What the other one said was shown once, and in order.
    fn missed_nothing_of(&self, other: &Talk<'_>) {
        let shown: Vec<_> =
            self.shown.iter().filter(|(from, _)| from == other.me).map(|(_, text)| text).collect();
        assert_eq!(shown, other.said.iter().collect::<Vec<_>>(), "{} of {}", self.me, other.me);
    }
}

/// Programs that a person has open; the one that asks is none of them.
fn attached(home: &Home) -> u64 {
    home.json(&["status", "--json"])[0]["online"]["attached"].as_u64().unwrap()
}

fn round(home: &Home) -> u64 {
    home.json(&["status", "--json"])[0]["online"]["round"].as_u64().unwrap()
}

/// Who has a conversation.
type Among<'talks, 'home> = [&'talks mut Talk<'home>];

/// In each conversation each says a last text, and all others hear it.
fn all_say(conversations: &mut [&mut Among<'_, '_>], text: &str) {
    conversations.iter_mut().flat_map(|talks| talks.iter_mut()).for_each(|talk| talk.says(text));
    for talks in conversations {
        for hearer in 0..talks.len() {
            for speaker in (0..talks.len()).filter(|speaker| *speaker != hearer) {
                let [one, other] = talks.get_disjoint_mut([hearer, speaker]).unwrap();
                one.hears(other);
            }
        }
    }
}

/// All texts on a screen so wide that each has one row, and so high that all have one: who had said it, and what.
fn rows(screen: &Screen) -> Vec<(String, String)> {
    let contents = screen.contents();
    let talk = contents.lines().filter_map(|row| row.split_once('│').map(|(_, talk)| talk));
    // Time and mark stand before the name, and nothing before what is no text.
    let said = talk.filter(|row| row.as_bytes().get(2) == Some(&b':') || row.starts_with("--:--"));
    let said = said.map(|row| row.chars().skip(9).collect::<String>());
    said.filter_map(|row| row.split_once(':').map(|(who, text)| (who.to_owned(), text.trim().to_owned())))
        .collect()
}

/// Wider than any text of this test, and higher than all of a conversation.
const LARGE: (u16, u16) = (700, 100);

/// The sizes that went up in the calls of one round, in order: the deposit, what tells where boxes are, and the request. What comes
/// behind that checks an answer, for everybody in as many rounds as coins say that nobody else knows.
type Shape = Vec<Vec<usize>>;

const CALLS: usize = 3;

/// Bytes of a session and of so many numbers of rounds, each behind its tag and length.
fn asking_bytes(round: u64, numbers: usize) -> usize {
    let number = (64 - round.leading_zeros() as usize).div_ceil(7);
    2 + 32 + numbers * (1 + number)
}

/// The same with the box.
fn deposit_bytes(round: u64) -> usize {
    asking_bytes(round, 1) + 3 + 304
}

/// The rounds of one who takes part, as far as calls of them begin with a deposit: by connection and round.
fn shapes(calls: &Calls) -> BTreeMap<(usize, u64), Shape> {
    let mut shapes = BTreeMap::<(usize, u64), Shape>::new();
    for ((connection, _), call) in calls {
        // Whoever was cut off, or held up by the machine, asks for the manifests that it missed, from one round to another.
        if let Some(round) = call.round().filter(|round| call.up != [asking_bytes(*round, 2)]) {
            let shape = shapes.entry((*connection, round)).or_default();
            if shape.len() < CALLS {
                shape.push(call.up.clone());
            }
        }
    }
    shapes.retain(|(_, round), shape| shape[0] == [deposit_bytes(*round)]);
    shapes
}

/// How much came back to whoever sent so much in a round, up to its request. A check behind that can be asked for in as many bytes
/// as what tells where boxes are, and how many manifests come back is a matter of how many were missed.
fn answers(calls: &Calls) -> BTreeMap<(u64, Vec<usize>), usize> {
    let (mut requested, mut answers) = (BTreeSet::new(), BTreeMap::new());
    for call in calls.values() {
        let Some(round) = call.round() else { continue };
        if requested.contains(&round) || call.up == [asking_bytes(round, 2)] {
            continue;
        }
        let before = [vec![deposit_bytes(round)], vec![asking_bytes(round, 1)]];
        if !before.contains(&call.up) {
            requested.insert(round);
        }
        if call.is_answered && call.down > 0 {
            answers.insert((round, call.up.clone()), call.down);
        }
    }
    answers
}

/// The sizes that went up in calls that were answered and are about no round: those that begin a session, and keys.
fn others(calls: &Calls) -> BTreeSet<Vec<usize>> {
    let other = calls.values().filter(|call| call.is_answered && call.round().is_none());
    other.map(|call| call.up.clone()).collect()
}

/// Whoever talks sends and receives what an idle person does in the same rounds: the same calls in the same order, and in each of
/// them as many bytes to and fro. (When they leave is shown exactly in simulated time, by the test `exact`: here the machine may
/// hold up somebody's call, so that it is missing.)
fn looks_like(who: &str, talks: &Calls, idle: &Calls) {
    let whole: BTreeMap<u64, Shape> = shapes(idle)
        .into_iter()
        .filter_map(|((_, round), shape)| (shape.len() == CALLS).then_some((round, shape)))
        .collect();
    let mut same = 0;
    for ((_, round), shape) in shapes(talks) {
        let Some(whole) = whole.get(&round) else { continue };
        let mut rest = whole.iter();
        assert!(
            shape.iter().all(|call| rest.any(|of_idle| of_idle == call)),
            "{who}, {round}: {shape:?} {whole:?}"
        );
        same += usize::from(shape == *whole);
    }
    assert!(same >= 20, "{who}: {same} of {} rounds", whole.len());
    let (talks_got, idle_got) = (answers(talks), answers(idle));
    let both = talks_got.iter().filter_map(|(asked, bytes)| Some((asked, bytes, idle_got.get(asked)?)));
    let mut compared = 0;
    for (asked, bytes, of_idle) in both {
        assert_eq!(bytes, of_idle, "{who}: {asked:?}");
        compared += 1;
    }
    assert!(compared > same, "{who}: {compared}");
    assert_eq!(others(talks), others(idle), "{who}");
}

#[test]
#[ignore = "a minute and a half: .ci/deep people"]
fn nobody_misses_a_text_whatever_befalls_lids_servers_networks_and_programs() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(lasting(data.path()));
    let (at, address) = (server.running.local_addr(), server.address());
    let relays = [(); 4].map(|()| Relay::start(at));
    let [by_alice, relay, by_carol, by_dave] = &relays;
    let [alice, bob, carol, dave] =
        [("alice", by_alice, 2), ("bob", relay, 2), ("carol", by_carol, 1), ("dave", by_dave, 2)]
            .map(|(name, relay, conversations)| Home::join(&relay.address(&address), name, conversations));
    // Dave has nobody to talk with.
    let idle = Program::start(&dave, &["run"]);
    idle.is_told("online at");
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let member = |name, home: &Home| format!("{name}={}", home.succeeds(&["identity"]).trim());
    let (b, c) = (member("bob", &bob), member("carol", &carol));
    let card = alice.succeeds(&["group", "create", "desk", &b, &c]);
    bob.succeeds_with(&["group", "join"], &card);
    carol.succeeds_with(&["group", "join"], &card);
    let mut alone = [Talk::of(&alice, "alice", "bob"), Talk::of(&bob, "bob", "alice")];
    let [mut a, mut b, mut c] =
        [(&alice, "alice"), (&bob, "bob"), (&carol, "carol")].map(|(home, me)| Talk::of(home, me, "desk"));
    let [of_alice, of_bob] = &mut alone;
    all_say(&mut [&mut [&mut a, &mut b, &mut c], &mut [of_alice, of_bob]], "Are you there?");

    // Carol is away for longer than the server remembers.
    c.ends();
    carol.succeeds(&["stop"]);
    let left = round(&alice);
    all_say(&mut [&mut [&mut a, &mut b]], "Carol is away.");
    b.says_much();
    a.hears(&b);
    assert!(round(&alice) > left + u64::from(RETAINED));
    c.opens();
    c.says("I am here again.");
    for talk in [&mut a, &mut b] {
        talk.hears(&c);
    }
    c.hears(&a);
    c.hears(&b);

    // The server restarts, with texts on their way, and others that are said meanwhile.
    a.says("Is the server there?");
    of_bob.says("Is it?");
    server.shutdown();
    for talk in [&mut a, &mut b, &mut c] {
        talk.program().is_told("connection lost");
        talk.says("The server is gone.");
    }
    let server = Server::start(Config { listen: at, ..lasting(data.path()) });
    for talk in [&mut a, &mut b, &mut c] {
        talk.program().is_told("connected again");
    }
    all_say(&mut [&mut [&mut a, &mut b, &mut c], &mut [of_alice, of_bob]], "The server is there again.");

    // Bob's network is cut, with texts on their way in both directions.
    a.says("Is the network there?");
    b.says_much();
    relay.cut();
    b.program().is_told("connection lost");
    for talk in [&mut a, &mut b, &mut c, of_alice, of_bob] {
        talk.says("Bob's network is gone.");
    }
    c.hears(&a);
    relay.mend();
    b.program().is_told("connected again");
    all_say(&mut [&mut [&mut a, &mut b, &mut c], &mut [of_alice, of_bob]], "It is there again.");

    // Bob's program is killed: one text is perhaps on its way, of the next the half is typed.
    b.says_much();
    b.program().input_bytes(b"Of this nobody hears, as its end was never ty");
    b.dies();
    a.says("Bob does not look.");
    c.hears(&a);
    if !b.was_taken() {
        b.said.pop();
    }
    b.opens();

    // Carol looks at a screen, which is killed: one text is perhaps on its way, of the next the half is typed.
    c.ends();
    let mut screen = Screen::open_with(&carol, LARGE.0, LARGE.1);
    screen.shows(a.said.last().unwrap());
    c.said.push("carol to desk: Does anybody hear the screen?".to_owned());
    screen.types("carol to desk: Does anybody hear the screen?\rOf this nobody hears, as its end was ne");
    screen.shows("as its end was ne");
    screen.dies();
    for talk in [&mut a, &mut b] {
        talk.says("Carol's screen is gone.");
    }
    if !c.was_taken() {
        c.said.pop();
    }
    b.hears(&a);
    let mut screen = Screen::open_with(&carol, LARGE.0, LARGE.1);
    for talk in [&mut a, &mut b] {
        screen.shows(talk.said.last().unwrap());
        talk.hears(&c);
    }
    let last = format!("✓✓ you:   {}", c.said.last().unwrap());
    screen.shows(&last);
    let on_screen = rows(&screen);
    for (who, said) in [("alice", &a.said), ("bob", &b.said), ("you", &c.said)] {
        let of_it = on_screen.iter().filter(|(from, _)| from == who).map(|(_, text)| text);
        assert_eq!(of_it.collect::<Vec<_>>(), said.iter().collect::<Vec<_>>(), "{who}");
    }
    // What was shown there is not shown again.
    c.shown = on_screen.into_iter().filter(|(from, _)| from != "you").collect();
    screen.types("/quit\r");
    assert_eq!(screen.ended(), Some(0));
    c.opens();
    all_say(&mut [&mut [&mut a, &mut b, &mut c], &mut [of_alice, of_bob]], "Good night.");
    // Nothing is said again after this.
    for talk in [&mut a, &mut b, &mut c, of_alice, of_bob] {
        let arrived = format!("arrived at {}: {}", talk.with, &talk.said.last().unwrap()[..20]);
        talk.program().is_told(&arrived);
    }
    for talk in [&mut a, &mut b, &mut c, of_alice, of_bob] {
        talk.ends();
    }
    let group = [&a, &b, &c];
    for one in group {
        for other in group.into_iter().filter(|other| other.me != one.me) {
            one.missed_nothing_of(other);
        }
        let others = group.into_iter().filter(|other| other.me != one.me);
        assert_eq!(one.shown.len(), others.map(|other| other.said.len()).sum::<usize>());
    }
    of_alice.missed_nothing_of(of_bob);
    of_bob.missed_nothing_of(of_alice);
    for home in [&alice, &bob, &carol] {
        home.is_renewed();
        assert_eq!(home.succeeds(&["read"]), "");
        home.succeeds(&["stop"]);
    }
    drop(idle);
    server.shutdown();

    let [of_alice, of_bob, of_carol, of_dave] = relays.each_ref().map(Relay::calls);
    for (who, calls) in [("alice", of_alice), ("bob", of_bob), ("carol", of_carol)] {
        looks_like(who, &calls, &of_dave);
    }
}
