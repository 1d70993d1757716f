//! The state directory as commands use it.

use std::path::{Path, PathBuf};

use sotto_protocol::Error;
use sotto_protocol::client::Client;

use super::failure::Failure;
use crate::Store;

/// The directory of `--home`, or the default one.
pub(crate) fn directory(home: Option<PathBuf>) -> Result<PathBuf, Failure> {
    Ok(home.map_or_else(Store::default_directory, Ok)?)
}

pub(crate) fn restore(directory: &Path, snapshot: &[u8]) -> Result<Client, Failure> {
    Client::restore(snapshot).map_err(|error: Error| {
        let directory = directory.display();
        Failure::state(format!(
            "the state in {directory} cannot be used ({error}); start anew with another --home"
        ))
    })
}

pub(super) fn rng() -> rand::rngs::StdRng {
    rand::make_rng()
}
