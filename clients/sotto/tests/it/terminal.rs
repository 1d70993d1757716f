//! A command on a pseudo-terminal, mostly `sotto screen`, and what a terminal makes of its output.

use core::num::NonZeroU16;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::programs::{Home, LONGEST, signal};

/// A command on a terminal of its own.
pub(crate) struct Screen {
    child: Child,
    terminal: File,
    /// What it has written.
    written: Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

impl Screen {
    pub(crate) fn open(home: &Home) -> Self {
        Self::open_with(home, 80, 24)
    }

    /// On a terminal of this size.
    pub(crate) fn open_with(home: &Home, width: u16, height: u16) -> Self {
        Self::run(home, &["screen"], width, height)
    }

    /// Of another command.
    pub(crate) fn run(home: &Home, arguments: &[&str], width: u16, height: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(theirs).unwrap();
        let program = home.command(arguments);
        // A session of its own, of which this is the terminal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(program.get_program()).args(program.get_args());
        command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let terminal = File::from(ours);
        resize(&terminal, width, height);
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
        Self { child, terminal, written, parser: vt100::Parser::new(cells(height), cells(width), 0) }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.parser.screen_mut().set_size(cells(height), cells(width));
        resize(&self.terminal, width, height);
    }

    /// Waits until this is on the screen.
    pub(crate) fn shows(&mut self, part: &str) {
        let until = Instant::now() + LONGEST;
        while !self.parser.screen().contents().contains(part) {
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("'{part}' is not there ({error}):\n{}", self.parser.screen().contents()),
            }
        }
    }

    /// Takes in what is written for so long.
    pub(crate) fn reads(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(bytes) = self.written.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.parser.process(&bytes);
        }
    }

    /// All that is on it.
    pub(crate) fn contents(&self) -> String {
        self.parser.screen().contents()
    }

    /// Number of the program itself, which is below setsid.
    pub(crate) fn process(&self) -> u64 {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next().map_or(pid.into(), |child| child.parse().unwrap())
    }

    /// Kills the program in the midst of what it does. The terminal is left as it is then.
    pub(crate) fn dies(mut self) {
        signal("-KILL", self.process());
        self.child.wait().unwrap();
    }

    /// Waits until it has ended, with which code; the terminal must be as it was before.
    pub(crate) fn ended(mut self) -> Option<i32> {
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
