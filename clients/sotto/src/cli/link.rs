//! The way of commands to the running participant, which they start if none runs and never end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sotto_protocol::client::Client;
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::failure::Failure;
use super::print::status;
use super::state;
use crate::daemon::frame::{AWAY, Frames, HERE, write};
use crate::daemon::message::{Account, Greeting, Message, Reply, Request, VERSION};
use crate::daemon::{ONLINE, connect, process, quiet};
use crate::device::attached::Attached;
use crate::{Passphrase, Store, StoreError};
use sotto_participant::host::ByteStream;

/// What a detached process says of its end at most.
const COMPLAINT_MAX: u64 = 4096;

/// A connection to the running participant, on this machine or on the one that this device is paired with.
pub(crate) struct Link {
    frames: Frames<ReadHalf<Box<dyn ByteStream>>>,
    output: WriteHalf<Box<dyn ByteStream>>,
    step: usize,
}

/// Why there is no connection, though somebody is there.
enum Met {
    /// It ends.
    Gone,
    /// It says nothing.
    Silent,
    /// It is of another version; its process.
    Other(u32),
}

impl Link {
    /// Reaches the participant, if one runs.
    ///
    /// # Errors
    /// If it is of another version, or what is there is not the person's own.
    pub(crate) async fn reach(directory: &Path) -> Result<Option<Self>, Failure> {
        if !directory.exists() {
            return Ok(None);
        }
        if let Some(attached) = Attached::of(directory)? {
            let stream = Box::new(attached.connect().await?);
            return match Self::meet(stream, AWAY).await {
                Ok(link) => Ok(Some(link)),
                Err(Met::Gone) => Err(attached.refused()),
                Err(Met::Silent) => Err(Failure::other(
                    "the 'sotto run' that this device is paired with does not answer: it stands still, or its machine is too busy",
                )),
                Err(Met::Other(_)) => Err(Failure::state(
                    "the 'sotto run' that this device is paired with is of another version; update one of the two",
                )),
            };
        }
        let Some(stream) = connect(directory).await? else { return Ok(None) };
        let process = process(&stream);
        match Self::meet(Box::new(stream), HERE).await {
            Ok(link) => Ok(Some(link)),
            // One that ends has let go of the state, or is not there for a second one.
            Err(Met::Gone) => match Store::hold(directory) {
                Err(StoreError::Locked(_)) if connect(directory).await?.is_some() => Err(Failure::other(
                    "you are online, but 'sotto run' takes in no other program just now: end some of those that are attached, or try again",
                )
                .coded("too-many-programs")),
                _ => Ok(None),
            },
            Err(Met::Silent) => {
                let process = process.map_or("PROCESS".to_owned(), |process| process.to_string());
                Err(Failure::other(format!(
                    "'sotto run' is there and does not answer: it was stopped, or the machine is too busy; 'kill -CONT {process}' lets it \
                     go on, 'kill -KILL {process}' ends it"
                )))
            }
            Err(Met::Other(process)) => Err(Failure::state(format!(
                "the 'sotto run' that is online is of another version; end it with Ctrl-C or 'kill {process}', and come \
                 online again"
            ))),
        }
    }

    async fn meet(stream: Box<dyn ByteStream>, step: usize) -> Result<Self, Met> {
        let (input, mut output) = split(stream);
        let mut frames = Frames::new(input, step);
        // One that ends meanwhile is none.
        write(&mut output, &Greeting::ours(), step).await.map_err(|_| Met::Gone)?;
        let Ok(greeting) = timeout(Greeting::WITHIN, frames.next::<Greeting>()).await else {
            return Err(Met::Silent);
        };
        match greeting {
            Ok(Some(Greeting { sotto: VERSION, .. })) => Ok(Self { frames, output, step }),
            Ok(Some(Greeting { process, .. })) => Err(Met::Other(process)),
            Ok(None) | Err(_) => Err(Met::Gone),
        }
    }

    /// Reaches the participant, and comes online if none runs.
    ///
    /// # Errors
    /// Why that cannot be, with the exit code of 'sotto run'.
    pub(crate) async fn open(home: Option<PathBuf>) -> Result<Self, Failure> {
        let directory = state::directory(home)?;
        if let Some(link) = Self::reach(&directory).await? {
            return Ok(link);
        }
        let _starting = Store::starting(&directory).await?;
        // Another program may have been faster.
        if let Some(link) = Self::reach(&directory).await? {
            return Ok(link);
        }
        let (at, passphrase) = (directory.clone(), state::passphrase_of(&directory)?);
        let started = tokio::task::spawn_blocking(move || start(&at, passphrase)).await;
        started.unwrap_or_else(|error| Err(Failure::other(format!("cannot come online: {error}"))))?;
        status("you are online now, and stay so; 'sotto stop' takes you offline");
        let link = Self::reach(&directory).await?;
        link.ok_or_else(|| Failure::other("'sotto run' ended as soon as it was online"))
    }

    /// Asks, where nothing is told in between.
    ///
    /// # Errors
    /// What the participant refuses, or that it is gone.
    pub(super) async fn ask(&mut self, request: Request) -> Result<Reply, Failure> {
        self.send(&request).await?;
        loop {
            if let Message::Reply(reply) = self.next().await? {
                return reply.into_result();
            }
        }
    }

    pub(crate) async fn send(&mut self, request: &Request) -> Result<(), Failure> {
        write(&mut self.output, request, self.step).await.map_err(|_| self.gone())
    }

    /// What the participant says next. Nothing is lost when this is cancelled.
    pub(crate) async fn next(&mut self) -> Result<Message, Failure> {
        self.frames.next().await.ok().flatten().ok_or_else(|| self.gone())
    }

    /// What is known of a participant that says nothing more.
    fn gone(&self) -> Failure {
        Failure::other(match self.step {
            HERE => {
                "'sotto run' has ended; what it had taken is kept, and goes out when you are online again: 'sotto history' shows it"
            }
            _ => {
                "the connection to the 'sotto run' that this device is paired with has ended: it ended, or knows the device \
                 no more; 'sotto status' tells which"
            }
        })
    }

    /// Waits until the participant has ended.
    pub(super) async fn end(&mut self) {
        while let Ok(Some(_)) = self.frames.next::<Message>().await {}
    }
}

impl Reply {
    /// What was refused is a failure.
    pub(crate) fn into_result(self) -> Result<Self, Failure> {
        match self {
            Self::Failed(failure) => Err(failure),
            reply => Ok(reply),
        }
    }
}

/// Asks a running participant, and comes online for it.
pub(super) async fn online(home: Option<PathBuf>, account: Account) -> Result<Reply, Failure> {
    Link::open(home).await?.ask(Request::Account(account)).await
}

/// Asks a running participant, or, if none runs, the state itself: for what shows to nobody.
pub(super) async fn quietly(home: Option<PathBuf>, account: Account) -> Result<Reply, Failure> {
    let directory = state::directory(home)?;
    if let Some(mut link) = Link::reach(&directory).await? {
        return link.ask(Request::Account(account)).await;
    }
    if account.only_looks() {
        let client = state::restore(&directory, &state::read(&directory)?.1)?;
        return quiet::look(&directory, account, client);
    }
    let _starting = Store::starting(&directory).await?;
    if let Some(mut link) = Link::reach(&directory).await? {
        return link.ask(Request::Account(account)).await;
    }
    let (store, snapshot) = state::open(&directory)?;
    let mut client = state::restore(store.directory(), &snapshot)?;
    let save = |client: &Client| store.save(&client.snapshot());
    quiet::perform(&directory, account, (&mut client, store.address()), save)
}

/// Starts a process of its own that is online, and waits until it is.
fn start(directory: &Path, passphrase: Option<Passphrase>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::other(format!("cannot come online: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let home = directory.canonicalize().map_err(cannot)?;
    let mut command = Command::new(program);
    command.arg("--home").arg(home).args(["run", "--detached"]).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    // Ctrl-C in this terminal is not meant for it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(cannot)?;
    if let Some(mut input) = child.stdin.take()
        && let Some(passphrase) = passphrase
    {
        // One that has ended already says why.
        let _ = input.write_all(passphrase.as_str().as_bytes());
    }
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out.take(COMPLAINT_MAX)).read_line(&mut said).map_err(cannot)?;
    }
    if said.trim_end() == ONLINE {
        return Ok(());
    }
    let mut complaint = String::new();
    if let Some(error) = child.stderr.take() {
        error.take(COMPLAINT_MAX).read_to_string(&mut complaint).map_err(cannot)?;
    }
    child.wait().map_err(cannot)?;
    let last = complaint.lines().last().unwrap_or("'sotto run' said nothing");
    Err(serde_json::from_str(last).unwrap_or_else(|_| Failure::other(last)))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use tokio::net::UnixListener;

    use super::Link;
    use crate::daemon::frame::{HERE, write};
    use crate::daemon::message::{Greeting, VERSION};

    #[tokio::test]
    async fn a_participant_of_another_version_is_named_and_one_that_ends_is_none() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let listener = UnixListener::bind(home.path().join("socket")).unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            write(&mut stream, &Greeting { sotto: VERSION + 1, process: 77 }, HERE).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            drop(stream);
        };
        let asking = async {
            let refused = Link::reach(home.path()).await.err().unwrap();
            assert!(format!("{refused:?}").contains("kill 77"), "{refused:?}");
            assert!(Link::reach(home.path()).await.unwrap().is_none());
        };
        tokio::join!(serving, asking);
    }

    /// As one that is killed while a command reaches it: the connection is made, and nobody takes it any more.
    #[tokio::test]
    async fn a_participant_that_ends_before_it_takes_the_connection_is_none() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
        let ending = async { drop(listener) };
        let (reached, ()) = tokio::join!(Link::reach(home.path()), ending);
        assert!(reached.unwrap().is_none());
    }
}
