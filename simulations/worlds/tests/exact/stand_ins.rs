//! A server of several nodes that are known by its directory, and sessions that are held ready: home dies or hangs, nodes come and
//! go, directories lie. Whether people talk shows nowhere, and no round goes by without them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::SigningKey;
use mpir::noop;
use sotto::Address;
use sotto_protocol::client::Client;
use sotto_protocol::{Directory, Round, RoundMode, ServerParameters, SignedDirectory};
use sotto_session::ConnectionSettings;
use sotto_wire::proto;
use tokio::sync::mpsc;

use crate::lies::Call;
use crate::machine::{Line, Machine, Memory};
use crate::server::{Account, Seen};
use crate::traces::difference;
use crate::wire::Wire;
use crate::world::{FIRST, Person, SPREAD_MS, Told, World, account, drawn, parameters, quick};

/// The nodes there are, of which the account's order makes its first, second and third.
const NODES: [&str; 3] = ["127.0.0.1:7370", "127.0.0.1:7371", "127.0.0.1:7372"];
/// When home is asked first: the keys are drawn before.
const BEGAN_MS: u64 = 540;
/// A home that hangs is given up by then: it is probed every second, and has two to answer.
const NOTICED_MS: u64 = 3_000;

/// What happens to Alice's nodes.
struct Stage {
    world: World,
    machine: std::sync::Arc<Machine>,
    disk: Memory,
    wires: Vec<Wire>,
    /// In the order of Alice.
    order: Vec<String>,
    alice: Option<Person>,
    /// What Alice heard before her program was started again.
    heard: Vec<String>,
    refusing: mpsc::UnboundedSender<tokio::io::DuplexStream>,
}

impl Stage {
    fn address(&self, nodes: &[usize]) -> Address {
        let nodes: Vec<&str> = nodes.iter().map(|node| self.order[*node].as_str()).collect();
        self.world.settings().address.to_string().replace(NODES[0], &nodes.join(",")).parse().unwrap()
    }

    async fn join(&mut self, client: Client, nodes: &[usize]) {
        let settings = ConnectionSettings { address: self.address(nodes), ..self.world.settings() };
        let (machine, disk) = (self.machine.clone(), self.disk.clone());
        let joined = self.world.start_with(settings, client, machine, self.world.wire(), disk).await;
        self.alice = Some(joined.unwrap());
    }

    /// A node ends: it refuses, and whoever was there is forgotten.
    fn die(&self, node: usize) {
        self.machine.lead(&self.order[node], self.refusing.clone());
        self.wires[node].cut();
        self.world.server.forget(node as u8, &self.alice.as_ref().unwrap().account);
    }

    fn directory(&self, number: u64, nodes: &[usize]) -> Directory {
        let nodes = nodes.iter().map(|node| self.order[*node].clone());
        Directory::new(number, FIRST, nodes).unwrap()
    }

    fn tell(&self, number: u64, nodes: &[usize]) {
        let (root, key) = (self.world.server.root(), self.world.server.key_of(FIRST));
        let signed = SignedDirectory::sign(&self.directory(number, nodes), &root, &key);
        self.world.server.tell_directory((&signed).into());
    }

    /// Ends the program at the end of a round, and starts it again with the same disk.
    async fn start_again(&mut self, nodes: &[usize]) {
        let mut alice = self.alice.take().unwrap();
        let client = alice.handle.finish().await.unwrap();
        self.heard.extend(alice.told().texts);
        self.join(Client::restore(&client.snapshot()).unwrap(), nodes).await;
    }
}

struct Observed {
    tape: Vec<Line>,
    seen: Vec<Seen>,
    dialled: Vec<(u64, usize)>,
    account: Account,
    alice: Told,
    bob: Told,
}

impl Observed {
    fn calls(&self, call: Call) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(move |seen| seen.call == call)
    }

    /// When the account opens its stand-in for the time of that number, if it begins to want one then.
    fn opens(&self, from_ms: u64, number: u64) -> u64 {
        from_ms + drawn(&self.account, 1, number, SPREAD_MS)
    }
}

async fn observe<S: AsyncFn(&mut Stage)>(
    talks: bool,
    server: ServerParameters,
    joined: &[usize],
    script: &S,
) -> Observed {
    let mut world = World::new(1, server, 2);
    let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 2));
    if talks {
        let [at_alice, at_bob] = world.introduce(&mut alice, &mut bob);
        for text in 0..6 {
            alice.queue_text(at_alice, &format!("text {text}")).unwrap();
            bob.queue_text(at_bob, &format!("text {text}")).unwrap();
        }
    }
    let mut bob = world.start(bob, quick).await;
    let account = account(&alice);
    let all: Address =
        world.settings().address.to_string().replace(NODES[0], &NODES.join(",")).parse().unwrap();
    let order: Vec<String> = all.in_order_of(&account, None).iter().map(Address::authority).collect();
    let wires: Vec<Wire> = (0..3).map(|node| world.wire_to(node)).collect();
    let (disk, seed) = (Memory::new(world.began), world.rng("machine of Alice"));
    let machine = Machine::new(wires[0].dial.clone(), world.began, seed, quick);
    for (authority, wire) in order.iter().zip(&wires) {
        machine.lead(authority, wire.dial.clone());
    }
    let (refusing, _) = mpsc::unbounded_channel();
    let mut stage = Stage { world, machine, disk, wires, order, alice: None, heard: Vec::new(), refusing };
    stage.world.until(500).await;
    stage.join(alice, joined).await;
    script(&mut stage).await;
    let mut alice = stage.alice.take().unwrap();
    alice.handle.finish().await.unwrap();
    let later = stage.world.began.elapsed() + Duration::from_millis(5_000);
    tokio::time::sleep_until(stage.world.began + later).await;
    let mut told = alice.told();
    told.texts.splice(0..0, core::mem::take(&mut stage.heard));
    let place = |node: &String| stage.order.iter().position(|known| known == node).unwrap_or(usize::MAX);
    let dialled = stage.machine.dialled();
    Observed {
        tape: stage.machine.tape.lines(),
        seen: stage.world.server.seen(&account),
        dialled: dialled.iter().map(|(at, node)| (at.as_millis() as u64, place(node))).collect(),
        account,
        alice: told,
        bob: bob.told(),
    }
}

/// Plays both worlds, which show the same. In the one in which people talk, everything arrives; it is given back.
fn play<S: AsyncFn(&mut Stage)>(server: ServerParameters, joined: &[usize], script: S) -> Observed {
    let [idle, talking] = [false, true].map(|talks| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(observe(talks, server.clone(), joined, &script))
    });
    let difference = difference(&idle.tape, &talking.tape);
    assert_eq!(difference, None, "{}", difference.as_deref().unwrap_or(""));
    assert_eq!(idle.dialled, talking.dialled);
    let shapes = |seen: &[Seen]| -> Vec<_> {
        seen.iter().map(|seen| (seen.at, seen.node, seen.call, seen.round, seen.bytes.len())).collect()
    };
    assert_eq!(shapes(&idle.seen), shapes(&talking.seen));
    let said: Vec<String> = (0..6).map(|text| format!("text {text}")).collect();
    assert_eq!((&talking.alice.texts, &talking.bob.texts), (&said, &said));
    assert!(idle.alice.texts.is_empty());
    talking
}

/// Every round from the first to one of the last two has its deposit and its query, if so many have opened.
fn loses_no_round(observed: &Observed, opened: u64) {
    for call in [Call::Deposit, Call::Retrieve] {
        let rounds: BTreeSet<u64> = observed.calls(call).map(|seen| seen.round).collect();
        let (first, last) = (rounds.first().unwrap(), rounds.last().unwrap());
        assert_eq!(rounds.len() as u64, last - first + 1, "{call:?} of {rounds:?}");
        assert!(*last + 2 >= FIRST.0 + opened, "{call:?} of {rounds:?}");
    }
    // What is made again is the same, and so takes nothing of a quota.
    let mut made = BTreeMap::<(Call, u64), BTreeSet<&[u8]>>::new();
    for seen in observed.seen.iter().filter(|seen| matches!(seen.call, Call::Deposit | Call::Retrieve)) {
        made.entry((seen.call, seen.round)).or_default().insert(&seen.bytes);
    }
    assert!(made.values().all(|bytes| bytes.len() == 1));
}

fn deadline() -> ServerParameters {
    parameters(&*noop(), RoundMode::Deadline)
}

/// After every account has its stand-in.
const LATE_MS: u64 = 70_650;

#[test]
fn a_home_that_dies_is_replaced_by_a_session_that_is_there_with_its_keys() {
    let played = play(deadline(), &[0, 1, 2], async |stage| {
        stage.world.until(2 * LATE_MS).await;
        stage.die(0);
        stage.world.until(3 * LATE_MS).await;
    });
    let opened = played.opens(BEGAN_MS, 1);
    // The next one is asked for by its own time: the home that died is asked first, and then the third.
    let again = played.opens(2 * LATE_MS, 2);
    assert_eq!(played.dialled, [(BEGAN_MS, 0), (opened, 1), (again, 0), (again, 2)]);
    loses_no_round(&played, 211);
    assert!(played.alice.troubles.is_empty(), "{:?}", played.alice.troubles);
    let watched: Vec<_> =
        played.calls(Call::Watch).map(|seen| (seen.at.as_millis() as u64, seen.node)).collect();
    assert_eq!(watched, [(BEGAN_MS, 0), (2 * LATE_MS, 1)]);
    // The keys that came to home by their schedule came to the stand-in in the same moment, and none because of the loss.
    let uploads = |node: u8| -> Vec<u64> {
        played
            .calls(Call::Upload)
            .filter(|seen| seen.node == node)
            .map(|seen| seen.at.as_millis() as u64)
            .collect()
    };
    let scheduled: Vec<u64> = uploads(0).into_iter().filter(|at| *at > opened).collect();
    assert!(!uploads(1).contains(&(2 * LATE_MS)) && uploads(1).contains(&opened));
    assert!(!scheduled.is_empty());
    assert!(scheduled.iter().all(|at| uploads(1).contains(at)), "{scheduled:?} {:?}", uploads(1));
    assert_eq!(uploads(2).first(), Some(&again));
}

#[test]
fn a_stand_in_that_dies_is_replaced_and_nobody_notices() {
    let played = play(deadline(), &[0, 1, 2], async |stage| {
        stage.world.until(LATE_MS).await;
        stage.machine.lead(&stage.order[1], stage.refusing.clone());
        stage.wires[1].cut();
        stage.world.until(2 * LATE_MS).await;
    });
    let (opened, again) = (played.opens(BEGAN_MS, 1), played.opens(LATE_MS, 2));
    assert_eq!(played.dialled, [(BEGAN_MS, 0), (opened, 1), (again, 1), (again, 2)]);
    loses_no_round(&played, 141);
    assert!(played.alice.troubles.is_empty() && played.alice.lost.is_empty());
}

#[test]
fn a_home_that_hangs_is_left_before_a_round_is_lost() {
    let server = ServerParameters { round_ms: 10_000, ..deadline() };
    // Just before a deposit leaves.
    let hangs = 130_050;
    let played = play(server, &[0, 1], async |stage| {
        stage.world.until(hangs).await;
        stage.wires[0].hang();
        stage.world.until(600_000).await;
    });
    loses_no_round(&played, 60);
    assert!(played.alice.troubles.is_empty(), "{:?}", played.alice.troubles);
    let watched: Vec<_> =
        played.calls(Call::Watch).map(|seen| (seen.at.as_millis() as u64, seen.node)).collect();
    assert_eq!(watched.len(), 2, "{watched:?}");
    assert_eq!(watched[1].1, 1);
    assert!((hangs..=hangs + NOTICED_MS).contains(&watched[1].0), "{watched:?}");
}

/// Whoever joined by the address of one node goes on at others, of which it has heard since, in the same process and in the next.
#[test]
fn a_node_that_was_added_later_is_reached_after_the_one_that_was_joined_has_died() {
    let played = play(deadline(), &[0], async |stage| {
        stage.world.until(5_650).await;
        stage.tell(1, &[0, 1]);
        stage.world.until(LATE_MS).await;
        stage.tell(2, &[1, 2]);
        stage.world.until(2 * LATE_MS).await;
        stage.die(0);
        stage.world.until(2 * LATE_MS + 10_000).await;
        stage.start_again(&[0]).await;
        stage.world.until(2 * LATE_MS + 30_000).await;
    });
    let opened = played.opens(5_650, 1);
    let nodes: Vec<usize> = played.dialled.iter().map(|(_, node)| *node).collect();
    assert_eq!(played.dialled[..2], [(BEGAN_MS, 0), (opened, 1)]);
    // The new process asks the nodes of the directory that was kept, and not the one that it once joined by.
    let started = played.calls(Call::Register).last().unwrap();
    assert!(started.node == 1 && started.at.as_millis() as u64 > 2 * LATE_MS + 10_000, "{nodes:?}");
    assert!(played.alice.warnings.is_empty());
    assert!(played.calls(Call::Deposit).any(|seen| seen.node == 1 && seen.round >= FIRST.0 + 170));
}

/// What is not the server's newest directory changes nothing, and strangers are not asked.
#[test]
fn directories_that_are_forged_replayed_or_of_another_root_are_refused() {
    let played = play(deadline(), &[0, 1], async |stage| {
        let root = stage.world.server.root();
        let own = stage.world.server.key_of(FIRST);
        let stranger = |number, node: &str| Directory::new(number, Round(1), [node.to_owned()]).unwrap();
        let tell = |directory: &Directory, root: [u8; 32], key: &SigningKey| {
            let signed = SignedDirectory::sign(directory, &root, key);
            stage.world.server.tell_directory(proto::Directory::from(&signed));
        };
        stage.world.until(2_650).await;
        tell(&stage.directory(5, &[0, 1]), root, &own);
        stage.world.until(3_650).await;
        tell(&stranger(6, "127.0.0.1:1"), root, &SigningKey::from_bytes(&[9; 32]));
        stage.world.until(4_650).await;
        tell(&stranger(6, "127.0.0.1:1"), [9; 32], &own);
        stage.world.until(5_650).await;
        tell(&stranger(4, "127.0.0.1:1"), root, &own);
        stage.world.until(6_650).await;
        tell(&stranger(5, "127.0.0.1:1"), root, &own);
        stage.world.until(7_650).await;
        tell(&stage.directory(5, &[0, 1]), root, &own);
        stage.world.until(LATE_MS).await;
        stage.die(0);
        stage.world.until(2 * LATE_MS).await;
    });
    assert!(played.dialled.iter().all(|(_, node)| *node < 2), "{:?}", played.dialled);
    loses_no_round(&played, 141);
    let told = played.alice.warnings.concat();
    assert!(
        told.contains("not the server's") && told.contains("another one under the same number"),
        "{told}"
    );
    // What is refused for one reason twice in a row is told once.
    assert_eq!(played.alice.warnings.len(), 2, "{told}");
}

/// A directory that names strangers before its own: they are asked, and nobody is locked out.
#[test]
fn a_directory_of_strangers_locks_nobody_out() {
    let played = play(deadline(), &[0, 1], async |stage| {
        let strangers: Vec<String> = (1..65).map(|port| format!("127.0.0.1:{port}")).collect();
        let directory = Directory::new(1, Round(1), strangers.clone()).unwrap();
        let signed =
            SignedDirectory::sign(&directory, &stage.world.server.root(), &stage.world.server.key_of(FIRST));
        strangers.iter().for_each(|stranger| stage.machine.lead(stranger, stage.refusing.clone()));
        stage.world.server.tell_directory((&signed).into());
        stage.world.until(LATE_MS).await;
        stage.die(0);
        stage.world.until(LATE_MS + 20_000).await;
    });
    loses_no_round(&played, 90);
    let strangers = played.dialled.iter().filter(|(_, node)| *node == usize::MAX).count();
    assert!(strangers >= 64, "{strangers}");
    assert!(played.alice.troubles.is_empty(), "{:?}", played.alice.troubles);
}

/// Whoever has stolen a manifest key names strangers under the highest number there is. That is over when the next key signs, whatever
/// else is told.
#[test]
fn a_directory_of_a_key_that_was_given_up_gives_way_and_does_not_come_back() {
    let played = play(deadline(), &[0, 1], async |stage| {
        let root = stage.world.server.root();
        let thief = stage.world.server.key_of(FIRST);
        let lie = |round: u64| {
            let directory = Directory::new(u64::MAX, Round(round), ["127.0.0.1:1".to_owned()]).unwrap();
            proto::Directory::from(&SignedDirectory::sign(&directory, &root, &thief))
        };
        stage.machine.lead("127.0.0.1:1", stage.refusing.clone());
        stage.world.until(2_650).await;
        stage.tell(5, &[0, 1]);
        stage.world.until(3_650).await;
        stage.world.server.tell_directory(lie(FIRST.0));
        stage.world.until(4_650).await;
        stage.world.server.rotate(90);
        // The session that is ready was opened before. It ends before the key changes, with the home.
        stage.world.until(LATE_MS).await;
        stage.die(0);
        stage.world.until(LATE_MS + 30_000).await;
        let own = Directory::new(6, Round(FIRST.0 + 95), stage.order[..2].to_vec()).unwrap();
        let signed = SignedDirectory::sign(&own, &root, &stage.world.server.key_of(own.round()));
        stage.world.server.tell_directory((&signed).into());
        stage.world.until(LATE_MS + 31_000).await;
        stage.world.server.tell_directory(lie(FIRST.0));
        stage.world.until(LATE_MS + 32_000).await;
        stage.world.server.replay();
        stage.world.server.tell_directory(lie(FIRST.0 + 96));
        stage.world.until(LATE_MS + 33_000).await;
        stage.machine.lead(&stage.order[0], stage.wires[0].dial.clone());
        stage.world.until(2 * LATE_MS).await;
        stage.die(1);
        stage.world.until(3 * LATE_MS).await;
        stage.start_again(&[0, 1]).await;
        stage.world.until(3 * LATE_MS + 10_000).await;
    });
    let strangers: Vec<u64> =
        played.dialled.iter().filter(|(_, node)| *node == usize::MAX).map(|(at, _)| *at).collect();
    assert!(strangers.iter().all(|at| *at < LATE_MS + 30_000), "{strangers:?} of {:?}", played.dialled);
    assert!(!strangers.is_empty());
    assert!(!played.alice.warnings.concat().contains("manifest"), "{:?}", played.alice.warnings);
}

/// What cannot be stored is taken over all the same, and again by the next process.
#[test]
fn a_full_disk_does_not_show_while_keys_change_and_home_dies() {
    let played = play(deadline(), &[0, 1, 2], async |stage| {
        stage.world.until(LATE_MS).await;
        stage.disk.fill(true);
        stage.world.server.rotate(80);
        stage.world.until(LATE_MS + 3_000).await;
        stage.die(0);
        stage.world.until(LATE_MS + 13_000).await;
        let stored = Client::restore(&stage.disk.newest().unwrap()).unwrap();
        assert_eq!(stored.server().serial, 1);
        stage.disk.fill(false);
        stage.world.until(2 * LATE_MS).await;
        stage.start_again(&[0, 1, 2]).await;
        stage.world.until(3 * LATE_MS).await;
        let stored = Client::restore(&stage.disk.newest().unwrap()).unwrap();
        assert_eq!(stored.server().serial, 2);
    });
    assert!(played.alice.warnings.is_empty() && played.alice.troubles.is_empty(), "{:?}", played.alice);
}

/// A node has one session of an account: the one that is held ready there ends the one in use, once and not again and again.
#[test]
fn a_node_under_two_names_does_not_stand_in_for_itself() {
    let played = play(deadline(), &[0], async |stage| {
        stage.machine.lead(&stage.order[1], stage.wires[0].dial.clone());
        stage.world.until(2_650).await;
        stage.tell(1, &[1]);
        stage.world.until(5 * LATE_MS).await;
        // The next one has a stand-in again.
        stage.wires[0].cut();
        stage.world.until(6 * LATE_MS).await;
    });
    let opened = played.opens(2_650, 1);
    assert_eq!(played.dialled[..2], [(BEGAN_MS, 0), (opened, 1)]);
    assert_eq!(played.dialled[2], (5 * LATE_MS, 0), "{:?}", played.dialled);
    assert!(played.dialled.len() > 3);
    loses_no_round(&played, 421);
}
