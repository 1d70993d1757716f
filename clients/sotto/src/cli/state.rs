//! The state directory as commands use it.

use std::path::PathBuf;

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
    let damaged = |error: Error| {
        let directory = store.directory().display();
        Failure::state(format!(
            "the state in {directory} cannot be used ({error}); start anew with another --home"
        ))
    };
    let client = Client::restore(&snapshot).map_err(damaged)?;
    Ok((store, client))
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
