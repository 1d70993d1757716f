//! Changing who votes in a cluster that runs.

use std::io::Write;

use clap::{Args, Subcommand};
use sotto_log::Change;

use super::{Data, Failure};
use crate::control::{Request, Voters, ask};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Take in one more node that votes.
    ///
    /// 'sottod cluster node' makes its data directory; start it first. It gets all of the log before it votes. Run this on the
    /// machine of the node that leads.
    ///
    /// Example: sottod node add --data /var/lib/sottod --number 4 --address d.example.org:7372
    Add {
        #[command(flatten)]
        data: Data,
        /// Its number.
        #[arg(long, value_name = "N")]
        number: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Let a node go: it votes no more, and is sent nothing.
    ///
    /// Stop it afterwards. Run this on the machine of the node that leads.
    Remove {
        #[command(flatten)]
        data: Data,
        /// Its number.
        #[arg(long, value_name = "N")]
        number: u64,
    },
    /// Have a new node vote in the place of one that is lost.
    ///
    /// 'sottod cluster node' makes the data directory of the new one, which has a number of its own; start it first. The lost one
    /// must not come back with its old directory. Run this on the machine of the node that leads.
    ///
    /// Example: sottod node replace --data /var/lib/sottod --number 3 --by 4 --address d.example.org:7372
    Replace {
        #[command(flatten)]
        data: Data,
        /// The number of the one that is lost.
        #[arg(long, value_name = "N")]
        number: u64,
        /// The number of the new one.
        #[arg(long, value_name = "N")]
        by: u64,
        #[command(flatten)]
        place: Place,
    },
}

/// Where a node is.
#[derive(Args)]
pub(super) struct Place {
    /// Host and port where it listens for other nodes.
    #[arg(long, value_name = "HOST:PORT")]
    address: String,
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    let (data, change) = match command {
        Command::Add { data, number, place } => (data, Change::Add { number, address: place.address }),
        Command::Remove { data, number } => (data, Change::Remove { number }),
        Command::Replace { data, number, by, place } => {
            (data, Change::Replace { number, by, address: place.address })
        }
    };
    let (Voters { voters }, _) = ask(&data.data, Request::Node { change })?;
    let listed: Vec<_> = voters.iter().map(u64::to_string).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "nodes {} vote", listed.join(", "))?;
    if voters.len() % 2 == 0 {
        let survives = voters.len().saturating_sub(1) / 2;
        writeln!(out, "of these, {survives} may be lost: as many as with one less; 3 or 5 are better")?;
    }
    Ok(())
}
