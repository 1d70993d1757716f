//! Having another node lead.

use std::io::Write;

use clap::Args;

use super::{Data, Failure};
use crate::control::{Request, Transferred, ask};

/// Who is to lead.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    data: Data,
    /// The number of the node that is to lead [default: whichever has stored most].
    #[arg(long, value_name = "NODE")]
    to: Option<u64>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let (Transferred { leader, ms }, _) = ask(&options.data.data, Request::Transfer { to: options.to })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "node {leader} leads, after {ms} ms")?;
    match options.to {
        Some(to) if to != leader => {
            Err(anyhow::anyhow!("the others chose node {leader}; run this there, with --to {to}").into())
        }
        _ => Ok(()),
    }
}
