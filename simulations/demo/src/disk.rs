//! Where a participant of the demonstration is kept: files of a directory that goes with it.
//!
//! What a person's client keeps is in `clients/sotto`, with passphrases and much else that nobody needs here, and that would take a
//! quarter of the time in which the demonstration is compiled.

use std::path::PathBuf;
use std::{fs, io};

use sotto_files::replace;
use sotto_participant::host::{Disk, StorageError};
use sotto_protocol::Round;

/// A directory that is there.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    fn keep(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        replace(&path, bytes, 0o600)?;
        Ok(path)
    }
}

fn storage(error: &io::Error) -> StorageError {
    StorageError { code: "store-io", sentence: format!("cannot write what is kept: {error}") }
}

impl Disk for Directory {
    fn save(&self, snapshot: &[u8]) -> Result<(), StorageError> {
        self.keep("state", snapshot).map(drop).map_err(|error| storage(&error))
    }

    fn keep_directory(&self, directory: &[u8]) -> Result<(), StorageError> {
        self.keep("nodes", directory).map(drop).map_err(|error| storage(&error))
    }

    fn directory(&self) -> Option<Vec<u8>> {
        fs::read(self.0.join("nodes")).ok()
    }

    fn keep_proof(&self, round: Round, proof: &[u8]) -> Result<String, String> {
        let kept = self.keep(&format!("proof-{round}.sotto"), proof);
        kept.map(|path| path.display().to_string()).map_err(|error| error.to_string())
    }
}
