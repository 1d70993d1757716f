//! Which cluster a data directory is of, and which of its nodes. A directory without these files is of a server alone.
//!
//! ```text
//! cluster    the node's own number, and number and address of every node
//! peer.key   the key of the certificate that the node shows to the others, and
//! peer.pem   that certificate, see `peer_certificate`
//! ```

pub(crate) mod making;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use sotto_files::replace;
use sotto_wire::RootKey;
use sotto_wire::address::parse_authority;

use crate::data::DataError;
use crate::peer_certificate::PeerCertificate;

const FILE: &str = "cluster";
/// Longer than any such file.
const BYTES_MAX: u64 = 64 << 10;
/// Nodes are numbered from 1 to this.
const NUMBER_MAX: u64 = 1 << 16;
const MEMBERS_MAX: usize = 64;
/// Longest address of a node, bytes.
const ADDRESS_MAX: usize = 256;

/// Under which host and port every node listens for the others, by its number.
type Members = BTreeMap<u64, String>;

/// A node's place in its cluster.
pub(crate) struct Cluster {
    /// Its own number.
    pub(crate) number: u64,
    /// All nodes, itself included.
    pub(crate) members: Members,
    /// What it shows to the others.
    pub(crate) certificate: PeerCertificate,
}

/// The file: numbers and addresses.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    number: u64,
    members: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    number: u64,
    address: String,
}

impl Cluster {
    /// The one that a directory is of, if it is of one.
    pub(crate) fn load(directory: &Path, root: &RootKey) -> Result<Option<Self>, DataError> {
        let Some((number, members)) = read(directory)? else { return Ok(None) };
        let certificate = PeerCertificate::load(directory, number, members.keys().copied(), root)?;
        Ok(Some(Self { number, members, certificate }))
    }

    /// Whether a directory is of a cluster.
    pub(crate) fn is_of_one(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// Makes the certificate for the other nodes anew, if the directory is of a cluster.
    pub(crate) fn certify(directory: &Path, root: &SigningKey) -> Result<(), DataError> {
        match read(directory)? {
            Some((number, _)) => Ok(PeerCertificate::create(directory, number, root)?),
            None => Ok(()),
        }
    }

    /// Makes a directory one of a cluster's node. Its certificate is there first: with the file, all is there.
    fn create(directory: &Path, number: u64, members: &Members, root: &SigningKey) -> Result<(), DataError> {
        let path = directory.join(FILE);
        let failed = |source| DataError::Directory { path: directory.to_owned(), source };
        let wrong = |what| DataError::Cluster { path: path.clone(), what };
        check(number, members).map_err(wrong)?;
        let all =
            members.iter().map(|(number, address)| Member { number: *number, address: address.clone() });
        let text = toml::to_string(&Written { number, members: all.collect() });
        let text = text.map_err(io::Error::other).map_err(failed)?;
        PeerCertificate::create(directory, number, root)?;
        replace(&path, text.as_bytes(), 0o644).map_err(failed)
    }
}

/// A directory's number and members, if it is of a cluster.
fn read(directory: &Path) -> Result<Option<(u64, Members)>, DataError> {
    let path: PathBuf = directory.join(FILE);
    let failed = |source| DataError::Directory { path: path.clone(), source };
    let wrong = |what| DataError::Cluster { path: path.clone(), what };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong("it is longer than any list of nodes"));
    }
    let Written { number, members: listed } =
        toml::from_str(&text).map_err(|_| wrong("it is not what was written"))?;
    if listed.len() > MEMBERS_MAX {
        return Err(wrong("it has more than 64 nodes"));
    }
    let mut members = Members::new();
    for Member { number, address } in listed {
        if members.insert(number, address).is_some() {
            return Err(wrong("it has a number twice"));
        }
    }
    check(number, &members).map_err(wrong)?;
    Ok(Some((number, members)))
}

/// What is wrong with a list of nodes, if anything is.
fn check(number: u64, members: &Members) -> Result<(), &'static str> {
    if members.len() > MEMBERS_MAX {
        return Err("it has more than 64 nodes");
    }
    if members.keys().any(|number| !(1..=NUMBER_MAX).contains(number)) {
        return Err("the number of a node is not 1 to 65536");
    }
    if !members.contains_key(&number) {
        return Err("the node's own number is not among the nodes");
    }
    if members.values().any(|address| address.len() > ADDRESS_MAX || parse_authority(address).is_err()) {
        return Err("the address of a node is not HOST:PORT, or longer than 256 bytes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ed25519_dalek::SigningKey;
    use sotto_wire::RootKey;

    use super::{Cluster, FILE, Members};
    use crate::certificate::CertificateError;
    use crate::data::DataError;

    fn members() -> Members {
        [(1, "a.example.org:7372".into()), (2, "[2001:db8::7]:7".into()), (65536, "192.0.2.7:7372".into())]
            .into()
    }

    #[test]
    fn a_node_reads_back_which_one_it_is_and_who_the_others_are() {
        let directory = tempfile::tempdir().unwrap();
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        assert!(Cluster::load(directory.path(), &key).unwrap().is_none());
        Cluster::certify(directory.path(), &root).unwrap();
        assert!(!directory.path().join("peer.pem").exists(), "a server alone has no peers");
        Cluster::create(directory.path(), 2, &members(), &root).unwrap();
        let loaded = Cluster::load(directory.path(), &key).unwrap().unwrap();
        assert_eq!((loaded.number, loaded.members), (2, members()));

        let before = fs::read(directory.path().join("peer.pem")).unwrap();
        Cluster::certify(directory.path(), &root).unwrap();
        assert_ne!(fs::read(directory.path().join("peer.pem")).unwrap(), before);
        Cluster::load(directory.path(), &key).unwrap();
        fs::remove_file(directory.path().join("peer.key")).unwrap();
        let missing = Cluster::load(directory.path(), &key).err().unwrap();
        assert!(matches!(missing, DataError::Certificate(CertificateError::File { .. })), "{missing}");
    }

    #[test]
    fn a_list_of_nodes_that_cannot_be_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = RootKey(SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
        let member =
            |number: u64, address: &str| format!("[[members]]\nnumber = {number}\naddress = \"{address}\"\n");
        let many: String = (1..=65).map(|number| member(number, "a:1")).collect();
        for (text, word) in [
            (format!("number = 2\n{}", member(1, "a:1")), "own number"),
            (format!("number = 0\n{}", member(0, "a:1")), "1 to 65536"),
            (format!("number = 1\n{}{}", member(1, "a:1"), member(65537, "b:1")), "1 to 65536"),
            (format!("number = 1\n{}{}", member(1, "a:1"), member(1, "b:1")), "twice"),
            (format!("number = 1\n{many}"), "64"),
            (format!("number = 1\n{}", member(1, "a")), "HOST:PORT"),
            (format!("number = 1\n{}", member(1, &format!("{}:1", "a".repeat(256)))), "HOST:PORT"),
            ("number = 1\nmembers = []".into(), "own number"),
            (format!("number = 1\nname = 5\n{}", member(1, "a:1")), "not what was written"),
            ("#".repeat(70_000), "longer"),
        ] {
            fs::write(directory.path().join(FILE), &text).unwrap();
            let error = Cluster::load(directory.path(), &root).err().expect(word).to_string();
            assert!(error.contains(word) && error.contains("cluster"), "{word}: {error}");
        }
    }
}
