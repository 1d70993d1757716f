//! Real `sotto` processes against a real server with the real engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use pir_core::SealPir;
use sotto_wire::Token;
use sottod::{Config, Registration};

/// Nothing here takes so long unless it hangs.
const LONGEST: Duration = Duration::from_secs(50);

fn sotto(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sotto"));
    command.arg("--home").arg(home).args(arguments);
    command
}

fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What becomes of a command that is told this: its exit code and its errors.
fn with_input(mut command: Command, input: &str) -> (Option<i32>, String) {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A running `sotto chat`, ended when it is dropped.
struct Chat {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Chat {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = sotto(home, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (input, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, input, lines }
    }

    fn say(&mut self, text: &str) {
        writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
    }

    fn hears(&self) -> String {
        self.lines.recv_timeout(LONGEST).unwrap()
    }

    /// Ends the input and waits until the process is done.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        for _ in 0..LONGEST.as_millis() / 50 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(listen: SocketAddr) -> Config {
    Config {
        round_ms: 1000,
        retrieve: 1,
        choices: 1,
        retained: 4,
        deposit_ms: 100,
        lookup_ms: 250,
        query_ms: 400,
        seed_segments: Some(2),
        ..Config::deadline(listen)
    }
}

#[test]
fn two_processes_talk_both_ways_and_leave() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let homes = tempfile::tempdir().unwrap();
    let data = homes.path().join("server");
    let server = {
        let _inside = runtime.enter();
        let config = Config {
            registration: Registration::Token,
            data: Some(data.clone()),
            ..config(([127, 0, 0, 1], 0).into())
        };
        sottod::start::<SealPir>(config).unwrap()
    };
    let (alice, bob) = (homes.path().join("alice"), homes.path().join("bob"));
    let address = server.address().to_string();
    let tokens = [sottod::issue_token(&data).unwrap(), sottod::issue_token(&data).unwrap()];
    for (home, name, token) in [(&alice, "alice", &tokens[0]), (&bob, "bob", &tokens[1])] {
        let init = ["init", "--server", &address, "--name", name, "--conversations", "1"];
        let (code, error) = with_input(sotto(home, &init), "");
        assert_eq!(code, Some(2), "{error}");
        let forged = Token::new(token.bytes().map(|byte| byte ^ 1)).to_string();
        let (code, error) = with_input(sotto(home, &init), &forged);
        assert_eq!(code, Some(3), "{error}");
        let (code, error) = with_input(sotto(home, &init), &token.to_string());
        assert_eq!(code, Some(0), "{error}");
    }
    let init = ["init", "--server", &address, "--name", "carol"];
    let (code, error) = with_input(sotto(&homes.path().join("carol"), &init), &tokens[0].to_string());
    assert!(code == Some(3) && error.contains("ask the server's operator"), "{error}");
    let invitation = output(sotto(&alice, &["invite", "bob"]));
    let mut accept = sotto(&bob, &["accept", "alice"]).stdin(Stdio::piped()).spawn().unwrap();
    accept.stdin.take().unwrap().write_all(invitation.as_bytes()).unwrap();
    assert!(accept.wait().unwrap().success());

    let mut at_alice = Chat::start(&alice, &["chat", "bob"]);
    let mut at_bob = Chat::start(&bob, &["chat", "alice", "--json", "--stay"]);
    at_alice.say("Are you there?");
    let heard: serde_json::Value = serde_json::from_str(&at_bob.hears()).unwrap();
    assert_eq!((&heard["from"], &heard["text"]), (&"alice".into(), &"Are you there?".into()));
    at_bob.input.as_mut().unwrap().write_all(b"\xff\xfe\n").unwrap();
    at_bob.say("I am here.");
    assert_eq!(at_alice.hears(), "bob: I am here.");
    at_alice.say(" \t ");
    at_alice.say("Good.");
    assert_eq!(at_alice.end(), Some(0), "all texts arrived, so the chat ends by itself");
    let heard: serde_json::Value = serde_json::from_str(&at_bob.hears()).unwrap();
    assert_eq!(heard["text"], "Good.");

    interrupt(&at_bob.child);
    assert_eq!(at_bob.end(), Some(1), "the line of bytes was not sent");
    runtime.block_on(server.shutdown()).unwrap();
}

#[test]
fn a_server_that_comes_back_with_another_key_ends_the_chat() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let start = |listen| {
        let _inside = runtime.enter();
        sottod::start::<SealPir>(config(listen))
    };
    let server = start(([127, 0, 0, 1], 0).into()).unwrap();
    let (home, address) = (tempfile::tempdir().unwrap(), server.address().to_string());
    let home = home.path();
    output(sotto(home, &["init", "--server", &address, "--name", "alice", "--conversations", "1"]));
    output(sotto(home, &["invite", "bob"]));
    let mut command = sotto(home, &["chat", "bob", "--stay"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("bob has not answered yet") {
        assert!(error.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    assert!(lines.contains("rounds of 1 s; your turn with bob comes in every round"), "{lines}");
    output(sotto(home, &["contacts"]));

    let port = address.split([':', '/']).nth(4).unwrap().parse().unwrap();
    runtime.block_on(server.shutdown()).unwrap();
    let other = start(([127, 0, 0, 1], port).into()).unwrap();
    error.read_to_string(&mut lines).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{lines}");
    assert!(lines.lines().last().unwrap().starts_with("error: the server does not hold the key"), "{lines}");
    runtime.block_on(other.shutdown()).unwrap();
}

/// Ctrl-C, as a terminal sends it.
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}
