//! The screen on a terminal, as it is: a real `sotto screen`, a pseudo-terminal, and what a terminal makes of its output.

use core::num::NonZeroU16;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::programs::{Home, LONGEST, Program, Server, config, loopback, signal};

/// A `sotto screen` on a terminal of its own.
struct Screen {
    child: Child,
    terminal: File,
    /// What it has written.
    written: Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

impl Screen {
    fn open(home: &Home) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(theirs).unwrap();
        let screen = home.command(&["screen"]);
        // A session of its own, of which this is the terminal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(screen.get_program()).args(screen.get_args());
        command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let terminal = File::from(ours);
        resize(&terminal, 80, 24);
        let child = command.spawn().unwrap();
        let mut reading = terminal.try_clone().unwrap();
        let (sender, written) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reading.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, terminal, written, parser: vt100::Parser::new(cells(24), cells(80), 0) }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.parser.screen_mut().set_size(cells(height), cells(width));
        resize(&self.terminal, width, height);
    }

    /// Waits until this is on the screen.
    fn shows(&mut self, part: &str) {
        let until = Instant::now() + LONGEST;
        while !self.parser.screen().contents().contains(part) {
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("'{part}' is not there ({error}):\n{}", self.parser.screen().contents()),
            }
        }
    }

    /// Waits until it has ended, with which code; the terminal must be as it was before.
    fn ended(mut self) -> Option<i32> {
        let status = self.child.wait().unwrap();
        while let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(300)) {
            self.parser.process(&bytes);
        }
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
        status.code()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn resize(terminal: &File, width: u16, height: u16) {
    let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

#[test]
fn a_screen_shows_what_is_said_gives_the_terminal_back_and_takes_nobody_offline() {
    let server = Server::start(config(loopback()));
    let [alice, bob] = ["alice", "bob"].map(|name| Home::join(&server.address(), name, 1));
    let invitation = alice.succeeds(&["invite", "bob"]);
    bob.succeeds_with(&["accept", "alice"], &invitation);
    let mut at_bob = Program::start(&bob, &["chat", "alice"]);

    let mut screen = Screen::open(&alice);
    screen.shows("> ");
    screen.shows("bob");
    screen.types("Are you thera\u{7f}e?\r");
    assert_eq!(at_bob.hears(), "alice: Are you there?");
    screen.shows("✓✓ you: Are you there?");
    at_bob.says("I am \u{202e}here.");
    // The mark in its place is none of the signs that this terminal keeps.
    screen.shows("bob: I am here.");
    assert!(!screen.parser.screen().contents().contains('\u{202e}'));
    // It was drawn, and the participant knows.
    let unread = || alice.json(&["contacts", "--json"])[0]["unread"].as_u64().unwrap();
    let until = Instant::now() + LONGEST;
    while unread() > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(unread(), 0);
    assert_eq!(alice.succeeds(&["read"]), "");
    // A key is read that comes together with a change of size, though none comes after it.
    for keys in 1..=20 {
        screen.resize(40 + keys, 12);
        screen.types("k");
        screen.shows(&"k".repeat(keys.into()));
    }
    screen.types(&"\u{7f}".repeat(20));
    screen.resize(40, 12);
    screen.types("/help\r");
    screen.shows("[Esc closes]");
    screen.types("\u{3}");
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_some(), "nobody has gone offline");

    let screen = {
        let mut screen = Screen::open(&alice);
        screen.shows("round ");
        screen
    };
    // The program itself is below setsid.
    let pid = screen.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    signal("-TERM", children.split_whitespace().next().map_or(pid.into(), |child| child.parse().unwrap()));
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_some());

    // What comes while no screen is there waits for the next. The participant is started by it, and its end told.
    at_bob.says("While you were away.");
    alice.kill();
    let mut screen = Screen::open(&alice);
    screen.shows("starting 'sotto run'");
    screen.shows("While you were away.");
    // And what was said before is there again.
    screen.shows("✓✓ you: Are you there?");
    screen.shows("bob: I am here.");
    alice.kill();
    screen.shows("OFFLINE");
    screen.types("/quit\r");
    assert_eq!(screen.ended(), Some(0));
    assert!(alice.process().is_none(), "nobody has come online");
    server.shutdown();
}
