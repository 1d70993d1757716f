//! Real `sotto` processes for tests, a real server, and a relay that notes their connections.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::calls::{Calls, Frames, Way};
use sotto_protocol::RoundMode;
use sottod::{Config, Limits, Running};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Nothing here takes so long unless it hangs.
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

/// Short rounds, with slack for slow disks, and the real engine, in its smallest form.
pub(crate) fn config(listen: SocketAddr) -> Config {
    Config {
        round_ms: 700,
        retrieve: 1,
        choices: 1,
        retained: 4,
        deposit_ms: 350,
        lookup_ms: 200,
        query_ms: 300,
        seed_segments: Some(2),
        ..Config::deadline(listen)
    }
}

/// Where many rounds have to pass and nothing is asked of their clock: each ends when all who are online are done with it, however
/// slow the machine is.
pub(crate) fn brisk(listen: SocketAddr) -> Config {
    Config {
        mode: RoundMode::ClosedLoop,
        round_ms: 60,
        deposit_ms: 50,
        lookup_ms: 60,
        query_ms: 120,
        limits: Limits { gather: Duration::from_millis(10), ..Limits::default() },
        ..config(listen)
    }
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A server with a runtime of its own.
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) running: Running,
}

impl Server {
    pub(crate) fn start(config: Config) -> Self {
        let runtime = Runtime::new().unwrap();
        let running = {
            let _inside = runtime.enter();
            sottod::start(mpir::sealpir(), config).unwrap()
        };
        Self { runtime, running }
    }

    pub(crate) fn address(&self) -> String {
        self.running.address().to_string()
    }

    pub(crate) fn shutdown(self) {
        self.runtime.block_on(self.running.shutdown()).unwrap();
    }
}

/// A person's state directory. Whatever is online with it is killed when it is dropped.
pub(crate) struct Home {
    path: PathBuf,
    /// A file that holds the passphrase.
    pub(crate) passphrase: Option<PathBuf>,
    _directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { path: directory.path().join("home"), passphrase: None, _directory: directory }
    }

    /// An account at a server.
    pub(crate) fn join(address: &str, name: &str, conversations: u8) -> Self {
        let home = Self::new();
        let conversations = conversations.to_string();
        home.succeeds(&["init", "--server", address, "--name", name, "--conversations", &conversations]);
        home
    }

    /// A file of the account.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sotto"));
        command.arg("--home").arg(&self.path).args(arguments).stdin(Stdio::null());
        command.env_remove("SOTTO_PASSPHRASE_FILE");
        if let Some(file) = &self.passphrase {
            command.env("SOTTO_PASSPHRASE_FILE", file);
        }
        command
    }

    pub(crate) fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        match child.stdin.take().unwrap().write_all(input.as_bytes()) {
            // One that refuses before it reads has ended already.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        child.wait_with_output().unwrap()
    }

    /// What a command prints that succeeds.
    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        self.succeeds_with(arguments, "")
    }

    pub(crate) fn succeeds_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Expects an exit code, nothing on standard output, and one line of error that contains `says`.
    pub(crate) fn fails(&self, arguments: &[&str], input: &str, code: i32, says: &str) {
        let output = self.output(arguments, input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.starts_with("error: ") && error.contains(says), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }

    /// Waits until keys of contacts are no more to be renewed.
    pub(crate) fn is_renewed(&self) {
        let renews = |talk: &serde_json::Value| talk["kind"] == "contact" && talk["keys"] != "hybrid";
        while self.json(&["contacts", "--json"]).iter().any(renews) {
            thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let printed = self.succeeds(arguments);
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Number of the process that is online.
    pub(crate) fn process(&self) -> Option<u64> {
        let output = self.command(&["status", "--json"]).output().ok()?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        status["online"]["process"].as_u64()
    }

    pub(crate) fn kill(&self) {
        if let Some(process) = self.process() {
            signal("-KILL", process);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn signal(signal: &str, process: u64) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// A running `sotto`, ended when it is dropped.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    printed: Receiver<String>,
    told: Receiver<String>,
}

impl Program {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let printed = lines(child.stdout.take().unwrap());
        let told = lines(child.stderr.take().unwrap());
        Self { child, input, printed, told }
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.input_bytes(format!("{text}\n").as_bytes());
    }

    pub(crate) fn input_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next line of standard output.
    pub(crate) fn hears(&self) -> String {
        self.printed.recv_timeout(LONGEST).unwrap()
    }

    /// The first line of standard error that contains this.
    pub(crate) fn is_told(&self, part: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.told.recv_timeout(LONGEST) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => before.push(line),
                Err(error) => panic!("'{part}' was not told ({error}); instead {before:?}"),
            }
        }
    }

    pub(crate) fn process(&self) -> u64 {
        self.child.id().into()
    }

    /// Kills the process, and gives what it wrote to standard error.
    pub(crate) fn killed(mut self) -> String {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.told.iter().collect::<Vec<_>>().join("\n")
    }

    /// Kills the process, and gives what it had printed.
    pub(crate) fn dies(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.printed.iter().collect()
    }

    pub(crate) fn interrupt(&self) {
        signal("-INT", self.child.id().into());
    }

    /// Ends the input, waits until the process is done, and gives its exit code and what it printed.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>) {
        drop(self.input.take());
        // Both end with the process.
        let printed = self.printed.iter().collect();
        self.told.iter().for_each(drop);
        (self.child.wait().unwrap().code(), printed)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// What an eavesdropper sees of the life of one client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Opened(usize),
    /// By the client, or as the relay was cut.
    Closed(usize),
}

#[derive(Default)]
struct Notes {
    seen: Mutex<Vec<Seen>>,
    more: Condvar,
}

impl Notes {
    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.more.notify_all();
    }
}

/// The connections that a relay carries.
#[derive(Default)]
struct Wires {
    is_cut: bool,
    open: Vec<TcpStream>,
}

/// A relay in front of a server that notes every connection, and can be cut. What goes through it without TLS is read.
pub(crate) struct Relay {
    port: u16,
    calls: Arc<Mutex<Calls>>,
    notes: Arc<Notes>,
    wires: Arc<Mutex<Wires>>,
}

impl Relay {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(loopback()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let notes = Arc::new(Notes::default());
        let of_relay = Arc::clone(&notes);
        let wires = Arc::<Mutex<Wires>>::default();
        let carried = Arc::clone(&wires);
        let calls = Arc::<Mutex<Calls>>::default();
        let read = Arc::clone(&calls);
        thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                of_relay.note(Seen::Opened(number));
                let Ok(server) = TcpStream::connect(server) else { continue };
                let mut wires = carried.lock().unwrap();
                if wires.is_cut {
                    continue;
                }
                wires.open.push(client.try_clone().unwrap());
                drop(wires);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let notes = Arc::clone(&of_relay);
                let [up, down] = [Arc::clone(&read), Arc::clone(&read)];
                thread::spawn(move || {
                    copy(from, to, Frames::of(number, Way::Up), &up);
                    notes.note(Seen::Closed(number));
                });
                thread::spawn(move || copy(server, client, Frames::of(number, Way::Down), &down));
            }
        });
        Self { port, calls, notes, wires }
    }

    /// Ends all connections, and lets none come about until it is mended.
    pub(crate) fn cut(&self) {
        let mut wires = self.wires.lock().unwrap();
        wires.is_cut = true;
        for client in wires.open.drain(..) {
            // It may have ended by itself.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.wires.lock().unwrap().is_cut = false;
    }

    /// The server's address by way of this relay.
    pub(crate) fn address(&self, server: &str) -> String {
        let (scheme, rest) = server.split_once("://").unwrap();
        format!("{scheme}://127.0.0.1:{}/{}", self.port, rest.split_once('/').unwrap().1)
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Calls {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.notes.seen.lock().unwrap().clone()
    }

    /// Waits until so much was seen.
    pub(crate) fn sees(&self, count: usize) -> Vec<Seen> {
        let seen = self.notes.seen.lock().unwrap();
        let until = Instant::now() + LONGEST;
        let less = |seen: &mut Vec<Seen>| seen.len() < count && Instant::now() < until;
        let (seen, _) = self.notes.more.wait_timeout_while(seen, LONGEST, less).unwrap();
        assert!(seen.len() >= count, "{seen:?}");
        seen.clone()
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, mut frames: Frames, calls: &Mutex<Calls>) {
    let mut bytes = vec![0; 1 << 16];
    // However it ends, it has ended.
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        frames.take(&bytes[..length], &mut calls.lock().unwrap());
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
