//! Making an account, and closing it.

use core::time::Duration;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{CodeKind, Directory, OwnSlot};
use sotto_wire::{Info, Malformed, Refused, Token};

use super::failure::Failure;
use super::input::read_secret;
use super::link::Link;
use super::options::{CONVERSATIONS, InitOptions, Newcomer};
use super::print::status;
use super::state;
use crate::daemon::{history, news};
use crate::device::attached;
use crate::{Address, Store, StoreError};
use sotto_participant::{host::now, known_nodes};
use sotto_session::{ConnectError, Connection, ConnectionSettings};

/// Attempts to register, and the pause between two.
const REGISTRATIONS: u32 = 4;
const REGISTRATION_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn init(home: Option<PathBuf>, options: InitOptions) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    attached::refuse(&directory)?;
    let again = Store::is_joining(&directory);
    let (store, snapshot) = if again {
        let (store, snapshot) = state::open(&directory)?;
        if *store.address() != options.server {
            return Err(StoreError::Exists(directory).into());
        }
        (store, Some(snapshot))
    } else {
        (Store::create(&directory, options.server.clone())?, None)
    };
    let settings = ConnectionSettings::new(options.server);
    // Before the round is named: however long a person looks for the token, time explains the rounds since.
    let asked = now();
    let (connection, info) = ask(&settings).await?;
    let token = if info.token_required {
        let text = read_secret("registration token", "this is not a token")?;
        let malformed = |error: Malformed| Failure::usage(error.to_string()).coded("token-malformed");
        Some(text.0.parse().map_err(malformed)?)
    } else {
        None
    };
    let mut client = match snapshot {
        Some(snapshot) => state::restore(store.directory(), &snapshot)?,
        None => {
            let settings = Settings { conversations: options.conversations };
            let joined = (info.open, asked);
            let mut client =
                Client::new(&options.name, info.parameters, settings, joined, &mut state::rng())?;
            client.keep_root(store.address().root_key().0)?;
            store.set_joining(true)?;
            store.save(&client.snapshot())?;
            client
        }
    };
    match register(&settings, connection, &client, token.as_ref()).await {
        Ok(slot) => {
            if let Some(slot) = slot {
                client.keep_slot(slot);
                store.save(&client.snapshot())?;
            }
            store.set_joining(false)?;
        }
        // The server has certainly not taken it, or nobody can ever use it.
        Err(error @ ConnectError::Refused(Refused::Token | Refused::Slot)) => {
            store.discard()?;
            return Err(error.into());
        }
        Err(error) => {
            status(
                "the server may have taken the account all the same: run the same 'sotto init' once more, with the same token",
            );
            return Err(error.into());
        }
    }
    let (directory, name) = (store.directory().display(), client.name());
    let made = if again { "went on with" } else { "made" };
    if client.server().code.has_slots() {
        status(
            "this server finds messages by slots: the account and its conversations cannot move to one that does not",
        );
    }
    if client.server().code == CodeKind::Standing {
        status(
            "at this server you are asking for the same people for eight rounds at a time: to meet somebody takes longer",
        );
    }
    let at = settings.address.authority();
    status(&format!("{made} an account for {name} at {at}, in {directory}"));
    Ok(())
}

/// Makes an account if there is none, at this server.
///
/// # Errors
/// What is missing to make one; [`Failure::usage`] if there is one, of another server or name.
pub(super) async fn ensure(
    home: Option<PathBuf>,
    server: Option<Address>,
    newcomer: Newcomer,
) -> Result<(), Failure> {
    let directory = state::directory(home.clone())?;
    let Newcomer { name, conversations } = newcomer;
    if attached::is_there(&directory) {
        // The account is where the participant is.
        if name.is_some() || conversations.is_some() {
            let problem =
                "this is a paired device, which makes no account; leave --name and --conversations away";
            return Err(Failure::usage(problem));
        }
        return Ok(());
    }
    if Store::is_there(&directory) && !Store::is_joining(&directory) {
        // Whoever is online does not need the passphrase for this, and is refused what is for another server.
        let asks_nobody = !Store::is_closed(&directory)? || Link::reach(&directory).await?.is_none();
        let newcomer = Newcomer { name, conversations };
        return if asks_nobody { is_ours(&directory, server.as_ref(), &newcomer) } else { Ok(()) };
    }
    let conversations = conversations.unwrap_or(CONVERSATIONS);
    match (server, name) {
        (Some(server), Some(name)) => init(home, InitOptions { server, name, conversations }).await,
        (Some(server), None) => {
            let at = server.authority();
            Err(Failure::state(format!("you have no account yet; with --name YOUR-NAME one is made at {at}")))
        }
        (None, _) if Store::is_joining(&directory) => Err(Failure::state(format!(
            "making the account in {} was cut off; run the same 'sotto init' once more",
            directory.display()
        ))),
        (None, _) => Err(Failure::state(format!(
            "there is no state in {}; run 'sotto init --server ADDRESS --name NAME' first, or give --server ADDRESS and \
             --name NAME here (an invitation with the server's address in it takes --name alone)",
            directory.display()
        ))
        .coded(StoreError::Missing(directory).code())),
    }
}

/// Whether the account is the one that would be made otherwise.
fn is_ours(directory: &Path, server: Option<&Address>, newcomer: &Newcomer) -> Result<(), Failure> {
    let Newcomer { name, conversations } = newcomer;
    if server.is_none() && name.is_none() && conversations.is_none() {
        return Ok(());
    }
    let (address, snapshot) = state::read(directory)?;
    let client = state::restore(directory, &snapshot)?;
    if let Some(name) = name.as_deref().filter(|name| *name != client.name()) {
        let own = client.name();
        return Err(Failure::usage(format!(
            "this is the account of {own}, not of {name}; leave --name away, or name another directory with --home"
        )));
    }
    let room = client.settings().conversations;
    if conversations.is_some_and(|conversations| conversations != room) {
        return Err(Failure::usage(format!(
            "your account has room for {room} contacts and groups, which stays as it was made; leave --conversations away"
        )));
    }
    match server {
        Some(server) if address.root_key() != server.root_key() => {
            let at = address.authority();
            Err(Failure::usage(format!(
                "your account is at {at}, which is another server; name another directory with --home for one there"
            )))
        }
        _ => Ok(()),
    }
}

/// Closes the account, here once the server has.
pub(super) async fn close(home: Option<PathBuf>, name: &str) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    attached::refuse(&directory)?;
    if Link::reach(&directory).await?.is_some() {
        return Err(Failure::state("you are online: 'sotto stop' first, and then 'sotto close' once more"));
    }
    let (store, snapshot) = state::open(&directory)?;
    let client = state::restore(store.directory(), &snapshot)?;
    if client.name() != name {
        let problem = format!("this is the account of {}, not of {name}", client.name());
        return Err(Failure::usage(problem));
    }
    let settings = ConnectionSettings::new(store.address().clone());
    let nodes = known_nodes(store.address().root_key().0, client.server(), store.known_nodes());
    let known = match close_account(&settings, &client, nodes.as_ref()).await {
        Ok(()) => true,
        // An earlier attempt has closed it, or it never came to be.
        Err(ConnectError::Refused(Refused::Token)) => false,
        Err(error) => return Err(error.into()),
    };
    news::forget(store.directory())?;
    history::forget(store.directory())?;
    store.discard()?;
    let server = if known { "the server has forgotten" } else { "the server does not know" };
    writeln!(
        io::stderr(),
        "{server} the account of {name}, and its state in {} is deleted",
        directory.display()
    )?;
    Ok(())
}

/// Opens a session at one node after the other, and closes the account in it.
async fn close_account(
    settings: &ConnectionSettings,
    client: &Client,
    nodes: Option<&Directory>,
) -> Result<(), ConnectError> {
    let account = SigningKey::from_bytes(client.account_seed()).verifying_key().to_bytes();
    let mut failed = None;
    for node in settings.in_order_of(&account, nodes) {
        let slot = client.slot().filter(|_| client.server().code.has_slots());
        let closed = async {
            let connection = Connection::open(&node).await?;
            // Whatever the server has become: its root key is the one that this account knows.
            let (info, _) = connection.meet(client.server()).await?;
            let session = connection.session(client.account_seed(), &info, None, slot).await?;
            session.close_account().await
        };
        match closed.await {
            Ok(()) => return Ok(()),
            Err(error) => failed = Some(ConnectError::of_turn(failed.take(), error)?),
        }
    }
    Err(failed.unwrap_or_else(|| ConnectError::Unreachable(settings.address.authority())))
}

/// What the server says of itself, by the first of its nodes that says something: there is no account yet, and so no order of
/// it.
pub(super) async fn ask(settings: &ConnectionSettings) -> Result<(Connection, Info), ConnectError> {
    let mut failed = None;
    for node in settings.each() {
        let asked = async {
            let connection = Connection::open(&node).await?;
            let info = connection.info().await?;
            Ok((connection, info))
        };
        match asked.await {
            Ok(said) => return Ok(said),
            Err(error) => failed = Some(ConnectError::of_turn(failed.take(), error)?),
        }
    }
    Err(failed.unwrap_or_else(|| ConnectError::Unreachable(settings.address.authority())))
}

/// Makes the account known to the server, by its nodes in the order of the account; it may be given a slot. Repeating it does no
/// harm, so a lost answer costs no token.
async fn register(
    settings: &ConnectionSettings,
    asked: Connection,
    client: &Client,
    token: Option<&Token>,
) -> Result<Option<OwnSlot>, ConnectError> {
    let account = SigningKey::from_bytes(client.account_seed()).verifying_key().to_bytes();
    // No node has told a new account of others.
    let nodes = settings.in_order_of(&account, None);
    let mut attempts = REGISTRATIONS;
    loop {
        attempts -= 1;
        let slot = client.slot().filter(|_| client.server().code.has_slots());
        let mut failed = None;
        for node in &nodes {
            let registered = async {
                let connection = match asked.settings().address == node.address {
                    true => asked.clone(),
                    false => Connection::open(node).await?,
                };
                connection.register(client.account_seed(), client.server(), token, slot).await
            };
            match registered.await {
                Ok(session) => return Ok(session.given_slot().cloned()),
                Err(error) => failed = Some(ConnectError::of_turn(failed.take(), error)?),
            }
        }
        match failed {
            Some(ConnectError::Unreachable(_)) if attempts > 0 => {
                tokio::time::sleep(REGISTRATION_PAUSE).await;
            }
            failed => {
                return Err(failed.unwrap_or_else(|| ConnectError::Unreachable(settings.address.authority())));
            }
        }
    }
}
