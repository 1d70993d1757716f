//! Processes of a cluster.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sotto_session::{Connection, ConnectionSettings};
use sotto_wire::Address;

use super::ports::free_ports;

/// Until all nodes serve.
const STARTING: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// They end with this.
pub(crate) struct Nodes {
    processes: Vec<Child>,
    peers: Vec<u16>,
    settings: Vec<ConnectionSettings>,
}

impl Nodes {
    /// Starts so many that vote, and then so many that do not, with these options of `cluster new`.
    pub(crate) fn start(
        directory: &Path,
        (voters, answerers): (usize, usize),
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let count = voters + answerers;
        let program = std::env::current_exe()?;
        let ports = free_ports(2 * count)?;
        let (peers, public) = ports.split_at(count);
        let here = |port: &u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(&program);
        command.args(["cluster", "new", "--open-registration"]).args(options);
        for (at, (peer, public)) in peers.iter().zip(public).enumerate() {
            let [node, at] = match at < voters {
                true => ["--node", "--public"],
                false => ["--answerer", "--answerer-public"],
            };
            command.args([node, &here(peer), at, &here(public)]);
        }
        command.arg("--out").arg(directory.join("cluster")).env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4");
        ensure!(command.stdout(Stdio::null()).status()?.success(), "the cluster is not made");
        let address: Address = std::fs::read_to_string(directory.join("cluster/address"))?.trim().parse()?;
        let settings: Vec<_> = ConnectionSettings::new(address).each().collect();
        let mut nodes = Self { processes: Vec::new(), peers: peers.to_vec(), settings };
        let voters = (1..=voters).map(|number| format!("node{number}"));
        let answerers = (1..=answerers).map(|number| format!("answerers/answerer{number}"));
        for (name, (peer, public)) in voters.chain(answerers).zip(peers.iter().zip(public)) {
            let process = Command::new(&program)
                .args(["serve", "--listen", &here(public), "--data"])
                .arg(directory.join("cluster").join(name))
                .env("SOTTOD_ROUNDS_SEED_SEGMENTS", "4")
                .env("SOTTOD_PEERS", here(peer))
                .env("SOTTOD_OPERATIONS", "127.0.0.1:0")
                .env("RUST_LOG", "error")
                .stdout(Stdio::null())
                .spawn()?;
            nodes.processes.push(process);
        }
        Ok(nodes)
    }

    /// How each is reached.
    pub(crate) fn settings(&self) -> &[ConnectionSettings] {
        &self.settings
    }

    /// Connects as soon as the node takes sessions.
    pub(crate) async fn connect(&self, settings: &ConnectionSettings) -> anyhow::Result<Connection> {
        let until = Instant::now() + STARTING;
        loop {
            let tried = async {
                let connection = Connection::open(settings).await?;
                let info = connection.info().await?;
                connection.session(&[0xdd; 32], &info, None, None).await?;
                anyhow::Ok(connection)
            };
            match tried.await {
                Ok(connection) => return Ok(connection),
                Err(error) if Instant::now() > until => return Err(error.context("a node does not serve")),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Their processes.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(Child::id).collect()
    }

    /// Bytes that one node has sent to the others, on the connections that it has opened to them: that of the most. Those that
    /// follow only send on what people have brought to them.
    pub(crate) fn sent_by_the_leader(&self) -> anyhow::Result<u64> {
        let mut most = 0;
        for process in &self.processes {
            let mut sent = 0;
            for port in &self.peers {
                let filter = format!("dport = :{port}");
                let told = Command::new("ss").args(["-tinpHO", "state", "established", &filter]).output();
                let told = told.context("'ss' (iproute2) counts bytes, and cannot be run")?;
                let mine = format!("pid={},", process.id());
                let told = String::from_utf8_lossy(&told.stdout).into_owned();
                for line in told.lines().filter(|line| line.contains(&mine)) {
                    let bytes = line.split_whitespace().find_map(|word| word.strip_prefix("bytes_sent:"));
                    sent += bytes.map_or(Ok(0), str::parse::<u64>)?;
                }
            }
            most = most.max(sent);
        }
        Ok(most)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
