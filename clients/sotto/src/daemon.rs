//! The running participant of an account, and what programs of the same person say to it.
//!
//! One process owns the state and takes part in every round, with or without contacts, until its person ends it or until
//! the moment fixed when it came. Everything else is a program that comes to its local socket and goes again; nothing
//! that programs do, and nothing that arrives or does not, makes it connect, reconnect or leave.

mod account;
mod blocked;
mod day;
pub(crate) mod desk;
pub(crate) mod devices;
mod door;
mod face;
pub(crate) mod frame;
mod held;
pub(crate) mod history;
mod journal;
pub(crate) mod message;
pub(crate) mod news;
mod notes;
pub(crate) mod parcel;
mod pauses;
pub(crate) mod quiet;
pub(crate) mod received;
pub(crate) mod reply;
pub(crate) mod screens;
mod serve;
mod severity;
mod signals;
#[cfg(unix)]
mod socket;
#[cfg(not(unix))]
#[path = "daemon/socket_elsewhere.rs"]
mod socket;

use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use sotto_protocol::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cli::failure::Failure;
use crate::cli::state;
use crate::{Passphrase, Store, StoreError};
use desk::Desk;
use devices::Devices;
use door::{Came, Door, Guest, Knocking};
use face::Face;
use history::{History, Stand};
use journal::{Entry, Journal};
use message::{Note, Severity};
use news::News;
use serve::Seat;
use socket::Listener;
use sotto_participant::{Event, Events, Handle, HandleError, Participant};
use sotto_session::{ConnectError, ConnectionSettings};

pub(crate) use account::{misread, parse};
pub(crate) use signals::interrupted;
pub(crate) use socket::{
    NAME as SOCKET, SocketError, Stream, connect, forget as forget_socket, kill, process,
};

/// What a detached participant says when it is online.
pub(crate) const ONLINE: &str = "online";
/// Programs at the same time.
const PROGRAMS_MAX: usize = 64;
/// And of those who are being told that there is no room for them.
const REFUSED_MAX: usize = 16;
/// After the system refused another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Between attempts to come online again.
const COME_AGAIN_PAUSE: Duration = Duration::from_secs(4);

/// How to be online.
#[derive(Debug)]
pub(crate) struct Options {
    /// Started by a program that waits until it is online: nobody looks at its terminal, and none ends it.
    pub(crate) detached: bool,
    /// Time from coming to leaving; without it, until the person ends it.
    pub(crate) stay: Option<Duration>,
    /// Where screens on paired devices come in; without it, nowhere.
    pub(crate) listen: Option<SocketAddr>,
    /// Of the state, from the program that waits.
    pub(crate) passphrase: Option<Passphrase>,
}

/// Is online, until told to leave.
///
/// # Errors
/// Why it could not come online, or could not stay.
pub(crate) async fn run(directory: &Path, options: Options) -> Result<(), Failure> {
    let mut ended = pin!(signals::ended(options.detached));
    // Whoever started a detached one has this, and waits.
    let starting = if options.detached { None } else { Some(Store::starting(directory).await?) };
    if !options.detached && connect(directory).await?.is_some() {
        return Err(Failure::state("you are online already; 'sotto status' shows since when"));
    }
    match options.passphrase {
        Some(passphrase) => state::remember(passphrase),
        // There is nobody to ask.
        None if options.detached && Store::is_closed(directory)? => {
            return Err(StoreError::Closed(directory.to_owned()).into());
        }
        None => {}
    }
    let (store, snapshot) = state::open(directory)?;
    let client = state::restore(store.directory(), &snapshot)?;
    let news = Arc::new(News::of(directory, client.account_seed(), store.has_passphrase()));
    let (history, unread) = History::open(directory, client.account_seed());
    // Whatever the state is asked for from now on, the history has before it is gone there.
    let kept =
        history.begin().and_then(|()| history.settle_all(&Stand::all(&client, &history.blocked()), None));
    let unwritten = kept.err().map(|error| format!("warning: {}", history.unwritten(&error)));
    let history = Arc::new(history);
    let devices = Arc::new(Devices::of(directory, client.account_seed()));
    let door = match options.listen {
        Some(at) => Some(Arc::new(Door::open(at, Arc::clone(&devices)).await?)),
        None => None,
    };
    let listener = Listener::bind(directory)?;
    let (name, server) = (client.name().to_owned(), store.address().clone());
    let (mut handle, mut events) = match come(store, client).await {
        Ok(come) => come,
        Err(error) => {
            listener.remove();
            return Err(error.into());
        }
    };
    if let Some(door) = &door {
        Face::new(options.detached).note(&format!("paired devices come in at {}", door.address()));
    }
    let leaves = options.stay.map(|stay| Instant::now() + stay);
    Face::new(options.detached).online(&server.authority(), &name, options.stay);
    if options.detached {
        // Whoever waits for this may have left.
        let _ = writeln!(io::stdout(), "{ONLINE}");
    }
    drop(starting);

    let journal = Arc::new(Journal::new(news.read()));
    for line in unread.into_iter().chain(unwritten) {
        journal.write(Entry::Lasting(Note::new(Severity::Warning, line)));
    }
    let following = Arc::clone(&news).follow(Arc::clone(&journal), Face::new(options.detached));
    let following = tokio::spawn(following);
    let mut programs = JoinSet::new();
    let (desk, untold, stayed) = loop {
        let (journal, history) = (Arc::clone(&journal), Arc::clone(&history));
        let (kept, face) = ((journal, history), Face::new(options.detached));
        let ways = (Arc::clone(&devices), door.clone());
        let desk = Arc::new(Desk::new(handle, name.clone(), server.clone(), leaves, kept, face, ways));
        desk.feed().await;
        // What was told and could not be written down any more.
        let mut untold = Vec::new();
        let mut beat = pauses::beats();
        let stayed = loop {
            tokio::select! {
                _ = beat.tick() => desk.beat(),
                () = &mut ended => break Departure::Left,
                () = desk.stopped() => break Departure::Left,
                () = until(leaves) => break Departure::Left,
                event = events.recv() => match event {
                    Some(Event::ConnectionLost(ConnectError::Changed)) => break Departure::Changed,
                    Some(event) => untold.extend(desk.hear(event).await),
                    None => break Departure::Broken(HandleError::Stopped.into()),
                },
                stream = listener.accept() => admit(stream, &mut programs, &desk).await,
                knocking = knocks(door.as_deref()) => receive(knocking, &mut programs, &desk, door.as_ref()).await,
                Some(_) = programs.join_next(), if !programs.is_empty() => {}
            }
        };
        match stayed {
            Departure::Left => break (desk, untold, Ok(())),
            Departure::Broken(failure) => break (desk, untold, Err(failure)),
            Departure::Changed => {}
        }
        // All of the server's people meet this at the same time, and programs come again.
        untold.extend(desk.hear(Event::ConnectionLost(ConnectError::Changed)).await);
        if let Ok(client) = desk.handle().stop().await {
            desk.hear_last(&client, untold, &mut events);
        }
        programs.shutdown().await;
        (handle, events) = come_again(directory).await?;
    };
    leave(&desk, untold, &mut events, &listener, &mut programs, options.detached).await;
    drop(door);
    // While nobody else can come online with what was there before.
    let kept = news.write(&journal);
    if let Ok(Some(_alone)) = Store::try_starting(directory) {
        listener.remove();
    }
    programs.shutdown().await;
    following.abort();
    stayed.and(kept.map_err(|error| Failure::other(news.unwritten(&error))))
}

/// Why one is online no more.
enum Departure {
    /// As the person decided.
    Left,
    /// The server has changed its parameters, which are taken over by coming anew.
    Changed,
    Broken(Failure),
}

async fn come(store: Store, client: Client) -> Result<(Handle, Events), ConnectError> {
    let settings = ConnectionSettings::new(store.address().clone());
    Participant::start(client, Some(Box::new(store)), settings).await
}

/// Comes online under parameters that the server has changed, as soon as it can be reached.
async fn come_again(directory: &Path) -> Result<(Handle, Events), Failure> {
    loop {
        let (store, snapshot) = state::open(directory)?;
        let client = state::restore(store.directory(), &snapshot)?;
        match come(store, client).await {
            Ok(come) => return Ok(come),
            Err(ConnectError::Unreachable(_) | ConnectError::TooOften { .. }) => {
                sleep(COME_AGAIN_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Leaves at the end of the round, or at once if the person insists. Programs are served as long as it lasts.
async fn leave(
    desk: &Arc<Desk>,
    mut untold: Vec<Arc<Event>>,
    events: &mut Events,
    listener: &Listener,
    programs: &mut JoinSet<()>,
    detached: bool,
) {
    desk.leaving();
    let mut insisted = pin!(signals::ended(detached));
    let mut finished = pin!(desk.handle().finish());
    let (mut open, mut beat) = (true, pauses::beats());
    let client = loop {
        tokio::select! {
            _ = beat.tick() => desk.beat(),
            client = &mut finished => break client,
            () = &mut insisted => break desk.handle().stop().await,
            event = events.recv(), if open => match event {
                Some(event) => untold.extend(desk.hear(event).await),
                None => open = false,
            },
            stream = listener.accept() => admit(stream, programs, desk).await,
            Some(_) = programs.join_next(), if !programs.is_empty() => {}
        }
    };
    // One that had stopped before gives no client, and nothing more is to be told.
    if let Ok(client) = client {
        desk.hear_last(&client, untold, events);
    }
}

async fn admit(stream: io::Result<Stream>, programs: &mut JoinSet<()>, desk: &Arc<Desk>) {
    match stream {
        Ok(stream) if programs.len() < PROGRAMS_MAX => {
            let desk = Arc::clone(desk);
            programs.spawn(async move { serve::serve(stream, &desk, Seat::Here).await });
        }
        // It hears why, so that nobody takes it for a sign that nobody is online.
        Ok(stream) if programs.len() < PROGRAMS_MAX + REFUSED_MAX => {
            programs.spawn(serve::refuse(stream));
        }
        // It hears that the connection ends.
        Ok(_) => {}
        Err(_) => sleep(ACCEPT_PAUSE).await,
    }
}

/// The next who comes from another machine.
async fn knocks(door: Option<&Door>) -> io::Result<Knocking> {
    match door {
        Some(door) => door.accept().await,
        None => core::future::pending().await,
    }
}

/// Serves a device as long as it is known, and takes one that is to be. These have seats of their own.
async fn receive(
    knocking: io::Result<Knocking>,
    programs: &mut JoinSet<()>,
    desk: &Arc<Desk>,
    door: Option<&Arc<Door>>,
) {
    match (knocking, door) {
        (Ok(knocking), Some(door)) => {
            let (desk, door) = (Arc::clone(desk), Arc::clone(door));
            programs.spawn(async move {
                let came = door.receive(knocking, desk.name()).await;
                desk.came(&came);
                if let Came::Device(guest) = came {
                    let Guest { stream, key, .. } = *guest;
                    tokio::select! {
                        () = serve::serve(stream, &desk, Seat::Away) => {}
                        () = door.revoked(&key) => {}
                    }
                }
            });
        }
        _ => sleep(ACCEPT_PAUSE).await,
    }
}

/// What a program says whom the participant answered something else.
pub(crate) fn unexpected() -> Failure {
    Failure::other("'sotto run' answered something else; end it with 'sotto stop', and come online again")
}

async fn until(leaves: Option<Instant>) {
    match leaves {
        Some(leaves) => sleep_until(leaves).await,
        None => core::future::pending().await,
    }
}
