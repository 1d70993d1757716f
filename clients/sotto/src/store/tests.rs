//! What is kept, who can read it, and what a crash leaves of it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::format::HEAD_BYTES;
use super::{NODES, STATE, Store, StoreError, default_directory};
use sotto_wire::{Host, RootKey, Transport};

use crate::Address;

fn address() -> Address {
    Address::new(Transport::Tls, Host::Ip(Ipv4Addr::LOCALHOST.into()), 7447, RootKey([7; 32])).unwrap()
}

#[test]
fn what_is_saved_is_read_back() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("a").join("b");
    assert!(matches!(Store::open(&directory), Err(StoreError::Missing(_))));
    let store = Store::create(&directory, address()).unwrap();
    store.save(b"first").unwrap();
    store.save(b"second").unwrap();
    drop(store);
    let (store, snapshot) = Store::open(&directory).unwrap();
    assert_eq!((store.address(), &snapshot[..]), (&address(), &b"second"[..]));
    drop(store);
    assert!(matches!(Store::create(&directory, address()), Err(StoreError::Exists(_))));
}

#[test]
fn two_processes_cannot_use_one_state() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(home.path(), address()).unwrap();
    store.save(b"state").unwrap();
    let refused = Store::open(home.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Locked(_)), "{refused}");
    assert!(refused.to_string().contains("another program"));
    drop(store);
    assert!(Store::open(home.path()).is_ok());
}

#[test]
fn a_crash_while_writing_leaves_the_old_state() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(home.path(), address()).unwrap();
    store.save(b"old").unwrap();
    drop(store);
    fs::write(home.path().join("state.new"), b"half of the n").unwrap();
    let (store, snapshot) = Store::open(home.path()).unwrap();
    assert_eq!(&snapshot[..], b"old");
    store.save(b"new").unwrap();
}

#[test]
fn a_damaged_state_is_never_used() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(home.path(), address()).unwrap();
    store.save(b"precious").unwrap();
    drop(store);
    let path = home.path().join(STATE);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(matches!(Store::open(home.path()), Err(StoreError::Damaged { .. })), "cut at {cut}");
    }
    for place in (0..whole.len()).filter(|place| *place != 11) {
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        fs::write(&path, flipped).unwrap();
        assert!(matches!(Store::open(home.path()), Err(StoreError::Damaged { .. })), "flipped {place}");
    }
    let mut newer = whole.clone();
    newer[11] = 3;
    fs::write(&path, newer).unwrap();
    assert!(matches!(Store::open(home.path()), Err(StoreError::Newer(_))));
    assert!(whole.len() > HEAD_BYTES);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("state-directory");
    let store = Store::create(&directory, address()).unwrap();
    store.save(b"secret").unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(directory.join(STATE)), 0o600);
    assert_eq!(mode(directory.clone()), 0o700);

    // Also over what somebody else has put in the way.
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, b"").unwrap();
    std::os::unix::fs::symlink(&elsewhere, directory.join("state.new")).unwrap();
    store.save(b"secret").unwrap();
    fs::write(directory.join("state.new"), b"").unwrap();
    fs::set_permissions(directory.join("state.new"), fs::Permissions::from_mode(0o644)).unwrap();
    store.save(b"secret").unwrap();
    assert_eq!(mode(directory.join(STATE)), 0o600);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"");
}

#[test]
fn the_directory_follows_the_environment() {
    let with = |set: &'static [(&str, &str)]| {
        default_directory(move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    };
    assert_eq!(with(&[("HOME", "/h")]), Some("/h/.local/share/sotto".into()));
    assert_eq!(with(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]), Some("/x/sotto".into()));
    assert_eq!(with(&[("HOME", "/h"), ("XDG_DATA_HOME", "relative")]), Some("/h/.local/share/sotto".into()));
    assert_eq!(with(&[("SOTTO_HOME", "/s"), ("XDG_DATA_HOME", "/x")]), Some("/s".into()));
    assert_eq!(with(&[]), None);
}

#[test]
fn a_directory_of_nodes_is_kept_and_one_that_is_too_long_is_read_no_further() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(home.path(), address()).unwrap();
    assert_eq!(store.known_nodes(), None);
    store.keep_directory(b"one").unwrap();
    store.keep_directory(b"another").unwrap();
    assert_eq!(store.known_nodes(), Some(b"another".to_vec()));
    store.keep_directory(&vec![1; 1 << 20]).unwrap();
    assert_eq!(store.known_nodes().map(|bytes| bytes.len()), Some(8208 + 64 + 1));
}

#[test]
fn an_account_that_its_server_may_not_know_is_taken_up_again_until_it_does() {
    let home = tempfile::tempdir().unwrap();
    let joining = || Store::is_joining(home.path());
    let store = Store::create(home.path(), address()).unwrap();
    store.set_joining(true).unwrap();
    assert!(!joining(), "there is no state yet");
    store.save(b"snapshot").unwrap();
    drop(store);
    assert!(joining());
    let (store, snapshot) = Store::open(home.path()).unwrap();
    assert_eq!(snapshot[..], b"snapshot"[..]);
    store.set_joining(false).unwrap();
    drop(store);
    assert!(!joining());

    let (store, _) = Store::open(home.path()).unwrap();
    store.set_joining(true).unwrap();
    store.discard().unwrap();
    assert!(!joining() && Store::create(home.path(), address()).is_ok());
}

/// Commands that look at such a directory would stand still for ever.
#[test]
#[cfg(unix)]
fn nobody_waits_for_a_pipe_in_the_place_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    for name in [STATE, NODES, "history"] {
        let made = std::process::Command::new("mkfifo").arg(home.path().join(name)).status().unwrap();
        assert!(made.success());
    }
    let Err(refused) = super::read(home.path(), None) else { panic!("a pipe is no state") };
    assert!(refused.to_string().contains("no file"), "{refused}");
    let no_file = super::open_file(&home.path().join("history")).unwrap_err();
    assert_eq!(no_file.kind(), std::io::ErrorKind::InvalidData);
    assert!(super::open_file(&home.path().join(NODES)).is_err());
}
