//! The drill against a cluster: its nodes are killed one by one, two at a time and all at once, while clients bring their deposits to
//! any of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{RngExt, SeedableRng};
use sotto_protocol::deposit::arrange;
use sotto_protocol::manifest::deposits_digest;
use sotto_protocol::{Deposit, Round, SignedManifest};
use sotto_session::{Connection, ConnectionSettings, Session};
use sotto_wire::{Address, Info};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::child::{PATIENCE, Process, session};
use super::client::{Manifests, manifests};
use super::ports::free_ports;
use super::retriever::Served;
use super::visitor::{News, Visitor, listen};
use super::{JUDGED_ROUND_MS, Outcome, RETAINED, ROUND_MS};

/// Before a node that was killed is started again, ms.
const GONE_MS: Range<u64> = 0..1500;
/// When a node is killed that is still starting, ms after its process was made.
const STARTING_MS: Range<u64> = 0..400;
/// A node asks for so much between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// The account that only listens.
const LISTENER: usize = 0;

/// What is to be done.
pub(crate) struct GroupPlan {
    /// The server: this program with the arguments `serve`, `cluster` and `certify`.
    pub(crate) program: PathBuf,
    /// An empty directory for it.
    pub(crate) directory: PathBuf,
    pub(crate) nodes: usize,
    /// Processes that are killed under load; each judgement kills all once more.
    pub(crate) kills: u32,
    /// Kills after which what was acknowledged is judged and dropped.
    pub(crate) judge_every: u32,
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    /// Between two kills, ms.
    pub(crate) alive_ms: Range<u64>,
    /// Deposits that are retrieved at each judgement.
    pub(crate) sample: usize,
    pub(crate) verbose: bool,
}

/// One node, whose process runs or not.
struct Node {
    number: usize,
    data: PathBuf,
    /// Where it listens for the others.
    peers: String,
    settings: ConnectionSettings,
    process: Option<Process>,
}

struct Cluster {
    program: PathBuf,
    directory: PathBuf,
    nodes: Vec<Node>,
}

/// What clients have seen, as far as it is not judged.
#[derive(Default)]
struct Seen {
    acknowledged: Vec<(Round, Deposit)>,
    accounts: BTreeSet<usize>,
    announced: BTreeMap<Round, SignedManifest>,
    key: Option<[u8; 32]>,
    /// The last manifest that was judged: its round and digest.
    head: Option<(Round, [u8; 32])>,
}

/// Nodes and clients with rounds of this length; all that is signed by the root key must be the same for all.
fn environment(round_ms: u32) -> [(&'static str, String); 6] {
    [
        ("SOTTOD_ROUNDS_ROUND_MS", round_ms.to_string()),
        ("SOTTOD_ROUNDS_DEPOSIT_MS", "50".to_owned()),
        ("SOTTOD_ROUNDS_LOOKUP_MS", "50".to_owned()),
        ("SOTTOD_ROUNDS_QUERY_MS", "150".to_owned()),
        ("SOTTOD_ROUNDS_SEED_SEGMENTS", "16".to_owned()),
        ("RUST_LOG", "error".to_owned()),
    ]
}

impl Cluster {
    fn make(plan: &GroupPlan) -> anyhow::Result<Self> {
        let (program, directory) = (plan.program.clone(), plan.directory.clone());
        let ports = free_ports(2 * plan.nodes)?;
        let mut command = Command::new(&program);
        command.args(["cluster", "new", "--open-registration", "--retrieve", "1"]);
        command.args(["--retained", &RETAINED.to_string(), "--round-ms", &ROUND_MS.to_string()]);
        for ports in ports.chunks_exact(2) {
            command.args(["--node", &format!("127.0.0.1:{}", ports[0])]);
            command.args(["--public", &format!("127.0.0.1:{}", ports[1])]);
        }
        let made = command
            .arg("--out")
            .arg(&directory)
            .envs(environment(ROUND_MS))
            .stdout(Stdio::null())
            .status()?;
        ensure!(made.success(), "the cluster is not made");
        let address: Address = std::fs::read_to_string(directory.join("address"))?.trim().parse()?;
        let mut settings = ConnectionSettings::new(address);
        (settings.call_timeout, settings.transfer_timeout) = (PATIENCE, PATIENCE);
        let patience = Duration::from_secs(2);
        (settings.connect_timeout, settings.keep_alive) = (patience, patience);
        settings.keep_alive_timeout = patience;
        // Its rounds are shorter than those of people.
        settings.allow_no_privacy = true;
        let nodes =
            (1..).zip(settings.each()).zip(ports.chunks_exact(2)).map(|((number, settings), ports)| Node {
                number,
                data: directory.join(format!("node{number}")),
                peers: format!("127.0.0.1:{}", ports[0]),
                settings,
                process: None,
            });
        let nodes = nodes.collect();
        let cluster = Self { program, directory, nodes };
        cluster.certify(ROUND_MS)?;
        Ok(cluster)
    }

    /// Has the root key sign rounds of another length, as an operator does: for one node, and the others are given the same.
    fn certify(&self, round_ms: u32) -> anyhow::Result<()> {
        let Some((first, others)) = self.nodes.split_first() else { return Ok(()) };
        let mut command = Command::new(&self.program);
        command.arg("certify").arg("--data").arg(&first.data);
        command.arg("--root").arg(self.directory.join("root.key"));
        let signed = command.envs(environment(round_ms)).stdout(Stdio::null()).status()?;
        ensure!(signed.success(), "the change of rounds is not signed");
        for node in others {
            for file in ["announcement", "seeds", "seed.key"] {
                std::fs::copy(first.data.join(file), node.data.join(file))?;
            }
        }
        Ok(())
    }

    fn start(&mut self, at: usize, round_ms: u32) -> anyhow::Result<()> {
        let program = &self.program;
        let node = self.nodes.get_mut(at).context("no such node")?;
        ensure!(node.process.is_none(), "node {} runs", node.number);
        let address = node.settings.address.authority();
        let process = Command::new(program)
            .args(["serve", "--listen", &address, "--data"])
            .arg(&node.data)
            .envs(environment(round_ms))
            .env("SOTTOD_PEERS", &node.peers)
            .env("SOTTOD_OPERATIONS", "127.0.0.1:0")
            .stdout(Stdio::null())
            .spawn()?;
        node.process = Some(Process(process));
        Ok(())
    }

    fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        let node = self.nodes.get_mut(at).context("no such node")?;
        let process = node.process.take().with_context(|| format!("node {} does not run", node.number))?;
        process.kill().with_context(|| format!("node {}", node.number))
    }

    /// Starts whatever does not run.
    fn start_all(&mut self, round_ms: u32) -> anyhow::Result<()> {
        for at in 0..self.nodes.len() {
            if self.nodes[at].process.is_none() {
                self.start(at, round_ms)?;
            }
        }
        Ok(())
    }

    fn kill_all(&mut self) -> anyhow::Result<()> {
        (0..self.nodes.len()).try_for_each(|at| self.kill(at))
    }

    /// A session at every node, once all of them serve.
    async fn sessions(&mut self) -> anyhow::Result<Vec<(Connection, Info, Session)>> {
        let mut sessions = Vec::new();
        for at in 0..self.nodes.len() {
            sessions.push(loop {
                let node = &mut self.nodes[at];
                let ended = match &mut node.process {
                    Some(process) => process.0.try_wait()?,
                    None => None,
                };
                ensure!(ended.is_none(), "node {} has ended by itself: {ended:?}", node.number);
                // It refuses, or is not there, until it serves.
                if let Ok(connection) = Connection::open(&node.settings).await
                    && let Ok(info) = connection.info().await
                    && let Ok(session) = session(&connection, &info, LISTENER, None).await
                {
                    break (connection, info, session);
                }
                sleep(LOOK).await;
            });
        }
        Ok(sessions)
    }
}

impl GroupPlan {
    /// Does all of it.
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut seen = Seen::default();
        let mut outcome = Outcome::default();
        let mut cluster = Cluster::make(&self)?;
        let mut killed = 0;
        while killed < self.kills {
            let until = (killed + self.judge_every.max(1)).min(self.kills);
            cluster.start_all(ROUND_MS)?;
            self.live(&mut cluster, &mut seen, &mut rng, &mut killed, until).await?;
            let judged = tokio::time::timeout(PATIENCE * 2, self.judge(&mut cluster, &mut seen, &mut rng));
            outcome.add(judged.await.context("the cluster does not go on")??);
            seen.acknowledged.clear();
            seen.announced.clear();
            if self.verbose {
                println!("{killed} kills: {} acknowledged, {} lost", outcome.acknowledged, outcome.lost());
            }
        }
        Ok(outcome)
    }

    /// Load, and kills, up to a number of them; in the end all nodes run, and what was acknowledged is published.
    async fn live(
        &self,
        cluster: &mut Cluster,
        seen: &mut Seen,
        rng: &mut StdRng,
        killed: &mut u32,
        until: u32,
    ) -> anyhow::Result<()> {
        let nodes: Arc<[ConnectionSettings]> =
            cluster.nodes.iter().map(|node| node.settings.clone()).collect();
        let (tell, news) = watch::channel(News::default());
        let mut listeners = JoinSet::new();
        for node in &*nodes {
            listeners.spawn(listen(node.clone(), LISTENER, tell.clone()));
        }
        let mut visitors = JoinSet::new();
        let (stop, stopped) = watch::channel(false);
        for number in 1..=self.clients {
            let rng = StdRng::seed_from_u64(rng.random());
            let visitor = Visitor {
                number,
                rng,
                nodes: Arc::clone(&nodes),
                news: news.clone(),
                stopped: stopped.clone(),
            };
            visitors.spawn(visitor.deposit());
        }
        while *killed < until {
            sleep(Duration::from_millis(rng.random_range(self.alive_ms.clone()))).await;
            *killed += self.strike(cluster, rng).await?;
        }
        cluster.start_all(ROUND_MS)?;
        // Also behind the last kill deposits are brought.
        sleep(Duration::from_millis(self.alive_ms.end)).await;
        stop.send_replace(true);
        while let Some(visited) = visitors.join_next().await {
            let visited = visited?;
            seen.accounts.extend(visited.account);
            seen.acknowledged.extend(visited.deposits);
        }
        let newest = seen.acknowledged.iter().map(|(round, _)| *round).max();
        ensure!(newest.is_some(), "nothing was acknowledged");
        let mut news = news;
        let published = news.wait_for(|news| news.ready.keys().next_back().copied() >= newest);
        drop(tokio::time::timeout(PATIENCE * 2, published).await.context("a round is not published")??);
        listeners.shutdown().await;
        seen.accounts.insert(LISTENER);
        let news = news.borrow();
        ensure!(news.wrong.is_none(), "{:?}", news.wrong);
        seen.announced.extend(news.ready.clone());
        Ok(())
    }

    /// Kills one node, two, or all, and starts them again, some of them to be killed once more at once; says how many it has killed.
    async fn strike(&self, cluster: &mut Cluster, rng: &mut StdRng) -> anyhow::Result<u32> {
        let count = match rng.random_range(0..20) {
            0 => self.nodes,
            1..=3 => 2.min(self.nodes),
            _ => 1,
        };
        let mut victims: Vec<usize> = (0..self.nodes).collect();
        victims = victims.sample(rng, count).copied().collect();
        let mut kills = 0;
        for at in &victims {
            cluster.kill(*at)?;
            kills += 1;
        }
        for at in victims {
            sleep(Duration::from_millis(rng.random_range(GONE_MS))).await;
            cluster.start(at, ROUND_MS)?;
            if rng.random_bool(0.25) {
                sleep(Duration::from_millis(rng.random_range(STARTING_MS))).await;
                cluster.kill(at)?;
                cluster.start(at, ROUND_MS)?;
                kills += 1;
            }
        }
        Ok(kills)
    }

    /// Judges what was acknowledged since the last time: the machines all lose their power, and come back with long rounds, so that
    /// the newest rounds stay as they are while a sample is retrieved; then each node's log is looked at.
    async fn judge(
        &self,
        cluster: &mut Cluster,
        seen: &mut Seen,
        rng: &mut StdRng,
    ) -> anyhow::Result<Outcome> {
        cluster.kill_all()?;
        cluster.certify(JUDGED_ROUND_MS)?;
        cluster.start_all(JUDGED_ROUND_MS)?;
        let sessions = cluster.sessions().await?;
        let key = sessions[0].1.parameters.manifest_key;
        ensure!(*seen.key.get_or_insert(key) == key, "the cluster has another key than before");
        let newest = seen.announced.keys().next_back().copied().context("no round was ready")?;
        let rounds = seen.acknowledged.iter().map(|(round, _)| *round).chain(seen.announced.keys().copied());
        let first = rounds.chain(seen.head.map(|(round, _)| round)).min().unwrap_or(newest);
        let mut all: Option<Manifests> = None;
        for (_, info, session) in &sessions {
            ensure!(info.parameters.manifest_key == key, "nodes have different keys");
            let manifests = loop {
                let manifests = manifests(session, first, newest).await?;
                // A node that was behind hears of it from whoever leads.
                if manifests.contains_key(&newest) {
                    break manifests;
                }
                sleep(LOOK).await;
            };
            ensure!(
                *all.get_or_insert_with(|| manifests.clone()) == manifests,
                "nodes have different manifests"
            );
        }
        let manifests = all.context("no node")?;
        seen.chain(&manifests, &key)?;

        let at = rng.random_range(0..sessions.len());
        let (connection, info, session) = &sessions[at];
        let newest_served = async {
            loop {
                // After a start they are built one after the other.
                if let Some(served) = Served::ask(session, &key, &manifests, RETAINED).await?
                    && served.serves(newest)
                {
                    return anyhow::Ok(served);
                }
                sleep(LOOK).await;
            }
        };
        let served =
            tokio::time::timeout(PATIENCE * 2, newest_served).await.context("a round is not served")??;
        let retrievable = seen.acknowledged.iter().filter(|(round, _)| served.serves(*round));
        let sample = retrievable.sample(rng, self.sample.min(self.clients));
        let accounts: Vec<_> = seen.accounts.iter().map(|account| (*account, None)).collect();
        let missing = served.retrieve(connection, info, &accounts, &sample).await?;
        drop(sessions);
        cluster.kill_all()?;
        let missing: HashSet<[u8; 304]> = missing.iter().map(|(_, deposit)| deposit.encode()).collect();
        let mut outcome = Outcome {
            acknowledged: seen.acknowledged.len() as u64,
            sampled: sample.len() as u64,
            retrieved: (sample.len() - missing.len()) as u64,
            ..Outcome::default()
        };
        let mut lost = missing;
        for node in &cluster.nodes {
            outcome.duplicates =
                outcome.duplicates.max(self.examine(&node.data, seen, &manifests, &key, &mut lost)?);
        }
        outcome.retrievable =
            seen.acknowledged.iter().filter(|(_, deposit)| !lost.contains(&deposit.encode())).count() as u64;
        cluster.certify(ROUND_MS)?;
        Ok(outcome)
    }

    /// Adds to what is lost what is not in the log of this node, once, in the round that it was acknowledged for, published under the
    /// manifest that everybody was given. Returns how many deposits are in two rounds.
    fn examine(
        &self,
        data: &Path,
        seen: &Seen,
        manifests: &BTreeMap<Round, SignedManifest>,
        key: &[u8; 32],
        lost: &mut HashSet<[u8; 304]>,
    ) -> anyhow::Result<u64> {
        let summary = sottod::check_log(data)?;
        let expected = seen.accounts.len() as u64..=self.clients as u64 + 1;
        ensure!(expected.contains(&summary.accounts), "{} accounts are known", summary.accounts);
        let mut places: HashMap<[u8; 304], Vec<Round>> = HashMap::new();
        let mut published = BTreeSet::new();
        for (round, logged) in sottod::read_log(data)? {
            let mut deposits = logged.deposits;
            if let (Some(seed), Some(signed)) = (logged.sealed, manifests.get(&round)) {
                let manifest = signed.verify(key)?;
                // A deposit that was brought to two nodes may be in the log twice, and is in the round once.
                arrange(&mut deposits, &seed);
                let same =
                    manifest.round_seed == seed && manifest.deposits_digest == deposits_digest(&deposits);
                ensure!(same, "round {round} is not what its manifest says");
                published.insert(round);
            }
            let once: HashSet<[u8; 304]> = deposits.iter().map(Deposit::encode).collect();
            for deposit in once {
                places.entry(deposit).or_default().push(round);
            }
        }
        for (round, deposit) in &seen.acknowledged {
            let deposit = deposit.encode();
            let there = places.get(&deposit).is_some_and(|places| places[..] == [*round]);
            if !there || !published.contains(round) {
                lost.insert(deposit);
            }
        }
        Ok(places.values().map(|places| places.len() as u64 - 1).sum())
    }
}

impl Seen {
    /// The manifests go on with the chain that was judged, and are those that were announced.
    fn chain(&mut self, manifests: &BTreeMap<Round, SignedManifest>, key: &[u8; 32]) -> anyhow::Result<()> {
        if let Some((round, _)) = self.head {
            ensure!(manifests.contains_key(&round), "the manifest of round {round} is gone");
        }
        let mut newest: Option<(Round, [u8; 32])> = None;
        for (round, signed) in manifests {
            let manifest = signed.verify(key)?;
            let digest = manifest.digest();
            ensure!(
                newest.is_none_or(|(_, digest)| digest == manifest.previous),
                "the chain breaks at {round}"
            );
            let judged = self.head.filter(|(judged, _)| judged == round);
            ensure!(judged.is_none_or(|(_, judged)| judged == digest), "round {round} has two manifests");
            newest = Some((*round, digest));
        }
        self.head = newest;
        for (round, announced) in &self.announced {
            ensure!(
                manifests.get(round) == Some(announced),
                "round {round} was announced with another manifest"
            );
        }
        Ok(())
    }
}
