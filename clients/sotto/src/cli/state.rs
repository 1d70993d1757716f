//! The state directory as commands use it.

use std::path::{Path, PathBuf};

use sotto_protocol::client::Client;
use sotto_protocol::{ConversationId, Error};

use super::failure::Failure;
use crate::Store;

/// The directory of `--home`, or the default one.
pub(super) fn directory(home: Option<PathBuf>) -> Result<PathBuf, Failure> {
    Ok(home.map_or_else(Store::default_directory, Ok)?)
}

/// The state, locked for this process.
pub(super) fn open(home: Option<PathBuf>) -> Result<(Store, Client), Failure> {
    let (store, snapshot) = Store::open(&directory(home)?)?;
    let client = restore(store.directory(), &snapshot)?;
    Ok((store, client))
}

/// The state as it was saved last, only to look at: another process may be using it.
pub(super) fn read(home: Option<PathBuf>) -> Result<Client, Failure> {
    let directory = directory(home)?;
    let snapshot = Store::read(&directory)?;
    restore(&directory, &snapshot)
}

pub(super) fn restore(directory: &Path, snapshot: &[u8]) -> Result<Client, Failure> {
    Client::restore(snapshot).map_err(|error: Error| {
        let directory = directory.display();
        Failure::state(format!(
            "the state in {directory} cannot be used ({error}); start anew with another --home"
        ))
    })
}

/// The conversation of that name.
pub(super) fn find(client: &Client, name: &str) -> Result<ConversationId, Failure> {
    client.find(name).ok_or_else(|| {
        Failure::other(format!(
            "there is no contact or group '{name}'; 'sotto contacts' lists those there are"
        ))
    })
}

pub(super) fn rng() -> rand::rngs::StdRng {
    rand::make_rng()
}
