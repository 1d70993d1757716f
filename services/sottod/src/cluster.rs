//! Which cluster a data directory is of, and which of its nodes. A directory without these files is of a server alone.
//!
//! ```text
//! cluster    which node this is, and number and address of every voter, and of the answerers that it may follow
//! peer.key   the key of the certificate that the node shows to the others, and
//! peer.pem   that certificate, see `peer_certificate`
//! ```

pub(crate) mod install;
pub(crate) mod making;
pub(crate) mod more;

use core::fmt;
use core::ops::RangeInclusive;
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
const BYTES_MAX: u64 = 128 << 10;
/// How nodes are numbered.
pub(crate) const NUMBERS: RangeInclusive<u64> = 1..=1 << 16;
const VOTERS_MAX: usize = 64;
/// That one answerer may follow.
const ANSWERERS_MAX: usize = 256;
/// Longest address of a node, bytes.
const ADDRESS_MAX: usize = 256;

/// Under which host and port nodes listen for each other, by their numbers.
pub(crate) type Places = BTreeMap<u64, String>;

/// A node of a cluster, and what it is there for. Voters and answerers are numbered apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeId {
    /// It has a vote in the order of the log.
    Voter(u64),
    /// It follows the log, and answers people.
    Answerer(u64),
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voter(number) => write!(formatter, "node {number}"),
            Self::Answerer(number) => write!(formatter, "answerer {number}"),
        }
    }
}

/// A node's place in its cluster.
pub(crate) struct Cluster {
    /// Which one it is.
    pub(crate) this: NodeId,
    /// All voters, itself included if it is one.
    pub(crate) voters: Places,
    /// Answerers that this one may follow: they have lower numbers, so that none follows itself.
    pub(crate) answerers: Places,
    /// Whether the cluster was there before it, and takes it in when it is told to. Otherwise it is one of those that found it.
    pub(crate) joins: bool,
    /// What it shows to the others.
    pub(crate) certificate: PeerCertificate,
}

/// The file: numbers and addresses.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    number: u64,
    /// Whether the number is an answerer's.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    answers: bool,
    /// Whether the node came later.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    joins: bool,
    members: Vec<Member>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answerers: Vec<Member>,
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
        let Some(known) = read(directory)? else { return Ok(None) };
        let Known { this, voters, answerers, joins } = known;
        let certificate = PeerCertificate::load(directory, this, root)?;
        Ok(Some(Self { this, voters, answerers, joins, certificate }))
    }

    /// Whether a directory is of a cluster.
    pub(crate) fn is_of_one(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// Makes the certificate for the other nodes anew, if the directory is of a cluster.
    pub(crate) fn certify(directory: &Path, root: &SigningKey) -> Result<(), DataError> {
        match read(directory)? {
            Some(Known { this, .. }) => Ok(PeerCertificate::create(directory, this, root)?),
            None => Ok(()),
        }
    }

    /// Makes a directory one of a cluster's node. Its certificate is there first: with the file, all is there.
    fn create(
        directory: &Path,
        this: NodeId,
        (voters, answerers): (&Places, &Places),
        joins: bool,
        root: &SigningKey,
    ) -> Result<(), DataError> {
        let path = directory.join(FILE);
        let failed = |source| DataError::Directory { path: directory.to_owned(), source };
        let wrong = |what| DataError::Cluster { path: path.clone(), what };
        check(this, voters, answerers).map_err(wrong)?;
        let list = |places: &Places| {
            let all = places.iter();
            all.map(|(number, address)| Member { number: *number, address: address.clone() }).collect()
        };
        let (number, answers) = match this {
            NodeId::Voter(number) => (number, false),
            NodeId::Answerer(number) => (number, true),
        };
        let written = Written { number, answers, joins, members: list(voters), answerers: list(answerers) };
        let text = toml::to_string(&written).map_err(io::Error::other).map_err(failed)?;
        PeerCertificate::create(directory, this, root)?;
        replace(&path, text.as_bytes(), 0o644).map_err(failed)
    }
}

/// What stands in the file.
struct Known {
    this: NodeId,
    voters: Places,
    answerers: Places,
    joins: bool,
}

/// Which node a directory is of, if it is of a cluster, and which others it knows.
fn read(directory: &Path) -> Result<Option<Known>, DataError> {
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
    let Written { number, answers, joins, members, answerers } =
        toml::from_str(&text).map_err(|_| wrong("it is not what was written"))?;
    let this = if answers { NodeId::Answerer(number) } else { NodeId::Voter(number) };
    let (voters, answerers) = (places(members).map_err(wrong)?, places(answerers).map_err(wrong)?);
    check(this, &voters, &answerers).map_err(wrong)?;
    Ok(Some(Known { this, voters, answerers, joins }))
}

fn places(listed: Vec<Member>) -> Result<Places, &'static str> {
    let mut places = Places::new();
    for Member { number, address } in listed {
        if places.insert(number, address).is_some() {
            return Err("it has a number twice");
        }
    }
    Ok(places)
}

/// What is wrong with lists of nodes, if anything is.
fn check(this: NodeId, voters: &Places, answerers: &Places) -> Result<(), &'static str> {
    if voters.len() > VOTERS_MAX || answerers.len() > ANSWERERS_MAX {
        return Err("it has more than 64 nodes that vote, or more than 256 to follow");
    }
    let (NodeId::Voter(own) | NodeId::Answerer(own)) = this;
    let mut numbers = voters.keys().chain(answerers.keys()).chain([&own]);
    if numbers.any(|number| !NUMBERS.contains(number)) {
        return Err("the number of a node is not 1 to 65536");
    }
    match this {
        NodeId::Voter(number) if !voters.contains_key(&number) => {
            return Err("the node's own number is not among the nodes");
        }
        NodeId::Voter(_) if !answerers.is_empty() => return Err("a node that votes follows no other"),
        NodeId::Answerer(_) if voters.is_empty() => return Err("nobody is there to follow"),
        NodeId::Answerer(number) if answerers.keys().any(|other| *other >= number) => {
            return Err("a node would follow one with a higher number");
        }
        NodeId::Voter(_) | NodeId::Answerer(_) => {}
    }
    let mut addresses = voters.values().chain(answerers.values());
    if addresses.any(|address| address.len() > ADDRESS_MAX || parse_authority(address).is_err()) {
        return Err("the address of a node is not HOST:PORT, or longer than 256 bytes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ed25519_dalek::SigningKey;
    use sotto_wire::RootKey;

    use super::NodeId::{Answerer, Voter};
    use super::{Cluster, FILE, Places};
    use crate::certificate::CertificateError;
    use crate::data::DataError;

    fn voters() -> Places {
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
        Cluster::create(directory.path(), Voter(2), (&voters(), &Places::new()), false, &root).unwrap();
        let loaded = Cluster::load(directory.path(), &key).unwrap().unwrap();
        assert_eq!((loaded.this, loaded.voters), (Voter(2), voters()));

        let before = fs::read(directory.path().join("peer.pem")).unwrap();
        Cluster::certify(directory.path(), &root).unwrap();
        assert_ne!(fs::read(directory.path().join("peer.pem")).unwrap(), before);
        Cluster::load(directory.path(), &key).unwrap();
        fs::remove_file(directory.path().join("peer.key")).unwrap();
        let missing = Cluster::load(directory.path(), &key).err().unwrap();
        assert!(matches!(missing, DataError::Certificate(CertificateError::File { .. })), "{missing}");
    }

    #[test]
    fn an_answerer_reads_back_whom_it_may_follow() {
        let directory = tempfile::tempdir().unwrap();
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let before = Places::from([(1, "e.example.org:7372".into()), (4, "f.example.org:7372".into())]);
        Cluster::create(directory.path(), Answerer(5), (&voters(), &before), false, &root).unwrap();
        let loaded = Cluster::load(directory.path(), &key).unwrap().unwrap();
        assert_eq!((loaded.this, loaded.voters, loaded.answerers), (Answerer(5), voters(), before));
        Cluster::certify(directory.path(), &root).unwrap();
        Cluster::load(directory.path(), &key).unwrap();
    }

    #[test]
    fn a_list_of_nodes_that_cannot_be_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = RootKey(SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
        let member =
            |number: u64, address: &str| format!("[[members]]\nnumber = {number}\naddress = \"{address}\"\n");
        let many: String = (1..=65).map(|number| member(number, "a:1")).collect();
        let listed = |number: u64| format!("[[answerers]]\nnumber = {number}\naddress = \"a:1\"\n");
        for (text, word) in [
            (format!("number = 1\n{}{}", member(1, "a:1"), listed(1)), "follows no other"),
            ("number = 1\nanswers = true\nmembers = []".into(), "nobody"),
            (format!("number = 2\nanswers = true\n{}{}", member(1, "a:1"), listed(2)), "higher"),
            (format!("number = 0\nanswers = true\n{}", member(1, "a:1")), "1 to 65536"),
            (format!("number = 2\nanswers = true\n{}{}{}", member(1, "a:1"), listed(1), listed(1)), "twice"),
            (format!("number = 2\n{}", member(1, "a:1")), "own number"),
            (format!("number = 0\n{}", member(0, "a:1")), "1 to 65536"),
            (format!("number = 1\n{}{}", member(1, "a:1"), member(65537, "b:1")), "1 to 65536"),
            (format!("number = 1\n{}{}", member(1, "a:1"), member(1, "b:1")), "twice"),
            (format!("number = 1\n{many}"), "64"),
            (format!("number = 1\n{}", member(1, "a")), "HOST:PORT"),
            (format!("number = 1\n{}", member(1, &format!("{}:1", "a".repeat(256)))), "HOST:PORT"),
            ("number = 1\nmembers = []".into(), "own number"),
            (format!("number = 1\nname = 5\n{}", member(1, "a:1")), "not what was written"),
            ("#".repeat(140_000), "longer"),
        ] {
            fs::write(directory.path().join(FILE), &text).unwrap();
            let error = Cluster::load(directory.path(), &root).err().expect(word).to_string();
            assert!(error.contains(word) && error.contains("cluster"), "{word}: {error}");
        }
    }
}
