//! The manifest key that follows.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use sotto_protocol::Round;

use super::{Data, Failure};
use crate::control::{OpenRound, Request, Rotated, ask};
use crate::rotation::{self, Made};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make the next manifest key, and the announcement that names it from a round on, with the root key.
    ///
    /// Both are files in the data directory: manifest-N.key, which is secret, and announcement.next. In a cluster every node
    /// needs both before 'sottod keys announce' is given where the node runs that leads.
    ///
    /// Example: sottod keys rotate --data cluster/node1 --also cluster/node2 --also cluster/node3 --root cluster/root.key --from 120000
    Rotate(RotateOptions),
    /// Have a server that runs announce the key that 'sottod keys rotate' has made. Asked of the node that leads, on its machine.
    ///
    /// From the round on that was named then every node signs with the key. Nobody's session ends, and no round is lost.
    ///
    /// Example: sottod keys announce --data /var/lib/sottod
    Announce(Data),
}

/// How a key is made.
#[derive(Args)]
pub(super) struct RotateOptions {
    #[command(flatten)]
    data: Data,
    /// The file with the root key, if it is not in the data directory.
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// The first round that the key signs [default: ten minutes after the round that is open, if the server runs here].
    #[arg(long, value_name = "ROUND")]
    from: Option<u64>,
    /// The data directory of another node, or a copy of it, which gets the same files.
    #[arg(long, value_name = "DIR")]
    also: Vec<PathBuf>,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Rotate(options) => rotate(options),
        Command::Announce(data) => announce(data),
    }
}

fn rotate(options: &RotateOptions) -> Result<(), Failure> {
    let RotateOptions { data: Data { data }, root, from, also } = options;
    let from = match from {
        Some(from) => *from,
        None => {
            let open =
                ask(data, Request::Round).context("give --from with the first round that the key is to sign");
            let (OpenRound { round }, _) = open?;
            round.saturating_add(rotation::ahead(data)?)
        }
    };
    let Made { files: [key, next], first, end } = rotation::rotate(data, root.as_deref(), Round(from), also)?;
    let mut out = std::io::stdout().lock();
    let end = end.map_or_else(String::new, |end| format!(", and ends before round {end}"));
    writeln!(out, "made {key} and {next}: the key signs from round {first} on{end}")?;
    if also.is_empty() {
        writeln!(out, "in a cluster: bring both files to the data directory of every node")?;
    }
    writeln!(out, "then, where the node runs that leads: 'sottod keys announce'")?;
    Ok(())
}

fn announce(data: &Data) -> Result<(), Failure> {
    let (Rotated { first }, _) = ask(&data.data, Request::Announce)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "announced: the next manifest key signs from round {first} on")?;
    writeln!(
        out,
        "where copies of the data directories are kept: take over the file 'announcement' of a node"
    )?;
    Ok(())
}
