//! Where to connect, and how.

use core::time::Duration;

use mpir::Engines;
use sotto_protocol::Directory;
use sotto_wire::Address;

/// Where to connect, and how patiently.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The server. A connection is to one node of it, the first.
    pub address: Address,
    /// For the connection itself.
    pub connect_timeout: Duration,
    /// For calls of a few hundred bytes.
    pub call_timeout: Duration,
    /// For calls that carry keys, mappings, queries or answers.
    pub transfer_timeout: Duration,
    /// A silent connection is probed this often.
    pub keep_alive: Duration,
    /// It is given up so long after that.
    pub keep_alive_timeout: Duration,
    /// The first pause before a lost connection is opened again; it doubles up to `retry_most`.
    pub retry_first: Duration,
    /// The longest such pause.
    pub retry_most: Duration,
    /// The engines that this program knows.
    pub engines: Engines,
    /// Accept an engine without privacy. Only for tests of the layers above the engine.
    #[doc(hidden)]
    pub allow_no_privacy: bool,
}

impl ConnectionSettings {
    /// The same for every node of the server alone.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        self.address.each().map(|address| Self { address, ..self.clone() })
    }

    /// The same for every node of the server alone, in the order in which an account, by its public key, asks them
    /// ([`Address::in_order_of`]).
    #[must_use]
    pub fn in_order_of(&self, account: &[u8; 32], directory: Option<&Directory>) -> Vec<Self> {
        let nodes = self.address.in_order_of(account, directory).into_iter();
        nodes.map(|address| Self { address, ..self.clone() }).collect()
    }

    /// The usual patience.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            transfer_timeout: Duration::from_secs(120),
            keep_alive: Duration::from_secs(15),
            keep_alive_timeout: Duration::from_secs(15),
            retry_first: Duration::from_millis(500),
            retry_most: Duration::from_secs(30),
            engines: Engines::default(),
            allow_no_privacy: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::BTreeSet;

    use super::ConnectionSettings;

    #[test]
    fn every_node_is_asked_with_the_same_patience() {
        let key = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let address = format!("sotto://one.example:1,two.example:2,three.example:3/{key}");
        let all = ConnectionSettings {
            call_timeout: Duration::from_secs(77),
            ..ConnectionSettings::new(address.parse().unwrap())
        };
        let names = |nodes: Vec<ConnectionSettings>| -> BTreeSet<String> {
            assert!(nodes.iter().all(|node| node.call_timeout == all.call_timeout));
            nodes.iter().map(|node| node.address.authority()).collect()
        };
        let expected = ["one.example:1", "two.example:2", "three.example:3"].map(str::to_owned).into();
        assert_eq!(names(all.each().collect()), expected);
        assert_eq!(names(all.in_order_of(&[3; 32], None)), expected);
    }
}
