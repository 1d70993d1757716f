//! Where the nodes of a server are, as the server tells everybody: one list, of one size, the same bytes for all.
//!
//! A client that joined by the address of one node learns of the others from it, and of those that came later. It believes
//! where they are as little as it must: a node shows a certificate of the root key, whoever named it, so a wrong directory
//! costs attempts to connect and nothing else.

use core::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::error::{DirectoryError, Malformed};
use crate::manifest::SIGNATURE_BYTES;
use crate::{Error, Round};

/// Most nodes in a directory.
pub const NODES_MAX: usize = 64;
/// Longest authority of a node.
pub const AUTHORITY_MAX: usize = 128;
/// Bytes of an encoded directory, however many nodes it has.
pub const DIRECTORY_BYTES: usize = NODES_AT + NODES_MAX * AUTHORITY_MAX;

const NODES_AT: usize = 16;
const SIGNATURE_DOMAIN: &[u8] = b"sotto v4 directory";

/// The nodes of a server that take clients.
///
/// Encoded in 8,208 bytes, integers little-endian:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `number` |
/// | 8 | 8 | `round` |
/// | 16 | 64 times 128 | the authorities, each ASCII, padded with zeros; ascending, and zeros alone behind the last |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    number: u64,
    round: Round,
    nodes: Vec<String>,
}

impl Directory {
    /// A directory of these nodes, in any order, each as `HOST:PORT`; one that is named twice stands in it once.
    ///
    /// # Errors
    /// [`Error::Directory`] for more than [`NODES_MAX`] nodes, or an authority that is empty, longer than
    /// [`AUTHORITY_MAX`], or not printable ASCII without spaces.
    pub fn new(number: u64, round: Round, nodes: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        // One more than may be, so that a caller with very many is refused before they are all kept.
        let mut nodes: Vec<String> = nodes.into_iter().take(NODES_MAX + 1).collect();
        nodes.sort();
        nodes.dedup();
        if nodes.len() > NODES_MAX {
            return Err(Error::Directory(DirectoryError::TooMany));
        }
        if !nodes.iter().all(|node| is_authority(node.as_bytes())) {
            return Err(Error::Directory(DirectoryError::Authority));
        }
        Ok(Self { number, round, nodes })
    }

    /// Counts up with every change. Of two directories the one with the higher number holds.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The newest round that had opened when it was made, which says under which key it is signed.
    #[must_use]
    pub const fn round(&self) -> Round {
        self.round
    }

    /// The nodes as `HOST:PORT`, ascending byte by byte.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The fixed layout.
    #[must_use]
    pub fn encode(&self) -> Box<[u8; DIRECTORY_BYTES]> {
        let mut bytes = Box::new([0; DIRECTORY_BYTES]);
        let (head, entries) = bytes.split_at_mut(NODES_AT);
        let numbers = [self.number, self.round.0].map(u64::to_le_bytes);
        head.copy_from_slice(numbers.as_flattened());
        for (entry, node) in entries.chunks_exact_mut(AUTHORITY_MAX).zip(&self.nodes) {
            entry.iter_mut().zip(node.bytes()).for_each(|(place, byte)| *place = byte);
        }
        bytes
    }

    /// Reads what [`Directory::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another size, an authority that is none, one out of order, or anything in the padding.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = || Error::Malformed(Malformed::Directory);
        if bytes.len() != DIRECTORY_BYTES {
            return Err(malformed());
        }
        let (numbers, entries) = bytes.split_at(NODES_AT);
        let (numbers, _) = numbers.as_chunks::<8>();
        let [number, round] = [numbers[0], numbers[1]].map(u64::from_le_bytes);
        let mut nodes: Vec<String> = Vec::new();
        let mut over = false;
        for entry in entries.as_chunks::<AUTHORITY_MAX>().0 {
            let length = entry.iter().position(|byte| *byte == 0).unwrap_or(AUTHORITY_MAX);
            let (node, padding) = entry.split_at(length);
            if padding.iter().any(|byte| *byte != 0) {
                return Err(malformed());
            }
            if node.is_empty() {
                over = true;
                continue;
            }
            if over || !is_authority(node) {
                return Err(malformed());
            }
            let node = String::from_utf8(node.to_vec()).map_err(|_| malformed())?;
            if nodes.last().is_some_and(|last| *last >= node) {
                return Err(malformed());
            }
            nodes.push(node);
        }
        Ok(Self { number, round: Round(round), nodes })
    }
}

/// Whether these bytes may stand in a directory. Whether a host has such a name shows when somebody connects.
fn is_authority(node: &[u8]) -> bool {
    (1..=AUTHORITY_MAX).contains(&node.len()) && node.iter().all(u8::is_ascii_graphic)
}

/// An encoded directory with an Ed25519 signature over a domain, the root key of the cluster and those bytes; not verified yet.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedDirectory {
    /// The encoded directory.
    pub bytes: Box<[u8; DIRECTORY_BYTES]>,
    /// The signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl SignedDirectory {
    /// Signs a directory for the cluster of this root key, with the key that signs manifests.
    #[must_use]
    pub fn sign(directory: &Directory, root: &[u8; 32], key: &SigningKey) -> Self {
        let bytes = directory.encode();
        let signature = key.sign(&signed_bytes(root, &bytes)).to_bytes();
        Self { bytes, signature }
    }

    /// A directory and its signature as they are sent and stored.
    ///
    /// # Errors
    /// [`Error::Malformed`] for other sizes.
    pub fn from_parts(bytes: &[u8], signature: &[u8]) -> Result<Self, Error> {
        let malformed = |_| Error::Malformed(Malformed::Directory);
        let bytes: &[u8; DIRECTORY_BYTES] = bytes.try_into().map_err(malformed)?;
        let signature = signature.try_into().map_err(malformed)?;
        Ok(Self { bytes: Box::new(*bytes), signature })
    }

    /// The number that it has if it is one; not verified.
    #[must_use]
    pub fn claimed_number(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
    }

    /// The round that it names if it is one; not verified.
    #[must_use]
    pub fn claimed_round(&self) -> Round {
        let round = self.bytes[8..].first_chunk();
        Round(round.map_or(0, |round| u64::from_le_bytes(*round)))
    }

    /// The directory, if the holder of `manifest_key` signed exactly it for the cluster of this root key (strict
    /// verification, RFC 8032 without small-order keys).
    ///
    /// # Errors
    /// [`Error::Directory`] for a signature of somebody else; [`Error::Malformed`] as for [`Directory::decode`].
    pub fn verify(&self, root: &[u8; 32], manifest_key: &[u8; 32]) -> Result<Directory, Error> {
        let refused = |_| Error::Directory(DirectoryError::Unsigned);
        let key = VerifyingKey::from_bytes(manifest_key).map_err(refused)?;
        let signature = Signature::from_bytes(&self.signature);
        key.verify_strict(&signed_bytes(root, &self.bytes), &signature).map_err(refused)?;
        Directory::decode(&*self.bytes)
    }
}

// Eight kilobytes of bytes tell nobody anything.
impl fmt::Debug for SignedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedDirectory").finish_non_exhaustive()
    }
}

fn signed_bytes(root: &[u8; 32], directory: &[u8; DIRECTORY_BYTES]) -> Vec<u8> {
    [SIGNATURE_DOMAIN, root, directory].concat()
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    use super::{AUTHORITY_MAX, Directory, NODES_AT, NODES_MAX, SignedDirectory};
    use crate::error::{DirectoryError, Malformed};
    use crate::{Error, Round};

    fn directory(nodes: &[&str]) -> Directory {
        Directory::new(3, Round(9), nodes.iter().map(|node| (*node).to_owned())).unwrap()
    }

    fn nodes() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[!-~]{1,128}", 0..=NODES_MAX)
    }

    proptest! {
        #[test]
        fn a_directory_reads_back_as_itself_and_has_one_size(nodes in nodes(), number in 0..u64::MAX) {
            let directory = Directory::new(number, Round(!number), nodes).unwrap();
            prop_assert_eq!(Directory::decode(&*directory.encode()), Ok(directory));
        }
    }

    #[test]
    fn more_nodes_than_there_is_room_for_and_what_is_no_authority_are_refused() {
        let of = |nodes: Vec<String>| Directory::new(1, Round(1), nodes);
        let many = |count: usize| (0..count).map(|port| format!("a:{port}")).collect();
        assert_eq!(of(many(NODES_MAX)).unwrap().nodes().len(), NODES_MAX);
        assert_eq!(of(many(NODES_MAX + 1)), Err(Error::Directory(DirectoryError::TooMany)));
        for wrong in
            [String::new(), "a".repeat(AUTHORITY_MAX + 1), "a b:1".into(), "\u{e4}:1".into(), "a\0:1".into()]
        {
            assert_eq!(of(vec![wrong]), Err(Error::Directory(DirectoryError::Authority)));
        }
        assert_eq!(directory(&["b:1", "a:1", "b:1"]).nodes(), ["a:1", "b:1"]);
    }

    /// There is one encoding of a directory, so that equal numbers can be told to mean equal bytes.
    #[test]
    fn what_is_not_the_one_encoding_is_refused() {
        let good = directory(&["a:1", "b:1"]).encode();
        let entry = |number: usize| NODES_AT + number * AUTHORITY_MAX;
        let refused = |spoil: &dyn Fn(&mut [u8])| {
            let mut bytes = good.clone();
            spoil(&mut bytes[..]);
            assert_eq!(Directory::decode(&bytes[..]), Err(Error::Malformed(Malformed::Directory)));
        };
        refused(&|bytes| bytes[entry(0)] = b'c');
        refused(&|bytes| bytes[entry(0)] = b'b');
        refused(&|bytes| bytes[entry(0)] = 0);
        refused(&|bytes| bytes[entry(0) + 1] = b' ');
        refused(&|bytes| bytes[entry(1) + AUTHORITY_MAX - 1] = b'1');
        refused(&|bytes| bytes[entry(3)] = b'c');
        refused(&|bytes| bytes[entry(0)..entry(1)].fill(0));
        for size in [0, NODES_AT, good.len() - 1] {
            assert!(Directory::decode(&good[..size]).is_err());
        }
        assert!(Directory::decode(&[&good[..], &[0]].concat()).is_err());
        assert_eq!(Directory::decode(&good[..]), Ok(directory(&["a:1", "b:1"])));
    }

    #[test]
    fn a_directory_of_another_root_or_key_is_refused() {
        let (key, other) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let public = |key: &SigningKey| key.verifying_key().to_bytes();
        let signed = SignedDirectory::sign(&directory(&["a:1"]), &[7; 32], &key);
        let refused = Err(Error::Directory(DirectoryError::Unsigned));
        assert_eq!(signed.verify(&[7; 32], &public(&key)), Ok(directory(&["a:1"])));
        assert_eq!(signed.verify(&[8; 32], &public(&key)), refused);
        assert_eq!(signed.verify(&[7; 32], &public(&other)), refused);
        let mut raised = signed.clone();
        raised.bytes[0] += 1;
        assert_eq!(raised.verify(&[7; 32], &public(&key)), refused);
        assert!(SignedDirectory::from_parts(&signed.bytes[1..], &signed.signature).is_err());
        // Before it is verified it says which one it would be.
        assert_eq!((signed.claimed_number(), signed.claimed_round()), (3, Round(9)));
        let verified = directory(&["a:1"]);
        assert_eq!((verified.number(), verified.round()), (3, Round(9)));
        assert_eq!(SignedDirectory::from_parts(&signed.bytes[..], &signed.signature), Ok(signed));
    }
}
