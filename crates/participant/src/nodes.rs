//! Where the server's nodes are, as it has told last, here or before this process began.

use core::time::Duration;

use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::error::DirectoryError;
use sotto_protocol::{Directory, Error, ServerParameters, SignedDirectory};
use tokio::time::Instant;

/// So many directories are looked at in a row, and one more after each such time: what is looked at costs time, and what is new
/// a write to the disk.
const ROW: u32 = 8;
const EACH: Duration = Duration::from_secs(10);

/// The newest directory that was believed.
pub(crate) struct Nodes {
    root: [u8; 32],
    newest: Option<Known>,
    /// When those that were looked at would have been, one after each such time.
    looked: Option<Instant>,
}

/// The nodes of what [`crate::host::Disk::directory`] has for a server of this root, if the manifest key of its round signed it.
pub fn known_nodes(root: [u8; 32], server: &ServerParameters, kept: Option<Vec<u8>>) -> Option<Directory> {
    Nodes::kept(root, server, kept).newest.map(|known| known.directory)
}

/// A directory, and the manifest key that signed it.
struct Known {
    signed: SignedDirectory,
    directory: Directory,
    key: [u8; 32],
}

impl Known {
    /// A directory that the manifest key of its round has signed for the cluster of this root key.
    fn verified(signed: SignedDirectory, root: &[u8; 32], server: &ServerParameters) -> Result<Self, Error> {
        let key = server.manifest_key_of(signed.claimed_round());
        let key = key.ok_or(Error::Directory(DirectoryError::Unsigned))?;
        let directory = signed.verify(root, &key)?;
        Ok(Self { signed, directory, key })
    }

    /// What rises from one directory to the next: the key, and then the number. Otherwise whoever has stolen a key could have the
    /// last word for good, under the highest number there is.
    fn rank(&self, server: &ServerParameters) -> (bool, bool, u64) {
        let is_former = server.key_epoch.former_key() == Some(self.key);
        // Neither for one of a key before that.
        (self.key == server.manifest_key, is_former, self.directory.number())
    }
}

impl Nodes {
    /// What was kept for a server of this root, if the manifest key of its round signed it. Whatever else is there is as good as
    /// nothing: the nodes of the address are known without it.
    pub(crate) fn kept(root: [u8; 32], server: &ServerParameters, kept: Option<Vec<u8>>) -> Self {
        let signed = kept.as_deref().and_then(read);
        let newest = signed.and_then(|signed| Known::verified(signed, &root, server).ok());
        Self { root, newest, looked: None }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.newest.as_ref().map(|known| &known.directory)
    }

    /// Hears of a directory, from a server that announces this; whether it is a newer one. Older ones say nothing against the
    /// server: another node may be behind. Of a flood most are passed over.
    ///
    /// # Errors
    /// It is not the server's, or another one under the same number.
    pub(crate) fn hear(&mut self, signed: SignedDirectory, server: &ServerParameters) -> Result<bool, Error> {
        if self.newest.as_ref().is_some_and(|known| known.signed == signed) {
            return Ok(false);
        }
        let now = Instant::now();
        let looked = self.looked.map_or(now, |looked| looked.max(now)) + EACH;
        if looked > now + EACH * ROW {
            return Ok(false);
        }
        self.looked = Some(looked);
        let heard = Known::verified(signed, &self.root, server)?;
        if let Some(known) = &self.newest {
            let (new, old) = (heard.rank(server), known.rank(server));
            if new == old && heard.signed.bytes != known.signed.bytes {
                return Err(Error::Directory(DirectoryError::Other));
            }
            if new <= old {
                return Ok(false);
            }
        }
        self.newest = Some(heard);
        Ok(true)
    }

    /// As it is kept: the directory, and its signature behind it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.newest
            .as_ref()
            .map_or_else(Vec::new, |known| [&known.signed.bytes[..], &known.signed.signature].concat())
    }
}

fn read(kept: &[u8]) -> Option<SignedDirectory> {
    let (directory, signature) = kept.split_at_checked(DIRECTORY_BYTES)?;
    SignedDirectory::from_parts(directory, signature).ok()
}

#[cfg(test)]
mod tests;
