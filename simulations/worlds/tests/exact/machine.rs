//! A participant's machine: work takes as long as the test says, randomness comes from a seed, the disk is in memory, and
//! everything that leaves or comes is on a tape.

use core::pin::Pin;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sotto_participant::host::{Dial, Dialled, Disk, Host, Pending, StorageError, Work};
use sotto_protocol::{Round, UnixMillis};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// What the clock shows when a world begins, ms since 1970.
pub(crate) const BASE_MS: u64 = 1_800_000_000_000;

/// How long work takes.
pub(crate) type Pace = fn(Work) -> Duration;

/// What an eavesdropper notes at one moment: when, on which connection, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Since the world began.
    pub(crate) at: Duration,
    pub(crate) connection: usize,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Opened,
    /// So many bytes to the server.
    Up(usize),
    /// So many bytes from it.
    Down(usize),
    Closed,
}

/// Everything of one machine.
pub(crate) struct Tape {
    began: Instant,
    lines: Mutex<(Vec<Line>, usize)>,
}

impl Tape {
    pub(crate) fn new(began: Instant) -> Arc<Self> {
        Arc::new(Self { began, lines: Mutex::default() })
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().0.clone()
    }

    fn note(&self, connection: usize, what: What) {
        let at = self.began.elapsed();
        let lines = &mut self.lines.lock().unwrap().0;
        // How bytes of one moment are cut into writes is the kernel's affair.
        let same = |line: &&mut Line| {
            line.at == at
                && line.connection == connection
                && core::mem::discriminant(&line.what) == core::mem::discriminant(&what)
        };
        match (lines.iter_mut().rev().take_while(|line| line.at == at).find(same), what) {
            (Some(Line { what: What::Up(bytes), .. }), What::Up(more))
            | (Some(Line { what: What::Down(bytes), .. }), What::Down(more)) => *bytes += more,
            _ => lines.push(Line { at, connection, what }),
        }
    }
}

/// A machine.
pub(crate) struct Machine {
    pub(crate) tape: Arc<Tape>,
    server: mpsc::UnboundedSender<DuplexStream>,
    /// Who answers under an authority, if it is not the server.
    others: Mutex<BTreeMap<String, mpsc::UnboundedSender<DuplexStream>>>,
    /// Which authorities were dialled, and when.
    dialled: Mutex<Vec<(Duration, String)>>,
    rng: Mutex<ChaCha20Rng>,
    /// What was drawn.
    drawn: Mutex<Vec<[u8; 32]>>,
    pace: Pace,
    /// Look-ups that are under way, and the most that ever were.
    searching: Arc<[AtomicUsize; 2]>,
    /// By how many milliseconds the clock is wrong.
    wrong_ms: AtomicI64,
    /// Who is at the other end of its connections.
    peer: IpAddr,
}

impl Machine {
    pub(crate) fn new(
        server: mpsc::UnboundedSender<DuplexStream>,
        began: Instant,
        seed: [u8; 32],
        pace: Pace,
    ) -> Arc<Self> {
        Self::at(Tape::new(began), server, seed, pace, [127, 0, 0, 1].into())
    }

    /// A machine with this tape, whose server is at some address.
    pub(crate) fn at(
        tape: Arc<Tape>,
        server: mpsc::UnboundedSender<DuplexStream>,
        seed: [u8; 32],
        pace: Pace,
        peer: IpAddr,
    ) -> Arc<Self> {
        let rng = Mutex::new(ChaCha20Rng::from_seed(seed));
        let wrong_ms = AtomicI64::new(0);
        let (others, dialled) = (Mutex::default(), Mutex::default());
        let (drawn, searching) = (Mutex::default(), Arc::default());
        Arc::new(Self { tape, server, others, dialled, rng, drawn, pace, searching, wrong_ms, peer })
    }

    /// From now on the clock is wrong by so many milliseconds.
    pub(crate) fn set_clock(&self, wrong_ms: i64) {
        self.wrong_ms.store(wrong_ms, Ordering::Relaxed);
    }

    /// From now on somebody else answers under this authority; nobody if they have gone.
    pub(crate) fn lead(&self, authority: &str, to: mpsc::UnboundedSender<DuplexStream>) {
        self.others.lock().unwrap().insert(authority.to_owned(), to);
    }

    /// Which authorities were dialled, and when since the world began.
    pub(crate) fn dialled(&self) -> Vec<(Duration, String)> {
        self.dialled.lock().unwrap().clone()
    }

    /// The most look-ups that were under way at once.
    pub(crate) fn most_searches(&self) -> usize {
        self.searching[1].load(Ordering::Relaxed)
    }

    /// Everything of 32 bytes that was drawn.
    pub(crate) fn drawn(&self) -> Vec<[u8; 32]> {
        self.drawn.lock().unwrap().clone()
    }
}

impl Host for Machine {
    fn unix_now(&self) -> UnixMillis {
        let right = BASE_MS + self.tape.began.elapsed().as_millis() as u64;
        UnixMillis(right.saturating_add_signed(self.wrong_ms.load(Ordering::Relaxed)))
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.rng.lock().unwrap().fill_bytes(bytes);
        if let Ok(drawn) = <[u8; 32]>::try_from(&*bytes) {
            self.drawn.lock().unwrap().push(drawn);
        }
    }

    fn work(&self, kind: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()> {
        let duration = (self.pace)(kind);
        let searching = (kind == Work::LookUp).then(|| Arc::clone(&self.searching));
        if let Some([now, most]) = searching.as_deref() {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        // As with the operating system, what has begun goes on though nobody waits for it any more.
        let running = tokio::spawn(async move {
            sleep(duration).await;
            work();
            if let Some([now, _]) = searching.as_deref() {
                now.fetch_sub(1, Ordering::Relaxed);
            }
        });
        Box::pin(async move { drop(running.await) })
    }
}

impl Dial for Machine {
    fn dial(&self, authority: &str) -> Pending<io::Result<Dialled>> {
        let (near, far) = duplex(1 << 20);
        self.dialled.lock().unwrap().push((self.tape.began.elapsed(), authority.to_owned()));
        let sent = match self.others.lock().unwrap().get(authority) {
            Some(other) => other.send(far),
            None => self.server.send(far),
        };
        let connection = {
            let mut lines = self.tape.lines.lock().unwrap();
            lines.1 += 1;
            lines.1
        };
        self.tape.note(connection, What::Opened);
        let stream = Box::new(Recorded { inner: near, tape: Arc::clone(&self.tape), connection });
        let peer = self.peer;
        Box::pin(async move {
            sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Dialled { stream, peer })
        })
    }
}

/// A connection that is on the tape.
struct Recorded {
    inner: DuplexStream,
    tape: Arc<Tape>,
    connection: usize,
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.tape.note(self.connection, What::Down(read));
        }
        polled
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.tape.note(self.connection, What::Up(written));
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.tape.note(self.connection, What::Closed);
    }
}

/// A disk in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    snapshots: Vec<(Duration, Vec<u8>)>,
    proofs: Vec<(Round, Vec<u8>)>,
    directory: Option<Vec<u8>>,
    full: bool,
    began: Option<Instant>,
}

impl Memory {
    pub(crate) fn new(began: Instant) -> Self {
        Self(Arc::new(Mutex::new(Kept { began: Some(began), ..Kept::default() })))
    }

    /// From now on nothing can be stored, or everything again.
    pub(crate) fn fill(&self, full: bool) {
        self.0.lock().unwrap().full = full;
    }

    /// What was stored last.
    pub(crate) fn newest(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().snapshots.last().map(|(_, snapshot)| snapshot.clone())
    }

    /// Everything that was stored, and when.
    pub(crate) fn snapshots(&self) -> Vec<(Duration, Vec<u8>)> {
        self.0.lock().unwrap().snapshots.clone()
    }
}

impl Memory {
    /// Proofs that were kept.
    pub(crate) fn proofs(&self) -> Vec<(Round, Vec<u8>)> {
        self.0.lock().unwrap().proofs.clone()
    }
}

impl Disk for Memory {
    fn save(&self, snapshot: &[u8]) -> Result<(), StorageError> {
        let mut kept = self.0.lock().unwrap();
        if kept.full {
            return Err(StorageError { code: "full", sentence: "the disk is full".to_owned() });
        }
        let at = kept.began.map_or(Duration::ZERO, |began| began.elapsed());
        kept.snapshots.push((at, snapshot.to_vec()));
        Ok(())
    }

    fn keep_directory(&self, directory: &[u8]) -> Result<(), StorageError> {
        self.0.lock().unwrap().directory = Some(directory.to_vec());
        Ok(())
    }

    fn directory(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().directory.clone()
    }

    fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<String, String> {
        self.0.lock().unwrap().proofs.push((round, proof.to_vec()));
        Ok(format!("proof-{round}"))
    }
}
