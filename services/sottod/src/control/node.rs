//! Changing who votes in a cluster.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use sotto_log::{Change, voters};
use sotto_wire::address::parse_authority;

use crate::cluster::NUMBERS;
use crate::peers::Joined;

/// Who votes now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Voters {
    /// Their numbers.
    pub(crate) voters: BTreeSet<u64>,
}

/// Has it changed.
pub(super) async fn run(node: Option<&Joined>, wanted: Change) -> anyhow::Result<Voters> {
    let joined = node.context("this server is alone, and no cluster's: 'sottod cluster new' makes one")?;
    let member = joined.borrow().clone().context("the node is still reading its log; try again")?;
    let raft = member.raft.context("this node has no vote, and changes none: ask at the one that leads")?;
    if let Change::Add { number, address } | Change::Replace { by: number, address, .. } = &wanted {
        ensure!(NUMBERS.contains(number), "the number of a node is 1 to 65536");
        parse_authority(address).with_context(|| format!("'{address}' is no address of a node"))?;
    }
    Ok(Voters { voters: voters::change(&raft, wanted).await? })
}
