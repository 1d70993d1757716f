//! A process that dies: what it has stored and sent until then lasts, and nothing of it happens after.
//!
//! Everything by which a participant reaches out of its process goes through here: the disk, the wire, long work. Death
//! closes all of them at one moment. Tasks of it that are still there run into the closed doors and end.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll};
use std::io;
use std::sync::{Arc, Mutex, Weak};

use sotto_participant::host::{ByteStream, Dial, Dialled, Disk, Host, Pending, StorageError, Work};
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::{Round, UnixMillis};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::machine::{Machine, Memory};
use crate::wire::Wire;

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Never,
    /// So many milliseconds after the world began.
    At(u64),
    /// In the write to the disk of this number, counted from 0, before it takes effect.
    BeforeSaving(u64),
    /// In the same, after it took effect and before anything that follows.
    AfterSaving(u64),
    /// In the write to the wire of this number, when so many of its bytes have left.
    Sending(u64, usize),
}

/// What becomes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) death: Death,
    /// Whether what it has sent and nobody has received yet is lost with it.
    pub(crate) lost: bool,
    /// From this write to the disk on, counted from 0, so many fail.
    pub(crate) fails: (u64, u64),
}

impl Fate {
    pub(crate) const NONE: Self = Self { death: Death::Never, lost: false, fails: (0, 0) };
}

/// What a process has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) saves: u64,
    /// Of them, those that failed.
    pub(crate) failed: u64,
    pub(crate) sends: u64,
    /// Requests that it has built.
    pub(crate) asked: u64,
}

type Stream = Mutex<Option<Box<dyn ByteStream>>>;

/// A process.
pub(crate) struct Process {
    machine: Arc<Machine>,
    disk: Memory,
    wire: Arc<Wire>,
    fate: Fate,
    dead: AtomicBool,
    died: watch::Sender<()>,
    saves: AtomicU64,
    failed: AtomicU64,
    sends: AtomicU64,
    asked: AtomicU64,
    streams: Mutex<Vec<Weak<Stream>>>,
    /// Random bytes of a deposit's size.
    noise: Mutex<Vec<[u8; DEPOSIT_BYTES]>>,
}

impl Process {
    pub(crate) fn new(
        machine: Arc<Machine>,
        disk: Memory,
        wire: Arc<Wire>,
        fate: Fate,
        began: Instant,
    ) -> Arc<Self> {
        let process = Arc::new(Self {
            machine,
            disk,
            wire,
            fate,
            dead: AtomicBool::new(false),
            died: watch::Sender::new(()),
            saves: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            sends: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            streams: Mutex::default(),
            noise: Mutex::default(),
        });
        if let Death::At(ms) = fate.death {
            let dying = Arc::clone(&process);
            tokio::spawn(async move {
                sleep_until(began + core::time::Duration::from_millis(ms)).await;
                dying.kill();
            });
        }
        process
    }

    pub(crate) fn kill(&self) {
        if self.dead.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.fate.lost {
            self.wire.cut();
        }
        // Whoever is at the other end receives what was sent, and then the end.
        for stream in self.streams.lock().unwrap().drain(..).filter_map(|stream| stream.upgrade()) {
            drop(stream.lock().unwrap().take());
        }
        self.died.send_replace(());
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(crate) async fn died(&self) {
        let mut died = self.died.subscribe();
        while !self.is_dead() {
            // The sender is part of this process.
            let _ = died.changed().await;
        }
    }

    pub(crate) fn done(&self) -> Done {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Done {
            saves: count(&self.saves),
            failed: count(&self.failed),
            sends: count(&self.sends),
            asked: count(&self.asked),
        }
    }

    pub(crate) fn noise(&self) -> Vec<[u8; DEPOSIT_BYTES]> {
        self.noise.lock().unwrap().clone()
    }
}

/// The process as its participant's machine, and as its disk.
#[derive(Clone)]
pub(crate) struct Mortal(pub(crate) Arc<Process>);

/// Ends the task in which the process died.
fn vanish() -> ! {
    // No panic that anybody is told of.
    std::panic::resume_unwind(Box::new("killed"))
}

impl Disk for Mortal {
    fn save(&self, snapshot: &[u8]) -> Result<(), StorageError> {
        let process = &self.0;
        if process.is_dead() {
            vanish();
        }
        let number = process.saves.fetch_add(1, Ordering::Relaxed);
        if process.fate.death == Death::BeforeSaving(number) {
            process.kill();
            vanish();
        }
        let (first, count) = process.fate.fails;
        if (first..first.saturating_add(count)).contains(&number) {
            process.failed.fetch_add(1, Ordering::Relaxed);
            // Of two complaints of a round that are the same one is told.
            let sentence = format!("the disk is full for write {number}");
            return Err(StorageError { code: "full", sentence });
        }
        process.disk.save(snapshot)?;
        if process.fate.death == Death::AfterSaving(number) {
            process.kill();
            vanish();
        }
        Ok(())
    }

    fn keep_directory(&self, directory: &[u8]) -> Result<(), StorageError> {
        self.0.disk.keep_directory(directory)
    }

    fn directory(&self) -> Option<Vec<u8>> {
        self.0.disk.directory()
    }

    fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<String, String> {
        self.0.disk.keep_proof(round, proof)
    }
}

impl Host for Mortal {
    fn unix_now(&self) -> UnixMillis {
        self.0.machine.unix_now()
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.0.machine.fill(bytes);
        if let Ok(noise) = <[u8; DEPOSIT_BYTES]>::try_from(&*bytes) {
            self.0.noise.lock().unwrap().push(noise);
        }
    }

    fn work(&self, kind: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()> {
        let process = Arc::clone(&self.0);
        let alive = move || {
            if !process.is_dead() {
                work();
                process.asked.fetch_add(u64::from(kind == Work::Query), Ordering::Relaxed);
            }
        };
        self.0.machine.work(kind, Box::new(alive))
    }
}

impl Dial for Mortal {
    fn dial(&self, authority: &str) -> Pending<io::Result<Dialled>> {
        if self.0.is_dead() {
            return Box::pin(core::future::pending());
        }
        let dialling = self.0.machine.dial(authority);
        let process = Arc::clone(&self.0);
        Box::pin(async move {
            let Dialled { stream, peer } = dialling.await?;
            let stream = Arc::new(Mutex::new((!process.is_dead()).then_some(stream)));
            process.streams.lock().unwrap().push(Arc::downgrade(&stream));
            Ok(Dialled { stream: Box::new(Socket { process, stream }), peer })
        })
    }
}

/// A connection of the process.
struct Socket {
    process: Arc<Process>,
    stream: Arc<Stream>,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.stream.lock().unwrap() {
            Some(stream) => Pin::new(stream).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let process = &self.process;
        let part = match process.fate.death {
            Death::Sending(number, part) if number == process.sends.load(Ordering::Relaxed) => Some(part),
            _ => None,
        };
        let bytes = &bytes[..part.unwrap_or(bytes.len()).min(bytes.len())];
        let written = match &mut *self.stream.lock().unwrap() {
            Some(stream) if !bytes.is_empty() => Pin::new(stream).poll_write(context, bytes),
            Some(_) => Poll::Ready(Ok(0)),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        if written.is_ready() {
            process.sends.fetch_add(1, Ordering::Relaxed);
            if part.is_some() {
                process.kill();
            }
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.stream.lock().unwrap() {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.stream.lock().unwrap() {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}
