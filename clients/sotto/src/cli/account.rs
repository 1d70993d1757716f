//! Making an account.

use core::time::Duration;
use std::io::{self, Write as _};
use std::path::PathBuf;

use sotto_protocol::OwnSlot;
use sotto_protocol::client::{Client, Settings};
use sotto_wire::{Malformed, Refused, Token};

use super::failure::Failure;
use super::input::read_secret;
use super::{InitOptions, state};
use crate::participant::now;
use crate::{ConnectError, Connection, ConnectionSettings, Store, StoreError};

/// Attempts to register, and the pause between two.
const REGISTRATIONS: u32 = 4;
const REGISTRATION_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn init(home: Option<PathBuf>, options: InitOptions) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    let again = Store::is_joining(&directory);
    let (store, snapshot) = if again {
        let (store, snapshot) = Store::open(&directory)?;
        if *store.address() != options.server {
            return Err(StoreError::Exists(directory).into());
        }
        (store, Some(snapshot))
    } else {
        (Store::create(&directory, options.server.clone())?, None)
    };
    let connection = Connection::open(&ConnectionSettings::new(options.server)).await?;
    let info = connection.info().await?;
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
            let joined = (info.open, now());
            let client = Client::new(&options.name, info.parameters, settings, joined, &mut state::rng())?;
            store.set_joining(true)?;
            store.save(&client.snapshot())?;
            client
        }
    };
    match register(&connection, &client, token.as_ref()).await {
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
            writeln!(
                io::stderr(),
                "the server may have taken the account all the same: run the same 'sotto init' once more, with the same token"
            )?;
            return Err(error.into());
        }
    }
    let (directory, name) = (store.directory().display(), client.name());
    let made = if again { "went on with" } else { "made" };
    if client.server().code.has_slots() {
        writeln!(
            io::stderr(),
            "this server finds messages by slots: the account and its conversations cannot move to one that does not"
        )?;
    }
    writeln!(io::stderr(), "{made} an account for {name} in {directory}; next: 'sotto invite CONTACT'")?;
    Ok(())
}

/// Makes the account known to the server, which may give it a slot. Repeating it does no harm, so a lost answer costs no token.
async fn register(
    connection: &Connection,
    client: &Client,
    token: Option<&Token>,
) -> Result<Option<OwnSlot>, ConnectError> {
    let mut attempts = REGISTRATIONS;
    loop {
        attempts -= 1;
        let slot = client.slot().filter(|_| client.server().code.has_slots());
        match connection.register(client.account_seed(), client.server(), token, slot).await {
            Ok(session) => return Ok(session.given_slot().cloned()),
            Err(ConnectError::Unreachable(_)) if attempts > 0 => tokio::time::sleep(REGISTRATION_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}
