//! Which node of a server is asked next, and when. It follows from the account, the nodes that are known, and what has failed, and
//! from nothing that people do.

use core::time::Duration;
use std::collections::VecDeque;

use sha2::{Digest, Sha256};
use sotto_protocol::{Directory, RoundMode};
use sotto_wire::Address;

use sotto_session::ConnectionSettings;

/// Of the pauses that an account makes.
const PAUSE_DOMAIN: &[u8] = b"sotto/node-pause/v1\0";
/// With several nodes, a connection is probed this often, and given up so long after that: three seconds in all.
const HEARTBEAT: Duration = Duration::from_secs(1);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// A session that lasted less makes the next one more patient, and one that lasted longer less: over a slow line an answer to a
/// probe waits behind what is sent.
const LASTING: Duration = Duration::from_secs(600);

/// A turn through the nodes of a server, in the order of an account: its home first.
pub(crate) struct Turn {
    settings: ConnectionSettings,
    account: [u8; 32],
    mode: RoundMode,
    nodes: Vec<Address>,
    /// Those that are still to be asked in this turn.
    left: VecDeque<Address>,
    /// The one that was asked last.
    current: Option<Address>,
    /// One that does not stand in for it.
    apart: Option<Address>,
    heartbeat_timeout: Duration,
    /// Pauses that were made.
    pauses: u64,
}

impl Turn {
    /// A whole turn, for an account by its public key, through the nodes of a directory and of the address.
    pub(crate) fn new(
        settings: ConnectionSettings,
        account: [u8; 32],
        mode: RoundMode,
        directory: Option<&Directory>,
    ) -> Self {
        let nodes = settings.address.in_order_of(&account, directory);
        let left = nodes.iter().cloned().collect();
        let heartbeat_timeout = HEARTBEAT_TIMEOUT;
        Self {
            settings,
            account,
            mode,
            nodes,
            left,
            current: None,
            apart: None,
            heartbeat_timeout,
            pauses: 0,
        }
    }

    /// Goes by another directory from the next turn on.
    pub(crate) fn learn(&mut self, directory: &Directory) {
        self.nodes = self.settings.address.in_order_of(&self.account, Some(directory));
    }

    /// Who is asked next; none if everybody was.
    pub(crate) fn next(&mut self) -> Option<ConnectionSettings> {
        let node = self.left.pop_front()?;
        self.current = Some(node.clone());
        Some(self.to(node))
    }

    /// Takes this one for the one asked next, if it is still to be asked in this turn.
    pub(crate) fn take(&mut self, node: &Address) -> bool {
        let Some(place) = self.left.iter().position(|left| left == node) else { return false };
        self.current = self.left.remove(place);
        true
    }

    /// Begins again with everybody.
    pub(crate) fn again(&mut self) {
        self.left = self.nodes.iter().cloned().collect();
    }

    /// Begins again with everybody but the one that was asked last.
    pub(crate) fn others(&mut self) {
        self.left = self.all_others().cloned().collect();
    }

    /// Whether there is another node to ask, and rounds go on without those who are missing.
    pub(crate) fn has_others(&self) -> bool {
        self.mode == RoundMode::Deadline && self.nodes.len() > 1
    }

    /// From now on this one does not stand in for another: it may be the same under two names, and takes one session of an
    /// account.
    pub(crate) fn set_apart(&mut self, node: Option<Address>) {
        self.apart = node;
    }

    /// Who may stand in for the one that was asked last, in order.
    pub(crate) fn stand_ins(&self) -> Vec<ConnectionSettings> {
        let others = self.all_others().filter(|node| Some(*node) != self.apart.as_ref());
        let others = others.filter(|_| self.has_others());
        others.map(|node| self.to(node.clone())).collect()
    }

    /// Asks nobody else.
    pub(crate) fn end(&mut self) {
        self.left.clear();
    }

    /// A session has lasted so long.
    pub(crate) fn lasted(&mut self, time: Duration) {
        let timeout = if time < LASTING { self.heartbeat_timeout * 2 } else { self.heartbeat_timeout / 2 };
        self.heartbeat_timeout = timeout.min(self.settings.keep_alive_timeout).max(HEARTBEAT_TIMEOUT);
    }

    /// How long the next pause is, of this length in the mean.
    pub(crate) fn pause(&mut self, mean: Duration) -> Duration {
        self.pauses += 1;
        mean / 2 + draw(&self.account, Pause::BetweenTurns, self.pauses, mean)
    }

    fn all_others(&self) -> impl Iterator<Item = &Address> {
        self.nodes.iter().filter(|node| Some(*node) != self.current.as_ref())
    }

    fn to(&self, address: Address) -> ConnectionSettings {
        let mut settings = ConnectionSettings { address, ..self.settings.clone() };
        if self.has_others() {
            (settings.keep_alive, settings.keep_alive_timeout) = (HEARTBEAT, self.heartbeat_timeout);
        }
        settings
    }
}

/// What a pause comes before.
#[derive(Clone, Copy)]
pub(crate) enum Pause {
    BetweenTurns = 0,
    BeforeStandIn = 1,
}

/// A time below `spread` by which those who lose one node together do not come to another one together. Anybody can tell it: it
/// follows from the account, and how often it has paused.
pub(crate) fn draw(account: &[u8; 32], pause: Pause, number: u64, spread: Duration) -> Duration {
    let digest = Sha256::new_with_prefix(PAUSE_DOMAIN)
        .chain_update(account)
        .chain_update([pause as u8])
        .chain_update(number.to_le_bytes())
        .finalize();
    let drawn = u64::from_le_bytes(core::array::from_fn(|place| digest[place]));
    // A spread has at most seconds, and at least a millisecond.
    Duration::from_millis(drawn % u64::try_from(spread.as_millis()).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests;
