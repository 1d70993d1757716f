//! Accounts, invitations, contacts.

use core::fmt::Display;
use core::str::FromStr;
use core::time::Duration;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use data_encoding::BASE32_NOPAD;
use serde_json::json;
use sotto_protocol::client::{Client, Settings};
use sotto_protocol::{ConversationKind, Error, Invitation};
use sotto_wire::{Refused, Token};
use zeroize::Zeroizing;

use super::failure::Failure;
use super::{InitOptions, state};
use crate::participant::now;
use crate::{ConnectError, Connection, ConnectionSettings, Engine, Store, StoreError};

/// A card for eight members has about 800 characters.
const SECRET_MAX: u64 = 4096;

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
    let info = connection.info::<Engine>().await?;
    let token = if info.token_required {
        Some(read_secret("registration token", "this is not a token")?)
    } else {
        None
    };
    let client = match snapshot {
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
        Ok(()) => store.set_joining(false)?,
        // The server has certainly not taken it.
        Err(error @ ConnectError::Refused(Refused::Token)) => {
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
    writeln!(io::stderr(), "{made} an account for {name} in {directory}; next: 'sotto invite CONTACT'")?;
    Ok(())
}

/// Makes the account known to the server. Repeating it does no harm, so a lost answer costs no token.
async fn register(
    connection: &Connection,
    client: &Client,
    token: Option<&Token>,
) -> Result<(), ConnectError> {
    let mut attempts = REGISTRATIONS;
    loop {
        attempts -= 1;
        match connection.register::<Engine>(client.account_seed(), client.server(), token).await {
            Ok(_) => return Ok(()),
            Err(ConnectError::Unreachable(_)) if attempts > 0 => tokio::time::sleep(REGISTRATION_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn invite(home: Option<PathBuf>, contact: &str) -> Result<(), Failure> {
    let (store, mut client) = state::open(home)?;
    let invitation = client.invite(contact, now(), &mut state::rng())?;
    store.save(&client.snapshot())?;
    writeln!(io::stdout(), "{}", *Zeroizing::new(invitation.to_string()))?;
    if io::stdout().is_terminal() {
        writeln!(
            io::stderr(),
            "give this to {contact}, where nobody else reads it; there: 'sotto accept YOUR-NAME'; then both: 'sotto chat'"
        )?;
    }
    Ok(())
}

pub(super) fn accept(home: Option<PathBuf>, contact: &str, on_command_line: bool) -> Result<(), Failure> {
    if on_command_line {
        return Err(Failure::usage(format!(
            "an invitation is a secret, and other programs can read a command line: run 'sotto accept {contact}' and \
             paste it"
        )));
    }
    let (store, mut client) = state::open(home)?;
    let invitation: Invitation = read_secret("invitation", "this is not an invitation")?;
    let holder = client.holder(invitation.identity());
    client.accept(contact, &invitation, now(), &mut state::rng()).map_err(stale)?;
    store.save(&client.snapshot())?;
    if let Some(holder) = holder {
        let named = |id| client.conversations().into_iter().find(|other| other.id == id);
        let held = holder.contact().and_then(named).map_or("yourself".to_owned(), |held| held.name);
        writeln!(
            io::stderr(),
            "this invitation leads to {held}: whoever gave it to you as another's passed it on. Nothing can be said to \
             {contact}; as long as you keep it, nobody sees that you know"
        )?;
        return Ok(());
    }
    writeln!(io::stderr(), "{contact} is a contact now; next: 'sotto chat {contact}'")?;
    Ok(())
}

pub(super) fn contacts(home: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let client = state::read(home)?;
    let mut out = io::stdout().lock();
    let conversations = client.conversations();
    if conversations.is_empty() && !json {
        writeln!(
            io::stderr(),
            "no contacts yet; make one with 'sotto invite CONTACT' or 'sotto accept CONTACT'"
        )?;
    }
    for conversation in conversations {
        let kind = match conversation.kind {
            ConversationKind::Contact => "contact",
            ConversationKind::Group => "group",
        };
        if json {
            let identity = client.contact_identity(conversation.id).map(|key| encode_identity(&key));
            let members: Vec<_> = client
                .members(conversation.id)
                .into_iter()
                .map(|member| json!({"name": member.name, "identity": encode_identity(&member.identity), "present": member.present}))
                .collect();
            let line = json!({
                "name": conversation.name,
                "kind": kind,
                "established": conversation.established,
                "queued": conversation.queued,
                "unacknowledged": conversation.unacknowledged,
                "identity": identity,
                "members": members,
            });
            writeln!(out, "{line}")?;
        } else {
            let status = if conversation.established { "established" } else { "waiting for the other side" };
            let waiting = match conversation.queued {
                0 => String::new(),
                queued => format!(", {queued} not arrived yet"),
            };
            writeln!(out, "{}\t{kind}\t{status}{waiting}", conversation.name)?;
        }
    }
    Ok(())
}

pub(super) fn identity(home: Option<PathBuf>) -> Result<(), Failure> {
    let client = state::read(home)?;
    writeln!(io::stdout(), "{}", encode_identity(&client.identity()))?;
    Ok(())
}

pub(super) fn encode_identity(identity: &[u8; 32]) -> String {
    BASE32_NOPAD.encode(identity).to_ascii_lowercase()
}

pub(super) fn decode_identity(text: &str) -> Option<[u8; 32]> {
    BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).ok()?.try_into().ok()
}

/// A secret from standard input: a line of a terminal, all of anything else.
pub(super) fn read_secret<T: FromStr<Err: Display>>(what: &str, other: &str) -> Result<T, Failure> {
    // Never grown, so that no copy stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * SECRET_MAX as usize));
    let mut input = io::stdin().lock().take(SECRET_MAX);
    if io::stdin().is_terminal() {
        write!(io::stderr(), "paste the {what}: ")?;
        input.read_until(b'\n', &mut bytes)?;
    } else {
        input.read_to_end(&mut bytes)?;
    }
    let secret = core::str::from_utf8(&bytes).map_err(|_| Failure::usage(other))?.trim();
    if secret.is_empty() {
        return Err(Failure::usage(format!("there is no {what} on standard input")));
    }
    secret.parse().map_err(|error: T::Err| {
        let error = error.to_string();
        let advice = if error.contains("typing error") { "; copy the whole text again" } else { "" };
        Failure::usage(format!("{error}{advice}"))
    })
}

/// The person, unlike the protocol, can set a clock.
pub(super) fn stale(error: Error) -> Failure {
    match error {
        Error::RoundTooFar(_) => Failure::other(
            "the times of the two sides do not fit together; check the clocks of both machines, chat once to catch up \
             with the server, and try again",
        ),
        other => other.into(),
    }
}
