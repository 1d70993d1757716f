//! Ending a server whose disk does not answer.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mpir::noop;
use sotto_log::testing::Simulated;
use sotto_log::{Disk, DiskFile};
use tokio::time::{sleep, timeout};

use super::start_on;
use crate::config::Config;
use crate::data::DataDirectory;
use crate::events::ServerEvent;
use crate::rounds::RunError;

/// A disk that stores nothing while it hangs.
#[derive(Clone, Default)]
struct Hanging {
    disk: Simulated,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    hangs: bool,
    /// Somebody waits for it.
    waited_for: bool,
}

struct HangingFile {
    disk: Hanging,
    file: Box<dyn DiskFile>,
}

impl Hanging {
    fn hang(&self, hangs: bool) {
        self.state.0.lock().unwrap().hangs = hangs;
        self.state.1.notify_all();
    }

    fn is_waited_for(&self) -> bool {
        self.state.0.lock().unwrap().waited_for
    }

    fn wait(&self) {
        let mut state = self.state.0.lock().unwrap();
        while state.hangs {
            state.waited_for = true;
            state = self.state.1.wait(state).unwrap();
        }
    }
}

impl Disk for Hanging {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.open(name, create)?;
        Ok(Box::new(HangingFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.wait();
        self.disk.sync_names()
    }
}

impl DiskFile for HangingFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.wait();
        self.file.sync()
    }
}

#[tokio::test]
async fn a_server_whose_disk_hangs_ends_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Hanging::default();
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    (config.allow_no_privacy, config.round_ms) = (true, 300);
    (config.deposit_ms, config.lookup_ms, config.query_ms) = (0, 0, 0);
    config.seed_segments = Some(1);
    config.limits.drain = Duration::from_millis(100);
    let data = DataDirectory::open(directory.path(), None).unwrap().on_disk(Arc::new(disk.clone()));
    let running = start_on(noop(), config, Some(data)).unwrap();
    let mut events = running.events();
    while !matches!(events.recv().await.unwrap(), ServerEvent::RoundSealed { .. }) {}
    disk.hang(true);
    while !disk.is_waited_for() {
        sleep(Duration::from_millis(10)).await;
    }
    let ended = timeout(Duration::from_secs(60), running.shutdown()).await;
    assert!(matches!(ended, Ok(Err(RunError::Hangs))), "{ended:?}");
    disk.hang(false);
}
