//! Three nodes in processes of their own, over TLS on both sides; and two that only follow.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use sotto_protocol::manifest::SignedManifest;
use sotto_protocol::{Deposit, Label, Round, SealedBox, deposit::BOX_BYTES};
use sotto_session::{Connection, ConnectionSettings, RoundNews, Session};
use sotto_wire::Address;
use sottod::Status;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_stream::StreamExt;

use crate::crash::drill::ports::free_ports;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sottod");
const NODES: usize = 3;
/// Whatever has not happened by then is a failure: no test waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nodes that vote, and then those that do not.
struct Cluster {
    directory: TempDir,
    clients: Vec<u16>,
    peers: Vec<u16>,
    operations: Vec<u16>,
    nodes: BTreeMap<usize, Child>,
    /// Kept, as nodes write to them.
    outputs: BTreeMap<usize, BufReader<ChildStdout>>,
    _place: SemaphorePermit<'static>,
}

/// Nodes of three clusters, which mostly wait, are as many as a small machine serves without keeping them waiting for seconds.
static PLACES: Semaphore = Semaphore::const_new(3);

impl Cluster {
    fn start() -> Self {
        Self::with_others(0, 0)
    }

    /// With nodes that do not vote, or with room for nodes that come later.
    fn with_others(answerers: usize, later: usize) -> Self {
        let (founders, count) = (NODES + answerers, NODES + answerers + later);
        let place = loop {
            match PLACES.try_acquire() {
                Ok(place) => break place,
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let directory = tempfile::tempdir().unwrap();
        let mut ports = free_ports(3 * count).unwrap().into_iter();
        let mut some = || -> Vec<u16> { ports.by_ref().take(count).collect() };
        let (clients, peers, operations) = (some(), some(), some());
        let mut new = Command::new(PROGRAM);
        new.env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4").args(["cluster", "new", "--open-registration", "--out"]);
        new.arg(directory.path().join("cluster"));
        for (at, (peer, client)) in peers.iter().zip(&clients).take(founders).enumerate() {
            let [node, public] = match at < NODES {
                true => ["--node", "--public"],
                false => ["--answerer", "--answerer-public"],
            };
            new.args([node, &format!("127.0.0.1:{peer}"), public, &format!("127.0.0.1:{client}")]);
        }
        let made = output(&mut new);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut cluster = Self {
            directory,
            clients,
            peers,
            operations,
            nodes: BTreeMap::new(),
            outputs: BTreeMap::new(),
            _place: place,
        };
        (0..founders).for_each(|at| cluster.serve(at));
        cluster
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn serve(&mut self, at: usize) {
        let here = |port: u16| format!("127.0.0.1:{port}");
        // Answerers are started in their order, and each finds the one that is free.
        let data = format!("cluster/node{}", at + 1);
        let [option, data] = match self.path().join(&data).exists() {
            true => ["--data".to_owned(), data],
            false => ["--pool".to_owned(), "cluster/answerers".to_owned()],
        };
        let mut child = Command::new(PROGRAM)
            .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
            .env("SOTTOD_PEERS", here(self.peers[at]))
            .env("SOTTOD_OPERATIONS", here(self.operations[at]))
            .args(["serve", "--listen", &here(self.clients[at]), &option])
            .arg(self.path().join(data))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        self.nodes.insert(at, child);
        let told = in_time(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line, output)
        });
        assert!(told.0.starts_with("listening on "), "{}", told.0);
        self.outputs.insert(at, told.1);
    }

    fn kill(&mut self, at: usize) {
        let mut child = self.nodes.remove(&at).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn status(&self, at: usize) -> Option<Status> {
        let operations = format!("127.0.0.1:{}", self.operations[at]);
        let asked = output(Command::new(PROGRAM).args(["status", "--json", "--operations", &operations]));
        serde_json::from_slice(&asked.stdout).ok()
    }

    /// Asks a node to hand over; the exit code, and what is said.
    fn transfer(&self, at: usize, arguments: &[&str]) -> (Option<i32>, String) {
        self.ask(at, &[&["transfer"], arguments].concat())
    }

    /// What a command says that asks a node.
    fn ask(&self, at: usize, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--data");
        command.arg(self.path().join(format!("cluster/node{}", at + 1)));
        let output = output(&mut command);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// Waits for what must happen. If it does not, all nodes are asked how they are.
    async fn await_that<T>(&self, what: &str, happens: impl Future<Output = T>) -> T {
        match timeout(PATIENCE, happens).await {
            Ok(happened) => happened,
            Err(_) => {
                let nodes: Vec<_> = self.nodes.keys().map(|at| (at + 1, self.status(*at))).collect();
                panic!("within {} s this did not happen: {what}; {nodes:#?}", PATIENCE.as_secs())
            }
        }
    }

    /// Waits until something is found.
    async fn until<T>(&self, what: &str, find: impl Fn() -> Option<T>) -> T {
        let found = async {
            loop {
                match find() {
                    Some(found) => return found,
                    None => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        self.await_that(what, found).await
    }

    /// The node that leads, if one does.
    fn leading(&self) -> Option<usize> {
        let leads =
            |at: &usize| self.status(*at).and_then(|status| status.node).is_some_and(|node| node.leads);
        self.nodes.keys().copied().find(leads)
    }

    /// Waits until one of the nodes leads.
    async fn leader(&self) -> usize {
        self.until("a node leads", || self.leading()).await
    }

    /// How clients connect to one node.
    fn settings(&self, at: usize) -> ConnectionSettings {
        let key = std::fs::read_to_string(self.path().join("cluster/address")).unwrap();
        let key = key.trim().rsplit_once('/').unwrap().1;
        ConnectionSettings::new(format!("sotto://127.0.0.1:{}/{key}", self.clients[at]).parse().unwrap())
    }

    /// A session of an account at one node.
    async fn session(&self, at: usize, account: u8) -> Session {
        let settings = self.settings(at);
        let begun = async {
            loop {
                if let Ok(connection) = Connection::open(&settings).await
                    && let Ok(info) = connection.info().await
                    && let Ok(session) = connection.session(&[account; 32], &info, None, None).await
                {
                    return session;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        self.await_that("a session begins", begun).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What takes no longer than anything here.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// Runs a command to its end.
fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    in_time(move || child.wait_with_output()).unwrap()
}

fn deposit(account: u8, round: Round) -> Vec<u8> {
    let mut label = [account; 16];
    label[..8].copy_from_slice(&round.0.to_le_bytes());
    Deposit { label: Label(label), sealed: SealedBox([account; BOX_BYTES]) }.encode().to_vec()
}

/// Brings a deposit of one account to every one of these nodes in a round, and waits until each serves the round.
async fn a_round(cluster: &Cluster, nodes: &[usize]) -> (Round, Vec<SignedManifest>) {
    cluster.await_that("a round with a deposit by each node", some_round(cluster, nodes)).await
}

async fn some_round(cluster: &Cluster, nodes: &[usize]) -> (Round, Vec<SignedManifest>) {
    'rounds: loop {
        let mut sessions = Vec::new();
        let mut watches = Vec::new();
        for at in nodes {
            let session = cluster.session(*at, *at as u8 + 1).await;
            // One that has just begun may have heard of nobody yet.
            let Ok(watch) = session.watch().await else { continue 'rounds };
            sessions.push(session);
            watches.push(Box::pin(watch));
        }
        let mut round = None;
        for (at, session) in nodes.iter().zip(&sessions) {
            let open = *round.get_or_insert(session.open());
            if session.deposit(open, &deposit(*at as u8 + 1, open)).await.is_err() {
                // It has ended meanwhile.
                continue 'rounds;
            }
        }
        let round = round.unwrap();
        let mut manifests = Vec::new();
        for watch in &mut watches {
            loop {
                match watch.next().await {
                    Some(Ok(RoundNews::Ready { manifest, .. })) => {
                        let parsed = sotto_protocol::Manifest::decode(&manifest.bytes).unwrap();
                        if parsed.round == round {
                            assert_eq!(
                                parsed.entries as usize,
                                nodes.len(),
                                "a deposit is lost, or there twice"
                            );
                            manifests.push(*manifest);
                            break;
                        }
                        assert!(parsed.round < round, "the round was never served");
                    }
                    Some(Ok(_)) => {}
                    // On a machine with too much to do, a node may have heard nothing of the others for too long.
                    None => continue 'rounds,
                    Some(Err(error)) => panic!("a node ended its watch: {error}"),
                }
            }
        }
        return (round, manifests);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_two_of_three_nodes_take_deposits_and_serve_the_same_rounds() {
    let mut cluster = Cluster::start();
    let all: Vec<usize> = (0..NODES).collect();
    let (first, manifests) = a_round(&cluster, &all).await;
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]), "nodes serve different rounds");

    // Without the one that led.
    let leader = cluster.leader().await;
    cluster.kill(leader);
    let others: Vec<usize> = all.iter().copied().filter(|at| *at != leader).collect();
    let (second, manifests) = a_round(&cluster, &others).await;
    assert!(second > first && manifests[0] == manifests[1]);
    assert_ne!(cluster.leader().await, leader);

    // It comes back, and has what it missed.
    cluster.serve(leader);
    let (third, manifests) = a_round(&cluster, &all).await;
    assert!(third > second && manifests.iter().all(|manifest| *manifest == manifests[0]));
    let chains: Vec<_> = {
        let mut chains = Vec::new();
        for at in &all {
            let session = cluster.session(*at, 9).await;
            chains.push(session.manifests(first, third).await.unwrap());
        }
        chains
    };
    assert!(chains[0].len() as u64 == third.0 - first.0 + 1, "rounds are missing in the chain");
    assert!(chains.iter().all(|chain| *chain == chains[0]));
}

/// Before a machine is ended for long, so that nobody waits until the node is missed.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_that_leads_hands_over_to_the_one_that_is_named_and_says_so() {
    let mut cluster = Cluster::start();
    let all: Vec<usize> = (0..NODES).collect();
    a_round(&cluster, &all).await;
    let leader = cluster.leader().await;
    let to = (leader + 1) % NODES;
    let node = |at: usize| format!("node {}", at + 1);

    let (code, said) = cluster.transfer(to, &[]);
    assert!(code == Some(1) && said.contains(&format!("{} leads", node(leader))), "{said}");
    for (wrong, why) in [("9", "there is no node 9"), (&(leader + 1).to_string(), "leads already")] {
        let (code, said) = cluster.transfer(leader, &["--to", wrong]);
        assert!(code == Some(1) && said.contains(why), "{said}");
    }
    let (code, said) = cluster.transfer(leader, &["--to", &(to + 1).to_string()]);
    assert!(code == Some(0) && said.starts_with(&format!("{} leads, after ", node(to))), "{said}");
    assert_eq!(cluster.leader().await, to);
    let (_, manifests) = a_round(&cluster, &all).await;
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]), "nodes serve different rounds");

    // A node that is not there is not waited for, and whoever is there is found.
    cluster.kill(leader);
    let unheard = |status: &Status| {
        let gone = status.members.iter().find(|member| member.number == leader as u64 + 1);
        gone.is_some_and(|gone| gone.heard_ms.is_none_or(|ms| ms >= 2000))
    };
    cluster.until("a node is missed", || cluster.status(to).filter(unheard)).await;
    let (code, said) = cluster.transfer(to, &["--to", &(leader + 1).to_string()]);
    assert!(code == Some(1) && said.contains("does not answer"), "{said}");
    let third = 3 - leader - to;
    let (code, said) = cluster.transfer(to, &[]);
    assert!(code == Some(0) && said.starts_with(&format!("{} leads, after ", node(third))), "{said}");
}

/// What a voter has promised since a backup it must not forget: whoever restored one could lose what others count on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_several_is_backed_up_and_never_restored() {
    let cluster = Cluster::start();
    a_round(&cluster, &[0, 1, 2]).await;
    let (out, target) = (cluster.path().join("node1.tar"), cluster.path().join("restored"));
    let node = cluster.path().join("cluster/node1");
    let taken = output(Command::new(PROGRAM).args(["backup", "--data"]).arg(node).arg("--out").arg(&out));
    let said = String::from_utf8(taken.stdout).unwrap();
    assert!(taken.status.success() && said.contains("a node of a cluster of 3"), "{said}");
    let refused =
        output(Command::new(PROGRAM).args(["restore", "--from"]).arg(&out).arg("--data").arg(&target));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("never restored"), "{said}");
    assert!(!target.exists());
}

/// Whoever follows a node that hears nothing of the others must not wait there.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_others_ends_the_watches_of_its_clients_until_they_are_back() {
    let mut cluster = Cluster::start();
    let session = cluster.session(0, 1).await;
    let mut watch = Box::pin(session.watch().await.unwrap());
    assert!(matches!(cluster.await_that("a watch tells something", watch.next()).await, Some(Ok(_))));
    cluster.kill(1);
    cluster.kill(2);
    // Rounds end no more, and that is what it says.
    let ended = async { while let Some(Ok(_)) = watch.next().await {} };
    cluster.await_that("a watch at a node that is cut off ends", ended).await;
    let operations = ([127, 0, 0, 1], cluster.operations[0]).into();
    let ask = |path| super::operations::get(operations, path).0;
    assert!(ask("/ready").starts_with("HTTP/1.1 503 "), "people are sent to a node that is cut off");
    assert!(ask("/live").starts_with("HTTP/1.1 200 ") && ask("/health").starts_with("HTTP/1.1 200 "));
    let metrics = super::operations::get(operations, "/metrics").1;
    assert!(
        metrics.contains("sottod_silent 1") && metrics.contains("sottod_peer_certificate_days"),
        "{metrics}"
    );
    let watched = async {
        match session.watch().await {
            Ok(watch) => matches!(Box::pin(watch).next().await, Some(Ok(_))),
            Err(_) => false,
        }
    };
    let is_taken = cluster.await_that("a watch at a node that is cut off ends", watched).await;
    assert!(!is_taken, "it takes people whom it cannot serve");
    cluster.serve(1);
    let (_, manifests) = a_round(&cluster, &[0, 1]).await;
    assert_eq!(manifests[0], manifests[1]);
    assert!(ask("/ready").starts_with("HTTP/1.1 200 "));
    let status = cluster.status(cluster.leader().await).unwrap();
    let behind: Vec<_> =
        status.members.iter().map(|member| (member.number, member.behind.is_some())).collect();
    assert_eq!(behind, [(1, true), (2, true), (3, true)], "{status:?}");
}

/// Until a node tells people of these nodes and no other.
async fn is_told(cluster: &Cluster, at: usize, nodes: &[usize]) {
    let mut expected: Vec<String> =
        nodes.iter().map(|at| format!("127.0.0.1:{}", cluster.clients[*at])).collect();
    expected.sort();
    loop {
        let session = cluster.session(at, 99).await;
        let Ok(watch) = session.watch().await else { continue };
        let mut watch = Box::pin(watch);
        while let Some(Ok(news)) = watch.next().await {
            let RoundNews::Directory(directory) = news else { continue };
            let key = session.announced().manifest_key_of(directory.claimed_round()).unwrap();
            if directory.verify(&session.root_key().0, &key).unwrap().nodes() == expected {
                return;
            }
        }
    }
}

/// They forward what people bring, and answer like the others; whichever node they followed may go.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_a_vote_take_deposits_and_serve_the_same_rounds() {
    let mut cluster = Cluster::with_others(2, 0);
    for at in 0..NODES + 2 {
        cluster.await_that("people are told of all nodes", is_told(&cluster, at, &[0, 1, 2, 3, 4])).await;
    }
    let (first, manifests) = a_round(&cluster, &[0, 3, 4]).await;
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]), "nodes serve different rounds");
    // Not the leader, which has enough to do, once there is another one.
    let follows_another = |at: usize, leader: usize| {
        let node = cluster.status(at).and_then(|status| status.node)?;
        assert_eq!((node.answers, node.number, node.leads), (true, at as u64 - 2, false));
        Some(node.follows.is_some_and(|node| !node.answers && node.number != leader as u64 + 1))
    };
    let found = || {
        let leader = cluster.leading()?;
        (follows_another(3, leader)? && follows_another(4, leader)?).then_some(leader)
    };
    let leader = cluster.until("nodes without a vote follow one that does not lead", found).await;

    // One is away while the node that leads is lost, which both of them had to find anew.
    cluster.kill(3);
    cluster.kill(leader);
    let others: Vec<usize> = (0..NODES).filter(|at| *at != leader).chain([4]).collect();
    let (second, manifests) = a_round(&cluster, &others).await;
    assert!(second > first && manifests.iter().all(|manifest| *manifest == manifests[0]));
    cluster.serve(3);
    let (third, manifests) = a_round(&cluster, &[3, 4]).await;
    assert!(third > second && manifests[0] == manifests[1]);
    let mut chains = Vec::new();
    for at in [3, 4, others[0]] {
        chains.push(cluster.session(at, 9).await.manifests(first, third).await.unwrap());
    }
    assert!(chains[0].len() as u64 == third.0 - first.0 + 1, "rounds are missing in the chain");
    assert!(chains.iter().all(|chain| *chain == chains[0]));
}

/// Its disk is gone, and with it how it has voted: another one with a number of its own takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_lost_is_replaced_by_one_that_votes() {
    let mut cluster = Cluster::with_others(0, 1);
    let all: Vec<usize> = (0..NODES).collect();
    let (first, _) = a_round(&cluster, &all).await;
    let leader = cluster.leader().await;
    let [lost, other] = all.iter().copied().filter(|at| *at != leader).collect::<Vec<_>>()[..] else {
        panic!("three nodes")
    };
    cluster.kill(lost);

    let address = format!("127.0.0.1:{}", cluster.peers[3]);
    let made = output(
        Command::new(PROGRAM)
            .args(["cluster", "node", "--number", "4", "--node", &address])
            .args(["--public", &format!("127.0.0.1:{}", cluster.clients[3])])
            .args(["--out", "cluster/node4", "--like", "cluster/node2", "--root", "cluster/root.key"])
            .current_dir(cluster.path()),
    );
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [gone, leads] = [lost, leader].map(|at| (at + 1).to_string());
    let replace = ["node", "replace", "--number", &gone, "--by", "4", "--address", &address];
    let (code, said) = cluster.ask(other, &replace);
    assert!(code == Some(1) && said.contains(&format!("node {leads} leads")), "{said}");
    // Not before it is there, and again as soon as it is.
    let (code, said) = cluster.ask(leader, &replace);
    assert!(code == Some(1) && said.contains("node 4") && said.contains("once more"), "{said}");
    cluster.serve(3);
    let (code, said) = cluster.ask(leader, &replace);
    let expected = (1..=4).filter(|number| *number != lost + 1).map(|number| number.to_string());
    let expected = format!("nodes {} vote\n", expected.collect::<Vec<_>>().join(", "));
    assert!(code == Some(0) && said == expected, "{said}");

    let (second, manifests) = a_round(&cluster, &[leader, other, 3]).await;
    assert!(second > first && manifests.iter().all(|manifest| *manifest == manifests[0]));
    // The new one counts: with it rounds go on without the one that led.
    cluster.kill(leader);
    let (third, manifests) = a_round(&cluster, &[other, 3]).await;
    assert!(third > second && manifests[0] == manifests[1]);
    // And whoever was let go disturbs nobody when it is started after all.
    cluster.serve(lost);
    let (fourth, manifests) = a_round(&cluster, &[other, 3]).await;
    assert!(fourth > third && manifests[0] == manifests[1]);

    // Too few would be left that answer, and who leads does not let itself go.
    let leader = cluster.leader().await;
    let left = if leader == 3 { other } else { 3 };
    for (number, word) in
        [(left + 1, "too few answer"), (leader + 1, "sottod transfer"), (9, "does not vote")]
    {
        let (code, said) = cluster.ask(leader, &["node", "remove", "--number", &number.to_string()]);
        assert!(code == Some(1) && said.contains(word), "{said}");
    }
}

/// The certificate that somebody sees who connects to a port and asks for a name.
async fn certificate(cluster: &Cluster, port: u16, name: &'static str) -> Vec<u8> {
    let address = std::fs::read_to_string(cluster.path().join("cluster/address")).unwrap();
    let address: Address = address.trim().parse().unwrap();
    let config = address.root_key().client_config().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    // Where nodes call it is refused for having none itself, once it has seen that of the other end.
    let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_runs_shows_new_certificates_to_people_and_to_other_nodes() {
    let cluster = Cluster::start();
    let all: Vec<usize> = (0..NODES).collect();
    let (first, _) = a_round(&cluster, &all).await;
    let session = cluster.session(1, 7).await;
    let seen = async || {
        let both = async {
            let people = certificate(&cluster, cluster.clients[1], "node.sotto.invalid").await;
            (people, certificate(&cluster, cluster.peers[1], "2.peer.sotto.invalid").await)
        };
        cluster.await_that("a node shows its certificates", both).await
    };
    let before = seen().await;
    assert_eq!(seen().await, before);
    let mut certify = Command::new(PROGRAM);
    certify.env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4").args(["certify", "--data"]);
    certify
        .arg(cluster.path().join("cluster/node2"))
        .arg("--root")
        .arg(cluster.path().join("cluster/root.key"));
    let made = output(&mut certify);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let renewed = async {
        loop {
            let now = seen().await;
            if now.0 != before.0 && now.1 != before.1 {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    cluster.await_that("new certificates are shown", renewed).await;
    // Who was there stays, and others come.
    session.manifests(first, first).await.unwrap();
    let (second, manifests) = a_round(&cluster, &all).await;
    assert!(second > first && manifests.iter().all(|manifest| *manifest == manifests[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_signs_with_another_key_from_the_same_round_on_though_the_node_that_led_is_gone() {
    let mut cluster = Cluster::start();
    let all: Vec<usize> = (0..NODES).collect();
    a_round(&cluster, &all).await;
    let session = cluster.session(0, 7).await;
    let first = Round(session.open().0 + 6);
    let node = |at: usize| cluster.path().join(format!("cluster/node{}", at + 1));
    let mut rotate = Command::new(PROGRAM);
    rotate.env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4").args(["keys", "rotate", "--from", &first.0.to_string()]);
    rotate.arg("--data").arg(node(0)).arg("--also").arg(node(1)).arg("--also").arg(node(2));
    let made = output(rotate.arg("--root").arg(cluster.path().join("cluster/root.key")));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let leader = cluster.leader().await;
    let (code, said) = cluster.ask(leader, &["keys", "announce"]);
    assert_eq!(code, Some(0), "{said}");
    cluster.kill(leader);
    let at = all.iter().copied().find(|at| *at != leader).unwrap();

    // It is told to whoever watches, and from that round on it signs.
    let former = session.announced().manifest_key_of(session.open()).unwrap();
    let kept = session.announced().parameters(&session.root_key()).unwrap();
    let session = cluster.session(at, 7).await;
    let mut watch = Box::pin(session.watch().await.unwrap());
    let (mut key_of, mut before) = (session.announced(), false);
    let signed = async {
        loop {
            match watch.next().await.unwrap().unwrap() {
                RoundNews::Announced(announced) => {
                    announced.parameters(&session.root_key()).unwrap();
                    key_of = *announced;
                }
                RoundNews::Ready { manifest, .. } => {
                    let round = manifest.claimed_round();
                    let key = key_of.manifest_key_of(round).unwrap();
                    manifest.verify(&key).unwrap();
                    assert_eq!(key == former, round < first, "round {round}, and {first} is the first");
                    before |= round < first;
                    if round >= first {
                        break;
                    }
                }
                RoundNews::Opened { .. } | RoundNews::Directory(_) => {}
            }
        }
    };
    cluster.await_that("a round is signed with the next key", signed).await;
    assert!(before, "nothing was seen of the rounds before");
    // Who was gone hears of it from the log.
    cluster.serve(leader);
    let (_, manifests) = a_round(&cluster, &all).await;
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    // Who keeps the announcement of before goes on, as nothing but the key is another one.
    let connection = Connection::open(&cluster.settings(at)).await.unwrap();
    let session = connection.register(&[9; 32], &kept, None, None).await.unwrap();
    assert_ne!(session.announced().parameters(&session.root_key()).unwrap().serial, kept.serial);
}
