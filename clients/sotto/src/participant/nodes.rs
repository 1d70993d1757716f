//! Where the server's nodes are, as it has told last, here or before this process began.

use core::time::Duration;

use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::error::DirectoryError;
use sotto_protocol::{Directory, Error, Round, SignedDirectory};
use tokio::time::Instant;

/// So many directories are looked at in a row, and one more after each such time: what is looked at costs time, and what is new
/// a write to the disk.
const ROW: u32 = 8;
const EACH: Duration = Duration::from_secs(10);

/// The newest directory that was believed.
pub(super) struct Nodes {
    root: [u8; 32],
    newest: Option<(SignedDirectory, Directory)>,
    /// When those that were looked at would have been, one after each such time.
    looked: Option<Instant>,
}

impl Nodes {
    /// What was kept for a server of this root, if the manifest key of its round signed it. Whatever else is there is as good as
    /// nothing: the nodes of the address are known without it.
    pub(super) fn kept(
        root: [u8; 32],
        key_of: impl Fn(Round) -> Option<[u8; 32]>,
        kept: Option<Vec<u8>>,
    ) -> Self {
        let signed = kept.as_deref().and_then(read);
        let newest = signed.and_then(|signed| {
            let directory = signed.verify(&root, &key_of(signed.claimed_round())?).ok()?;
            Some((signed, directory))
        });
        Self { root, newest, looked: None }
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        self.newest.as_ref().map(|(_, directory)| directory)
    }

    /// Hears of a directory; whether it is a newer one. Older ones say nothing against the server: another node may be behind. Of
    /// a flood most are passed over.
    ///
    /// # Errors
    /// It is not the server's, or another one under the same number.
    pub(super) fn hear(
        &mut self,
        signed: SignedDirectory,
        key_of: impl Fn(Round) -> Option<[u8; 32]>,
    ) -> Result<bool, Error> {
        if self.newest.as_ref().is_some_and(|(newest, _)| *newest == signed) {
            return Ok(false);
        }
        let now = Instant::now();
        let looked = self.looked.map_or(now, |looked| looked.max(now)) + EACH;
        if looked > now + EACH * ROW {
            return Ok(false);
        }
        self.looked = Some(looked);
        let key = key_of(signed.claimed_round()).ok_or(Error::Directory(DirectoryError::Unsigned))?;
        let directory = signed.verify(&self.root, &key)?;
        let known = self.newest.as_ref().map(|(newest, directory)| (&newest.bytes, directory.number()));
        match known {
            Some((bytes, number)) if directory.number() == number && signed.bytes != *bytes => {
                Err(Error::Directory(DirectoryError::Other))
            }
            Some((_, number)) if directory.number() <= number => Ok(false),
            _ => {
                self.newest = Some((signed, directory));
                Ok(true)
            }
        }
    }

    /// As it is kept: the directory, and its signature behind it.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.newest
            .as_ref()
            .map_or_else(Vec::new, |(signed, _)| [&signed.bytes[..], &signed.signature].concat())
    }
}

fn read(kept: &[u8]) -> Option<SignedDirectory> {
    let (directory, signature) = kept.split_at_checked(DIRECTORY_BYTES)?;
    SignedDirectory::from_parts(directory, signature).ok()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use ed25519_dalek::SigningKey;
    use sotto_protocol::error::DirectoryError;
    use sotto_protocol::{Directory, Error, Round, SignedDirectory};

    use super::Nodes;

    const ROOT: [u8; 32] = [1; 32];

    fn signed(number: u64, node: &str, root: [u8; 32], key: u8) -> SignedDirectory {
        let directory = Directory::new(number, Round(1), [node.to_owned()]).unwrap();
        SignedDirectory::sign(&directory, &root, &SigningKey::from_bytes(&[key; 32]))
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_flood_eight_are_looked_at_and_then_one_in_ten_seconds() {
        let key = SigningKey::from_bytes(&[2; 32]).verifying_key().to_bytes();
        let mut nodes = Nodes::kept(ROOT, |_| Some(key), None);
        let mut looked = Vec::new();
        for number in 1..=12 {
            looked.push(nodes.hear(signed(number, "a:1", ROOT, 2), |_| Some(key)).unwrap());
            if number > 8 {
                tokio::time::advance(Duration::from_secs(5)).await;
            }
        }
        let eight = [true; 8];
        assert_eq!(looked, [&eight[..], &[false, false, true, false]].concat());
    }

    #[test]
    fn only_a_higher_number_of_the_servers_own_is_news_and_two_under_one_number_are_a_lie() {
        let key = SigningKey::from_bytes(&[2; 32]).verifying_key().to_bytes();
        let key_of = |round| (round == Round(1)).then_some(key);
        let mut nodes = Nodes::kept(ROOT, key_of, None);
        let mut hear = |signed| nodes.hear(signed, key_of);
        let refused = |reason| Err(Error::Directory(reason));
        assert_eq!(hear(signed(5, "a:1", ROOT, 3)), refused(DirectoryError::Unsigned));
        assert_eq!(hear(signed(5, "a:1", [9; 32], 2)), refused(DirectoryError::Unsigned));
        assert_eq!(hear(signed(5, "a:1", ROOT, 2)), Ok(true));
        assert_eq!(hear(signed(5, "a:1", ROOT, 2)), Ok(false));
        assert_eq!(hear(signed(5, "b:1", ROOT, 2)), refused(DirectoryError::Other));
        assert_eq!(hear(signed(4, "b:1", ROOT, 2)), Ok(false));
        assert_eq!(hear(signed(6, "b:1", ROOT, 2)), Ok(true));
        assert_eq!(nodes.directory().unwrap().nodes(), ["b:1"]);
        assert_eq!(nodes.hear(signed(7, "c:1", ROOT, 2), |_| None), refused(DirectoryError::Unsigned));

        let kept = |bytes: Vec<u8>, root, key: &[u8; 32]| {
            Nodes::kept(root, |_| Some(*key), Some(bytes)).directory().map(Directory::number)
        };
        let bytes = nodes.encode();
        assert_eq!(kept(bytes.clone(), ROOT, &key), Some(6));
        assert_eq!(kept(bytes.clone(), [9; 32], &key), None);
        assert_eq!(kept(bytes.clone(), ROOT, &ROOT), None);
        assert_eq!(kept(bytes[1..].to_vec(), ROOT, &key), None);
        assert_eq!(kept([&bytes[..], &[0]].concat(), ROOT, &key), None);
        assert_eq!(kept(Vec::new(), ROOT, &key), None);
    }
}
