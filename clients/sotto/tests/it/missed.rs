//! What befalls people: a lid is closed, the server restarts, a network is gone, a program is killed. Nobody misses anything by
//! that: every text is shown once to everyone whom it is for, in the order in which it was said.

use std::path::Path;

use crate::programs::{Home, Program, Relay, Server, config, loopback};
use sottod::Config;

/// Rounds that the server can still be asked for.
const RETAINED: u8 = 4;

/// Shorter rounds than of other tests, as many of them pass here.
fn short(data: &Path) -> Config {
    Config {
        data: Some(data.to_owned()),
        retained: RETAINED,
        retrieve: 4,
        choices: 3,
        round_ms: 400,
        deposit_ms: 150,
        lookup_ms: 120,
        query_ms: 220,
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

#[test]
fn nobody_misses_a_text_whatever_befalls_lids_servers_networks_and_programs() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(short(data.path()));
    let (at, address) = (server.running.local_addr(), server.address());
    let relay = Relay::start(at);
    let by_relay = relay.address(&address);
    let [alice, bob, carol] = [("alice", &address, 2), ("bob", &by_relay, 2), ("carol", &address, 1)]
        .map(|(name, address, conversations)| Home::join(address, name, conversations));
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
    let server = Server::start(Config { listen: at, ..short(data.path()) });
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
        assert_eq!(home.succeeds(&["read"]), "");
        home.succeeds(&["stop"]);
    }
    server.shutdown();
}
