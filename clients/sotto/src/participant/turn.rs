//! Which node of a server is asked next. It follows from the account, the address and what has failed, and from nothing that
//! people do.

use std::collections::VecDeque;

use crate::ConnectionSettings;

/// A turn through the nodes of a server, in the order of an account: its home first.
pub(super) struct Turn {
    nodes: Vec<ConnectionSettings>,
    /// Places of those that are still to be asked in this turn.
    left: VecDeque<usize>,
    current: usize,
}

impl Turn {
    /// A whole turn, for an account by its public key.
    pub(super) fn new(settings: &ConnectionSettings, account: &[u8; 32]) -> Self {
        let nodes = settings.in_order_of(account);
        Self { left: (0..nodes.len()).collect(), nodes, current: 0 }
    }

    /// Who is asked next; none if everybody was.
    pub(super) fn next(&mut self) -> Option<ConnectionSettings> {
        self.current = self.left.pop_front()?;
        self.nodes.get(self.current).cloned()
    }

    /// Begins again with everybody.
    pub(super) fn again(&mut self) {
        self.left = (0..self.nodes.len()).collect();
    }

    /// Begins again with everybody but the one that was asked last.
    pub(super) fn others(&mut self) {
        self.left = (0..self.nodes.len()).filter(|place| *place != self.current).collect();
    }

    /// Whether there is another node to ask.
    pub(super) fn has_others(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Asks nobody else.
    pub(super) fn end(&mut self) {
        self.left.clear();
    }
}

#[cfg(test)]
mod tests {
    use sotto_wire::Address;

    use super::Turn;
    use crate::ConnectionSettings;

    fn turn(nodes: &str) -> Turn {
        let address: Address = format!("sotto://{nodes}/{}", "a".repeat(52)).parse().unwrap();
        Turn::new(&ConnectionSettings::new(address), &[7; 32])
    }

    fn rest(turn: &mut Turn) -> Vec<String> {
        core::iter::from_fn(|| turn.next()).map(|node| node.address.authority()).collect()
    }

    #[test]
    fn after_a_loss_the_others_are_asked_in_order_and_home_before_all() {
        let mut turn = turn("a:1,b:1,c:1");
        let all = rest(&mut turn);
        assert_eq!(all.len(), 3);
        assert!(turn.has_others());
        assert!(turn.next().is_none());
        // The session was with the last.
        turn.others();
        assert_eq!(rest(&mut turn), all[..2]);
        // And now with the second.
        turn.others();
        assert_eq!(rest(&mut turn), [all[0].clone(), all[2].clone()]);
        turn.again();
        assert_eq!(rest(&mut turn), all);
        turn.again();
        turn.end();
        assert!(turn.next().is_none());
    }

    #[test]
    fn a_node_alone_is_asked_once_and_then_after_a_pause() {
        let mut turn = turn("a:1");
        assert!(!turn.has_others());
        assert_eq!(rest(&mut turn).len(), 1);
        turn.others();
        assert!(turn.next().is_none());
    }
}
