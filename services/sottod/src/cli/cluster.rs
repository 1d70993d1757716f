//! Making a cluster.

use core::fmt::Display;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use sotto_wire::address::parse_authority;
use sotto_wire::{Address, AddressError, Host, RootKey, Transport};

use super::keys::template;
use super::settings::{FILE, Settings, check_preference, environment};
use super::{Data, Failure};
use crate::cluster::install::{self, Installed};
use crate::cluster::making::{self, Begun, NewNode, NewNodes};
use crate::cluster::{NodeId, more};
use crate::{Addressing, EngineName, Preference, data};

/// Where clients reach a node that says nothing else.
const PORT: u16 = 7370;
/// One survives nothing, three the loss of one, five the loss of two. Others are slower and survive no more.
const COUNTS: [usize; 3] = [1, 3, 5];

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make the data directories of a new cluster, one for each node, and its root key.
    ///
    /// Bring DIR/node1 to the first machine, DIR/node2 to the second, and so on, and start each with 'sottod serve
    /// --data'; the same with DIR/answerers/answerer1 and so on, if there are any. DIR/root.key goes to no machine: keep it in a safe place.
    ///
    /// Example: sottod cluster new --out cluster --node a.example.org --node b.example.org --node c.example.org
    New(NewOptions),
    /// Make the data directory of one more node.
    ///
    /// Start it on its machine with 'sottod serve --data'. One that votes is taken in by 'sottod node add' or 'sottod node
    /// replace' where the cluster runs; an answerer needs no more.
    ///
    /// Example: sottod cluster node --out node4 --like cluster/node1 --root cluster/root.key --number 4 --node d.example.org
    Node(NodeOptions),
    /// Bring a node's directory, as it was made, to the place where it runs: for platforms on which nothing else can copy it.
    ///
    /// A node that is there keeps its log, and gets what 'sottod certify' has made anew since. If --from is empty, a node that
    /// is there stays as it is. No server may be using it.
    ///
    /// Example: sottod cluster install --from /node --data /data/node
    Install(InstallOptions),
}

/// What is installed, and where.
#[derive(Args)]
pub(super) struct InstallOptions {
    /// The directory as 'sottod cluster new', 'sottod cluster node' or 'sottod certify' left it.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    data: Data,
}

/// How one more node is made.
#[derive(Args)]
pub(super) struct NodeOptions {
    /// Where to make it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The data directory of another node of the cluster, or a copy of it.
    #[arg(long, value_name = "DIR")]
    like: PathBuf,
    /// The root key [default: root.key in --like].
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Its number, which no node of its kind ever had.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    number: u64,
    /// The machine, as the other nodes reach it. HOST:PORT if its port for nodes is not --peer-port.
    #[arg(long, value_name = "HOST")]
    node: String,
    /// Host and port under which clients reach it [default: port 7370 of --node].
    #[arg(long, value_name = "HOST:PORT")]
    public: Option<String>,
    /// It answers people and has no vote.
    #[arg(long)]
    answerer: bool,
    /// The port on which nodes listen for each other.
    #[arg(long, value_name = "PORT", default_value_t = 7372, value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: u16,
}

/// How a cluster is made.
#[derive(Args)]
pub(super) struct NewOptions {
    /// Where to make it; created if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A machine, as the other nodes reach it: 1, 3 or 5 of them. HOST:PORT if its port for nodes is not --peer-port.
    #[arg(long = "node", value_name = "HOST", required = true)]
    nodes: Vec<String>,
    /// Host and port under which clients reach a node; one for each --node in the same order, or none
    /// [default: port 7370 of --node].
    #[arg(long = "public", value_name = "HOST:PORT")]
    public: Vec<String>,
    /// A machine whose node answers people and has no vote: as many as there are people to answer. It may be the same HOST
    /// several times, if that is the name of several machines.
    #[arg(long = "answerer", value_name = "HOST")]
    answerers: Vec<String>,
    /// Host and port under which clients reach an answerer; one for each --answerer in the same order, or none
    /// [default: port 7370 of --answerer].
    #[arg(long = "answerer-public", value_name = "HOST:PORT")]
    answerers_public: Vec<String>,
    /// The port on which nodes listen for each other.
    #[arg(long, value_name = "PORT", default_value_t = 7372, value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: u16,
    /// Where nodes listen for clients.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7370")]
    listen: SocketAddr,
    /// How clients find messages. Accounts and conversations do not move from labels to the others, or back.
    #[arg(long, value_enum, default_value = "labels")]
    addressing: Addressing,
    /// What answers retrievals.
    #[arg(long, value_enum, default_value = "sealpir")]
    engine: EngineName,
    /// With voce, voce-hint and voce-apart: what a round is arranged for.
    #[arg(long, value_enum, default_value_t)]
    prefer: Preference,
    /// Let everybody register who reaches a node, without a token.
    #[arg(long)]
    open_registration: bool,
    /// Length of a round, ms [default: 2000].
    #[arg(long, value_name = "MS")]
    round_ms: Option<u32>,
    /// Messages that a client retrieves per round [default: 16].
    #[arg(long, value_name = "K")]
    retrieve: Option<u16>,
    /// Rounds that stay retrievable [default: 2].
    #[arg(long, value_name = "R")]
    retained: Option<u8>,
    /// Write the address there, too, for whoever shall not see DIR.
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// If the cluster is there already, leave it as it is, and all is well.
    #[arg(long)]
    if_missing: bool,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::New(options) => new(options),
        Command::Node(options) => one_more(options),
        Command::Install(options) => install(options),
    }
}

fn install(options: &InstallOptions) -> Result<(), Failure> {
    let InstallOptions { from, data: Data { data } } = options;
    let installed = install::install(from, data)?;
    let data = data.display();
    let mut stdout = std::io::stdout().lock();
    Ok(match installed {
        Installed::Made => writeln!(stdout, "the node is in {data}"),
        Installed::Changed(files) => writeln!(stdout, "{data}: {files} files of the node are new"),
        Installed::Unchanged => writeln!(stdout, "{data}: the node stays as it is"),
    }?)
}

/// Its settings are those of the other node, but for where it is reached.
fn one_more(options: &NodeOptions) -> Result<(), Failure> {
    let NodeOptions { out, like, root, number, node, public, answerer, peer_port } = options;
    let public = public.as_slice();
    let place = places_of(("--node", core::slice::from_ref(node)), ("--public", public), *peer_port);
    let place = place.map_err(Failure::misconfigured)?.pop().context("no node")?;
    let path = like.join(FILE);
    let settings =
        std::fs::read_to_string(&path).with_context(|| format!("configuration {}", path.display()));
    let settings = settings.and_then(|text| elsewhere(&text, &place)).map_err(Failure::misconfigured)?;
    let new = NewNode { peers: authority(&place.peers), settings: (FILE, settings) };
    let this = if *answerer { NodeId::Answerer(*number) } else { NodeId::Voter(*number) };
    more::make(out, like, root.as_deref(), this, &new)?;
    let mut stdout = std::io::stdout().lock();
    let directory = out.display();
    writeln!(
        stdout,
        "{this} is in {directory}: bring it to its machine, and there 'sottod serve --data DIR'"
    )?;
    if !answerer {
        writeln!(
            stdout,
            "then, on the machine of the node that leads: 'sottod node add --number {number} --address {}'",
            new.peers
        )?;
    }
    let public = authority(&place.public);
    Ok(writeln!(stdout, "people who are to reach it need an address that names {public}, too")?)
}

/// A configuration with other places in it, where it has such lines; all else is as it was.
fn elsewhere(text: &str, place: &Place) -> anyhow::Result<String> {
    let port = place.peers.1;
    let mut found = 0;
    let lines = text.lines().map(|line| match line.split_once('=').map(|(key, _)| key.trim()) {
        Some("public") => {
            found += 1;
            format!("public = \"{}\"\n", authority(&place.public))
        }
        Some("peers") => {
            found += 1;
            format!("peers = \"0.0.0.0:{port}\"\n")
        }
        _ => format!("{line}\n"),
    });
    let text = lines.collect();
    ensure!(found == 2, "the configuration of --like does not have 'public' and 'peers' once each");
    Ok(text)
}

fn new(options: &NewOptions) -> Result<(), Failure> {
    check_preference((options.engine, options.prefer)).map_err(Failure::misconfigured)?;
    let (voters, answerers) = places(options).map_err(Failure::misconfigured)?;
    let new = |places: &[Place]| places.iter().map(|place| node(options, place)).collect();
    let nodes = NewNodes { voters: new(&voters), answerers: new(&answerers) };
    let places: Vec<&Place> = voters.iter().chain(&answerers).collect();
    let (making, made) = match making::begin(&options.out, nodes)? {
        Begun::First(making) => {
            let address = address(&places, making.root_key()).map_err(Failure::misconfigured)?;
            (making, address)
        }
        Begun::There(_) if !options.if_missing => {
            return Err(anyhow!(
                "{}: there is a cluster already; name another directory, or leave it as it is with --if-missing",
                options.out.display()
            )
            .into());
        }
        Begun::There(found) | Begun::Completed(found) => {
            let wanted = address(&places, *found.root_key()).map_err(Failure::misconfigured)?;
            if wanted != found {
                return Err(anyhow!(
                    "{}: there is another cluster, {found}; name another directory",
                    options.out.display()
                )
                .into());
            }
            return Ok(tell(options, &found)?);
        }
    };
    sign(&making.first(), &making.root())?;
    making.finish(&made)?;
    Ok(tell(options, &made)?)
}

/// Where others reach a node.
struct Place {
    /// The other nodes.
    peers: (Host, u16),
    /// Clients.
    public: (Host, u16),
}

/// Those of the nodes that vote, and of those that do not.
fn places(options: &NewOptions) -> anyhow::Result<(Vec<Place>, Vec<Place>)> {
    let NewOptions { nodes, public, answerers, answerers_public, peer_port, .. } = options;
    ensure!(
        COUNTS.contains(&nodes.len()),
        "a cluster has 1, 3 or 5 nodes that vote: give --node so many times"
    );
    let voters = places_of(("--node", nodes), ("--public", public), *peer_port)?;
    let answerers =
        places_of(("--answerer", answerers), ("--answerer-public", answerers_public), *peer_port)?;
    let distinct = |of: fn(&Place) -> &(Host, u16)| {
        let own: BTreeSet<_> = voters.iter().map(of).map(authority).collect();
        own.len() == voters.len() && !answerers.iter().any(|place| own.contains(&authority(of(place))))
    };
    if !distinct(|place| &place.peers) {
        bail!("two nodes have the same address for nodes: give --node as HOST:PORT");
    }
    if !distinct(|place| &place.public) {
        bail!("two nodes have the same address for clients: give --public");
    }
    Ok((voters, answerers))
}

fn places_of(
    (option, hosts): (&str, &[String]),
    (public_option, public): (&str, &[String]),
    peer_port: u16,
) -> anyhow::Result<Vec<Place>> {
    let count = public.len();
    ensure!(count == 0 || count == hosts.len(), "give {public_option} once for each {option}, or never");
    let place = |(at, text): (usize, &String)| {
        let peers = peers(text, peer_port).with_context(|| format!("{option} {text}"))?;
        let public = match public.get(at) {
            Some(public) => parse_authority(public).with_context(|| format!("{public_option} {public}"))?,
            None => (peers.0.clone(), PORT),
        };
        Ok(Place { peers, public })
    };
    hosts.iter().enumerate().map(place).collect()
}

/// Under what the other nodes reach one.
fn peers(text: &str, port: u16) -> Result<(Host, u16), AddressError> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok((Host::Ip(ip), port));
    }
    parse_authority(text).or_else(|_| parse_authority(&format!("{text}:{port}")))
}

fn authority((host, port): &(Host, u16)) -> String {
    format!("{host}:{port}")
}

fn node(options: &NewOptions, place: &Place) -> NewNode {
    let public = authority(&place.public);
    let settings = template(
        options.listen,
        Some(&public),
        options.addressing,
        (options.engine, options.prefer),
        options.open_registration,
    );
    let port = format!("peers = \"0.0.0.0:{}\"", place.peers.1);
    let settings = settings.replace("peers = \"0.0.0.0:7372\"", &port);
    let settings = set(settings, "round_ms = 2000", options.round_ms);
    let settings = set(settings, "retrieve = 16", options.retrieve);
    let settings = set(settings, "retained = 2", options.retained);
    NewNode { peers: authority(&place.peers), settings: (FILE, settings) }
}

/// The settings with another value in place of a default, if there is one.
fn set(settings: String, default: &str, value: Option<impl Display>) -> String {
    let (Some(value), Some((key, _))) = (value, default.split_once(' ')) else { return settings };
    settings.replace(&format!("\n{default}\n"), &format!("\n{key} = {value}\n"))
}

/// All places of the cluster for clients: a name that several nodes share is one.
fn address(places: &[&Place], root: RootKey) -> anyhow::Result<Address> {
    let mut named = BTreeSet::new();
    let all = places.iter().filter(|place| named.insert(authority(&place.public)));
    let mut all = all.map(|place| place.public.clone());
    let (host, port) = all.next().context("no node")?;
    let first = Address::new(Transport::Tls, host, port, root)?;
    Ok(all.try_fold(first, |address, (host, port)| address.and(host, port))?)
}

/// The first seeds, and the first signature, in the directory of the first node.
fn sign(first: &Path, root: &Path) -> Result<(), Failure> {
    let settings = Settings::read(None, Some(first), environment().map_err(Failure::misconfigured)?);
    let settings = settings.map_err(Failure::misconfigured)?;
    let engine = settings.engine();
    let mut config = settings.into_config().map_err(Failure::misconfigured)?;
    config.data = Some(first.to_owned());
    Ok(data::certify(&*engine, first, Some(root), &config, false)?)
}

fn tell(options: &NewOptions, address: &Address) -> std::io::Result<()> {
    if let Some(path) = &options.address_file {
        sotto_files::replace(path, format!("{address}\n").as_bytes(), 0o644)?;
    }
    let mut out = std::io::stdout().lock();
    let (directory, count) = (options.out.display(), options.nodes.len());
    writeln!(out, "the cluster is in {directory}: data directories node1 to node{count}, and its root key")?;
    if !options.answerers.is_empty() {
        let count = options.answerers.len();
        writeln!(
            out,
            "answerers/answerer1 to answerer{count} are for nodes that answer people and have no vote"
        )?;
    }
    writeln!(out, "address {address}")?;
    writeln!(out, "next: bring each to its machine, and there 'sottod serve --data DIR'")?;
    if !options.open_registration {
        writeln!(out, "for every person who is to join: 'sottod token --data {directory}/node1'")?;
    }
    writeln!(
        out,
        "{directory}/root.key is who the cluster is: copy it to a safe place, and remove it here; only 'sottod certify' \
         needs it"
    )
}

#[cfg(test)]
mod tests {
    use super::super::settings::TEMPLATE;
    use super::set;

    /// What is replaced must be found, or an option would do nothing.
    #[test]
    fn every_option_changes_its_line() {
        for default in ["round_ms = 2000", "retrieve = 16", "retained = 2"] {
            let other = default.replace(|character: char| character.is_ascii_digit(), "9");
            let changed =
                set(TEMPLATE.to_owned(), default, Some(other.rsplit(' ').next().unwrap_or_default()));
            assert!(
                changed.contains(&format!("\n{other}\n")) && !changed.contains(&format!("\n{default}\n"))
            );
        }
        assert_eq!(set(TEMPLATE.to_owned(), "retained = 2", None::<u8>), TEMPLATE);
    }
}
