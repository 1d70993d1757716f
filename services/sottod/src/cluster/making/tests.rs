use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mpir::noop;
use sotto_protocol::Round;
use sotto_wire::{Address, Host, RootKey, Transport};

use super::{Begun, Making, NewNode, NewNodes, begin};
use crate::announcement::{self, Wanted};
use crate::cluster::{NodeId, Places};
use crate::config::Config;
use crate::data::{DataDirectory, DataError};

pub(in crate::cluster) fn config() -> Config {
    let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
    config.allow_no_privacy = true;
    config
}

pub(in crate::cluster) fn node(name: &str) -> NewNode {
    NewNode {
        peers: format!("{name}.example.org:7372"),
        settings: ("sottod.toml", format!("# of node {name}\n")),
    }
}

fn nodes(count: usize) -> NewNodes {
    let voters = (1..=count).map(|number| node(&format!("n{number}"))).collect();
    NewNodes { voters, answerers: Vec::new() }
}

fn address(root: RootKey) -> Address {
    Address::new(Transport::Tls, Host::Name("n1.example.org".into()), 7370, root).unwrap()
}

fn first(out: &Path, count: usize) -> Box<Making> {
    match begin(out, nodes(count)).unwrap() {
        Begun::First(making) => making,
        Begun::There(_) | Begun::Completed(_) => panic!("there is one"),
    }
}

/// Announces something in the directory of the first node.
fn announce(making: &Making) {
    let directory = making.first();
    let manifest = crate::secrets::secret(&directory, "manifest.key").unwrap();
    let manifest = ed25519_dalek::SigningKey::from_bytes(&manifest).verifying_key().to_bytes();
    let parameters = config().parameters(&*noop(), manifest).unwrap();
    let wanted = Wanted { parameters, segments: 1, first: Round(1), covers: None, more: false };
    announcement::take_up(&directory, &making.root_key(), Some(&making.root()), wanted).unwrap();
}

pub(in crate::cluster) fn make(out: &Path, count: usize) -> Address {
    let making = first(out, count);
    announce(&making);
    let address = address(making.root_key());
    making.finish(&address).unwrap();
    address
}

fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn nodes_announce_the_same_under_the_same_keys_and_are_known_apart() {
    let out = tempfile::tempdir().unwrap();
    let address = make(out.path(), 3);
    assert_eq!(
        names(out.path()),
        ["address", "node1", "node2", "node3", "root.key"].map(String::from).into()
    );
    let opened: Vec<_> = (1..=3)
        .map(|number| {
            let data = DataDirectory::open(&out.path().join(format!("node{number}")), None).unwrap();
            // No root key is at hand: what is announced is signed already.
            let announced = data.announce(&*noop(), &config(), Round(1)).unwrap();
            let (identity, cluster, _) = data.split();
            let cluster = cluster.unwrap();
            assert_eq!((cluster.this, cluster.voters.len()), (NodeId::Voter(number), 3));
            assert_eq!(cluster.voters[&number], format!("n{number}.example.org:7372"));
            assert_eq!(identity.root, *address.root_key());
            (identity, announced)
        })
        .collect();
    for pair in opened.windows(2) {
        let [(one, said), (other, said_by_other)] = pair else { panic!("two") };
        assert_eq!(one.manifest.to_bytes(), other.manifest.to_bytes());
        assert_eq!(said.parameters, said_by_other.parameters);
        assert_eq!(said.endorsement, said_by_other.endorsement);
    }
    let file =
        |number: u64, name: &str| fs::read(out.path().join(format!("node{number}")).join(name)).unwrap();
    for name in ["manifest.key", "token.key", "slot.key", "identity", "announcement", "seeds", "seed.key"] {
        assert!(file(1, name) == file(2, name) && file(2, name) == file(3, name), "{name}");
    }
    for name in ["node.key", "node.pem", "peer.key", "peer.pem", "cluster", "sottod.toml"] {
        assert!(file(1, name) != file(2, name) && file(2, name) != file(3, name), "{name}");
    }
}

#[test]
fn answerers_know_whom_they_may_follow_and_a_name_that_is_shared_is_nobody_to_follow() {
    let out = tempfile::tempdir().unwrap();
    let answerers = ["a1", "shared", "a3", "shared", "a5"].map(node).into();
    let Begun::First(making) = begin(out.path(), NewNodes { answerers, ..nodes(3) }).unwrap() else {
        panic!("there is one")
    };
    announce(&making);
    making.finish(&address(making.root_key())).unwrap();
    let all = ["address", "answerers", "node1", "node2", "node3", "root.key"].map(String::from);
    assert_eq!(names(out.path()), all.into());
    let known = |numbers: &[u64]| -> Places {
        numbers.iter().map(|number| (*number, format!("a{number}.example.org:7372"))).collect()
    };
    for (number, before) in [(1, known(&[])), (2, known(&[1])), (4, known(&[1, 3])), (5, known(&[1, 3]))] {
        let directory = out.path().join(format!("answerers/answerer{number}"));
        let data = DataDirectory::open(&directory, None).unwrap();
        data.announce(&*noop(), &config(), Round(1)).unwrap();
        let cluster = data.split().1.unwrap();
        assert_eq!((cluster.this, cluster.voters.len()), (NodeId::Answerer(number), 3));
        assert_eq!(cluster.answerers, before);
        assert!(!names(&directory).contains("root.key"));
    }
}

#[test]
fn no_node_has_the_root_key_and_nobody_else_reads_a_secret() {
    let out = tempfile::tempdir().unwrap();
    make(out.path(), 1);
    let node = out.path().join("node1");
    assert!(!names(&node).contains("root.key"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&node), mode(&out.path().join("root.key"))), (0o700, 0o600));
    let secrets: Vec<_> = names(&node).into_iter().filter(|name| name.ends_with(".key")).collect();
    assert_eq!(secrets.len(), 6, "{secrets:?}");
    for name in secrets {
        assert_eq!(mode(&node.join(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_crash_at_any_step_leaves_what_the_next_attempt_completes() {
    // While the first node is being made, and when it announces something.
    for announced in [false, true] {
        let out = tempfile::tempdir().unwrap();
        let making = first(out.path(), 3);
        if announced {
            announce(&making);
        }
        let abandoned = making.root_key();
        drop(making);
        assert_ne!(
            *make(out.path(), 3).root_key(),
            abandoned,
            "a root key that was made in part is not used"
        );
    }
    // While things are moved to their place: any number of them were.
    for moved in 0..5 {
        let out = tempfile::tempdir().unwrap();
        let address = make(out.path(), 3);
        let making = out.path().join("making");
        fs::create_dir(&making).unwrap();
        for name in ["address", "root.key", "node2", "node1", "node3"].into_iter().take(5 - moved) {
            fs::rename(out.path().join(name), making.join(name)).unwrap();
        }
        match begin(out.path(), nodes(3)).unwrap() {
            Begun::Completed(found) => assert!(found == address),
            _ => panic!("it is not found"),
        }
        let all = ["address", "node1", "node2", "node3", "root.key"].map(String::from);
        assert_eq!(names(out.path()), all.into());
    }
}

#[test]
fn what_is_there_is_left_alone() {
    let out = tempfile::tempdir().unwrap();
    let address = make(out.path(), 1);
    assert!(matches!(begin(out.path(), nodes(1)), Ok(Begun::There(found)) if found == address));
    // Nodes are carried away, and the root key is too.
    fs::rename(out.path().join("node1"), out.path().join("elsewhere")).unwrap();
    fs::remove_file(out.path().join("root.key")).unwrap();
    assert!(matches!(begin(out.path(), nodes(1)), Ok(Begun::There(found)) if found == address));
    // Half of one: what is there may be in use.
    fs::rename(out.path().join("elsewhere"), out.path().join("node1")).unwrap();
    fs::remove_file(out.path().join("address")).unwrap();
    let half = begin(out.path(), nodes(1)).err().unwrap();
    assert!(matches!(&half, DataError::HalfCluster(_)) && half.to_string().contains("root.key"), "{half}");
    // And nobody makes two at once.
    let out = tempfile::tempdir().unwrap();
    let making = first(out.path(), 1);
    assert!(matches!(begin(out.path(), nodes(1)), Err(DataError::InUse(_))));
    drop(making);
}

/// As on volumes of containers, which are there before what belongs into them; half of it may be there from a crash.
#[test]
fn a_node_comes_into_a_place_that_was_there_before() {
    let out = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        fs::create_dir(out.path().join(format!("node{number}"))).unwrap();
    }
    let address = make(out.path(), 3);
    assert!(matches!(begin(out.path(), nodes(3)).unwrap(), Begun::There(found) if found == address));
    let (from, to) = (out.path().join("node1"), out.path().join("moved"));
    let all = names(&from);
    fs::create_dir(&to).unwrap();
    fs::copy(from.join("node.key"), to.join("node.key")).unwrap();
    super::move_to(&from, &to).unwrap();
    assert_eq!(names(&to), all);
    assert!(!from.exists());
    assert_eq!(fs::metadata(to.join("node.key")).unwrap().permissions().mode() & 0o777, 0o600);
}
