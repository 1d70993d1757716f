//! The state directory as commands use it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sotto_protocol::Error;
use sotto_protocol::client::Client;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::passphrase;
use crate::{Address, Passphrase, Store, StoreError};

/// The directory of `--home`, or the default one.
pub(crate) fn directory(home: Option<PathBuf>) -> Result<PathBuf, Failure> {
    Ok(home.map_or_else(Store::default_directory, Ok)?)
}

/// [`Store::open`], also if the state is closed with a passphrase.
pub(crate) fn open(directory: &Path) -> Result<(Store, Zeroizing<Vec<u8>>), Failure> {
    unlock(|passphrase| Store::open_with(directory, passphrase))
}

/// The same for whoever is about to change the passphrase: an open one is opened, too.
pub(super) fn open_any(directory: &Path) -> Result<(Store, Zeroizing<Vec<u8>>), Failure> {
    match Store::is_closed(directory)? {
        true => open(directory),
        false => Ok(Store::open(directory)?),
    }
}

/// [`Store::read`], also if the state is closed with a passphrase.
pub(super) fn read(directory: &Path) -> Result<(Address, Zeroizing<Vec<u8>>), Failure> {
    unlock(|passphrase| Store::read(directory, passphrase))
}

/// The passphrase of a state that is closed, for a process that is started.
pub(super) fn passphrase_of(directory: &Path) -> Result<Option<Passphrase>, Failure> {
    if !Store::is_closed(directory)? {
        return Ok(None);
    }
    read(directory)?;
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    known.map_or_else(passphrase::of_file, |known| Ok(Some(known)))
}

/// Nobody types a passphrase twice in one program.
static KNOWN: Mutex<Option<Passphrase>> = Mutex::new(None);

pub(crate) fn remember(passphrase: Passphrase) {
    *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(passphrase);
}

/// Wipes what this program remembers: statics outlive it.
pub(super) fn forget() {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).take();
}

fn unlock<T>(open: impl Fn(Option<&Passphrase>) -> Result<T, StoreError>) -> Result<T, Failure> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let known = known.map_or_else(passphrase::of_file, |known| Ok(Some(known)))?;
    match open(known.as_ref()) {
        Err(closed @ StoreError::Closed(_)) => {
            let Some(typed) = passphrase::ask()? else { return Err(closed.into()) };
            let opened = open(Some(&typed))?;
            remember(typed);
            Ok(opened)
        }
        done => Ok(done?),
    }
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
