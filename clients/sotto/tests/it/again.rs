//! Programs that die with a text in their hands: whoever is shown it later is told that it may have been seen.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::programs::{Home, LONGEST, Program, Server, brisk, loopback};

/// A program that speaks to `sotto run`, as docs/SOCKET.md tells, and shows nothing.
struct Bare(UnixStream);

impl Bare {
    fn come(home: &Home, request: &Value) -> Self {
        let mut bare = Self(UnixStream::connect(home.file("socket")).unwrap());
        bare.0.set_read_timeout(Some(LONGEST)).unwrap();
        let version = bare.next()["sotto"].clone();
        bare.say(&json!({"sotto": version, "process": 1}));
        bare.say(request);
        bare
    }

    fn say(&mut self, value: &Value) {
        let bytes = value.to_string().into_bytes();
        self.0.write_all(&u32::try_from(bytes.len()).unwrap().to_le_bytes()).unwrap();
        self.0.write_all(&bytes).unwrap();
    }

    fn next(&mut self) -> Value {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// The next text, and whether it is said to have been shown before, perhaps.
    fn hears(&mut self) -> (Value, bool) {
        loop {
            let text = self.next()["told"]["text"].take();
            if !text.is_null() {
                let again = text["again"].as_bool().unwrap();
                return (text, again);
            }
        }
    }
}

fn read(home: &Home) -> Vec<(String, bool)> {
    let texts = home.json(&["read", "--json"]);
    texts.iter().map(|text| (text["text"].as_str().unwrap().to_owned(), text["again"] == true)).collect()
}

#[test]
fn nobody_is_shown_a_text_twice_without_being_told() {
    let server = Server::start(brisk(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 2));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let say = |text: &str| alice.succeeds_with(&["send", "bob"], text);
    let attach = json!({"attach": {"conversation": "alice", "verbose": false}});

    // One that dies with a text, and then the participant, too.
    let mut chat = Bare::come(&bob, &attach);
    say("one");
    assert!(!chat.hears().1, "it was shown to nobody before");
    drop(chat);
    bob.kill();
    // Whoever cannot print it is none who has shown it.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert!(!bob.command(&["read"]).stdout(full).output().unwrap().status.success());
    assert_eq!(read(&bob), [("one".to_owned(), true)]);
    assert_eq!(read(&bob), []);

    // What is shown in two places at once is not shown twice.
    let online = Program::start(&bob, &["run"]);
    online.is_told("online");
    let mut chat = Bare::come(&bob, &attach);
    say("two");
    chat.hears();
    assert_eq!(read(&bob), [("two".to_owned(), false)]);

    // While the participant stays.
    say("three");
    chat.hears();
    drop(chat);
    let chat = Program::start(&bob, &["chat", "alice"]);
    assert_eq!(chat.hears(), "alice [perhaps shown before]: three");
    assert_eq!(chat.end(), (Some(0), Vec::new()));
    assert_eq!(read(&bob), []);

    // One who only has it takes nothing of that away.
    let mut screen = Bare::come(&bob, &json!("watch"));
    let mut chat = Bare::come(&bob, &attach);
    say("three and a half");
    assert!(!chat.hears().1 && !screen.hears().1);
    drop(chat);
    assert_eq!(read(&bob), [("three and a half".to_owned(), true)]);
    while screen.next()["told"]["seen"].is_null() {}
    drop(screen);

    // One who shows texts later than they come says when.
    let mut screen = Bare::come(&bob, &json!("watch"));
    say("four");
    screen.hears();
    drop(screen);
    let mut screen = Bare::come(&bob, &json!("watch"));
    let (text, again) = screen.hears();
    assert!(text["text"] == "four" && !again, "{text}");
    screen.say(&json!({"account": {"offer": {"id": text["id"], "number": text["number"]}}}));
    while screen.next()["reply"]["offered"]["again"] != json!([]) {}
    drop((screen, online));
    bob.kill();
    let heard = bob.json(&["listen", "--json", "--count", "1"]);
    let texts: Vec<_> = heard.iter().filter(|told| told["event"] == "text").collect();
    assert!(texts.len() == 1 && texts[0]["text"] == "four" && texts[0]["again"] == true, "{heard:?}");
    assert_eq!(read(&bob), []);
    server.shutdown();
}
