//! Where the nodes of a server are, how to speak to them, and which cluster they must belong to.

use core::cmp::Reverse;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use sha2::{Digest, Sha256};
use sotto_protocol::Directory;
use sotto_protocol::base32::BASE32;

use crate::root::RootKey;

const TLS: &str = "sotto://";
const PLAINTEXT: &str = "sotto+plain://";
/// Characters of a key: 256 bits in base32 without padding.
const KEY_CHARACTERS: usize = 52;
/// Longest name of a host, and of one of its parts (RFC 1035).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// Most nodes in an address.
pub const NODES_MAX: usize = 16;
/// Of the order in which an account asks nodes.
const ORDER_DOMAIN: &[u8] = b"sotto/node-order/v1\0";

/// The address of a server: `sotto://HOST:PORT/KEY` or, of several nodes that are one server, `sotto://HOST:PORT,HOST2:PORT2/KEY`
/// with up to 16 of them, where the key is the Ed25519 root key of the server's cluster as 52
/// characters of lower-case base32 without padding. An address is public, but must come from somebody who knows the
/// server: what the server says is believed only under this key.
///
/// `sotto+plain://HOST:PORT/KEY` is a server on this machine that is spoken to without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    transport: Transport,
    /// The first, and those after it.
    node: (Host, u16),
    others: Vec<(Host, u16)>,
    root_key: RootKey,
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TLS 1.3 under a certificate of the cluster's root key.
    Tls,
    /// Readable and changeable by whoever is in between; on loopback only.
    Plaintext,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// By a name that is looked up.
    Name(String),
    /// By its number.
    Ip(IpAddr),
}

/// Why a text is no address, or none to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// More nodes than an address may have, or one of them twice.
    #[error("a server address has at most 16 hosts, each of them once; copy the whole address again")]
    Nodes,
    /// Not of the form `sotto://HOST:PORT/KEY`.
    #[error(
        "not a server address; it looks like sotto://chat.example.org:7370/ followed by the server's key"
    )]
    Form,
    /// The host is neither a name nor a number.
    #[error(
        "the host of the server address must be a name such as chat.example.org or a number such as 192.0.2.7 or [2001:db8::7]"
    )]
    Host,
    /// The port is not 1 to 65535.
    #[error("the port of the server address must be a number from 1 to 65535")]
    Port,
    /// The key is not one.
    #[error(
        "the server's key must be 52 characters, letters a-z and digits 2-7; copy the whole address again"
    )]
    Key,
    /// The host is another machine, and there is no encryption.
    #[error(
        "a sotto+plain:// address is not encrypted and works on the same machine only (localhost, 127.0.0.1 or [::1]); \
         ask for the server's sotto:// address"
    )]
    NotLoopback,
}

impl AddressError {
    /// A name of the reason for programs, which stays when the sentence changes.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Nodes => "address-nodes",
            Self::Form => "address-form",
            Self::Host => "address-host",
            Self::Port => "address-port",
            Self::Key => "address-key",
            Self::NotLoopback => "address-not-loopback",
        }
    }
}

impl Address {
    /// The address of a server of one node.
    ///
    /// # Errors
    /// [`AddressError::NotLoopback`] for plaintext to another machine, [`AddressError::Port`] for port 0.
    pub fn new(transport: Transport, host: Host, port: u16, root_key: RootKey) -> Result<Self, AddressError> {
        let address = Self { transport, node: (host, port), others: Vec::new(), root_key };
        address.check_node(&address.node)?;
        Ok(address)
    }

    /// The same with one node more.
    ///
    /// # Errors
    /// As for [`Address::new`]; [`AddressError::Nodes`] if it has the node already, or 16 others.
    pub fn and(mut self, host: Host, port: u16) -> Result<Self, AddressError> {
        let node = (host, port);
        self.check_node(&node)?;
        if self.nodes().any(|known| *known == node) || self.nodes().count() >= NODES_MAX {
            return Err(AddressError::Nodes);
        }
        self.others.push(node);
        Ok(self)
    }

    fn check_node(&self, (host, port): &(Host, u16)) -> Result<(), AddressError> {
        if self.transport == Transport::Plaintext && !host.is_loopback() {
            return Err(AddressError::NotLoopback);
        }
        if *port == 0 { Err(AddressError::Port) } else { Ok(()) }
    }

    fn nodes(&self) -> impl Iterator<Item = &(Host, u16)> {
        core::iter::once(&self.node).chain(&self.others)
    }

    /// How to speak to it.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The key of the cluster that the server must belong to.
    #[must_use]
    pub fn root_key(&self) -> &RootKey {
        &self.root_key
    }

    /// Host and port, for people and as the authority of a URI; of several nodes the first.
    #[must_use]
    pub fn authority(&self) -> String {
        authority(&self.node)
    }

    /// Host and port of every node, in the order of the address.
    pub fn authorities(&self) -> impl Iterator<Item = String> {
        self.nodes().map(authority)
    }

    /// The nodes, each by an address of its own, in the order of this one.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        self.nodes().map(|node| Self { node: node.clone(), others: Vec::new(), ..*self })
    }

    /// The nodes as an account asks them, each by an address of its own: the first is the account's home, the second stands in
    /// for it, and so on. The order follows from the account's public key and the nodes alone, whatever their order in the
    /// address: it is public, and spreads accounts evenly.
    ///
    /// With a directory it is that of the nodes which it names, and behind them those of this address which it does not: a
    /// directory that is wrong, or old, keeps nobody from a node that was known before. What it names that is no node, or none
    /// for this way of speaking, is passed over.
    #[must_use]
    pub fn in_order_of(&self, account: &[u8; 32], directory: Option<&Directory>) -> Vec<Self> {
        let weigh = |node: &Self| {
            let weight = Sha256::new_with_prefix(ORDER_DOMAIN).chain_update(account);
            Reverse(<[u8; 32]>::from(weight.chain_update(node.authority()).finalize()))
        };
        let named = directory.map_or(&[][..], Directory::nodes);
        let mut nodes: Vec<Self> = named.iter().filter_map(|authority| self.node(authority)).collect();
        nodes.sort_by_cached_key(weigh);
        let mut own: Vec<Self> = self.each().filter(|node| !nodes.contains(node)).collect();
        own.sort_by_cached_key(weigh);
        nodes.extend(own);
        nodes
    }

    /// The node of the same server with this authority, if it is one, written as it should be.
    fn node(&self, authority: &str) -> Option<Self> {
        let (host, port) = parse_authority(authority).ok()?;
        let node = Self::new(self.transport, host, port, self.root_key).ok()?;
        (node.authority() == authority).then_some(node)
    }
}

fn authority((host, port): &(Host, u16)) -> String {
    format!("{host}:{port}")
}

impl Host {
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Ip(ip) => ip.is_loopback(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::Tls => TLS,
            Transport::Plaintext => PLAINTEXT,
        };
        write!(f, "{scheme}{}", self.authority())?;
        self.authorities().skip(1).try_for_each(|authority| write!(f, ",{authority}"))?;
        write!(f, "/{}", self.root_key)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        let (transport, rest) = match (text.strip_prefix(TLS), text.strip_prefix(PLAINTEXT)) {
            (Some(rest), _) => (Transport::Tls, rest),
            (None, Some(rest)) => (Transport::Plaintext, rest),
            (None, None) => return Err(AddressError::Form),
        };
        let (authorities, key) = rest.split_once('/').ok_or(AddressError::Form)?;
        let mut authorities = authorities.split(',');
        let (host, port) = parse_authority(authorities.next().ok_or(AddressError::Form)?)?;
        let address = Self::new(transport, host, port, parse_key(key)?)?;
        authorities.try_fold(address, |address, authority| {
            let (host, port) = parse_authority(authority)?;
            address.and(host, port)
        })
    }
}

/// Host and port of `HOST:PORT`.
///
/// # Errors
/// [`AddressError::Form`], [`AddressError::Host`] or [`AddressError::Port`].
pub fn parse_authority(text: &str) -> Result<(Host, u16), AddressError> {
    let (host, port) = text.rsplit_once(':').ok_or(AddressError::Form)?;
    let port = port.parse().ok().filter(|port| *port != 0).ok_or(AddressError::Port)?;
    Ok((parse_host(host)?, port))
}

fn parse_host(host: &str) -> Result<Host, AddressError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let bracketed = bare.len() != host.len();
        return if ip.is_ipv6() == bracketed { Ok(Host::Ip(ip)) } else { Err(AddressError::Form) };
    }
    // What looks like a number and is none is not a name either.
    let numeric = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if host.len() > NAME_MAX || numeric || !host.split('.').all(is_label) {
        return Err(AddressError::Host);
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

/// Whether this may stand between the dots of a name.
fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn parse_key(key: &str) -> Result<RootKey, AddressError> {
    if key.len() != KEY_CHARACTERS {
        return Err(AddressError::Key);
    }
    let bytes = BASE32.decode(key.as_bytes()).map_err(|_| AddressError::Key)?;
    bytes.try_into().map(RootKey).map_err(|_| AddressError::Key)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Address, AddressError, Host, RootKey, Transport};

    const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn parse(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    proptest! {
        #[test]
        fn an_address_reads_back_as_itself(key in any::<[u8; 32]>(), port in 1..=u16::MAX, kind in 0..4) {
            let ip = |ip: IpAddr| (Transport::Plaintext, Host::Ip(ip));
            let (transport, host) = match kind {
                0 => ip(Ipv6Addr::LOCALHOST.into()),
                1 => ip(Ipv4Addr::new(127, 0, 3, 1).into()),
                2 => (Transport::Tls, Host::Ip(Ipv4Addr::new(192, 0, 2, 7).into())),
                _ => (Transport::Tls, Host::Name("chat.example.org".into())),
            };
            let address = Address::new(transport, host, port, RootKey(key)).unwrap();
            prop_assert_eq!(parse(&address.to_string()), Ok(address));
        }

        #[test]
        fn an_address_of_several_nodes_reads_back_as_itself(
            key in any::<[u8; 32]>(), ports in proptest::collection::hash_set(1..=u16::MAX, 1..=16)
        ) {
            let mut ports = ports.into_iter();
            let first = ports.next().unwrap_or(1);
            let host = || Host::Name("localhost".into());
            let address = Address::new(Transport::Plaintext, host(), first, RootKey(key)).unwrap();
            let address = ports.try_fold(address, |address, port| address.and(host(), port)).unwrap();
            prop_assert_eq!(parse(&address.to_string()), Ok(address.clone()));
            prop_assert_eq!(address.authorities().next(), Some(address.authority()));
            prop_assert_eq!(address.in_order_of(&key, None).len(), address.authorities().count());
        }

        #[test]
        fn arbitrary_text_never_panics(
            text in "(sotto(\\+plain)?://)?(.{0,40}(:[0-9]{0,6})?,?){0,3}(/.{0,60})?"
        ) {
            let _ = parse(&text);
        }
    }

    #[test]
    fn nothing_leaves_the_machine_without_encryption() {
        for host in ["example.org", "192.168.1.5", "0.0.0.0", "[2001:db8::1]", "localhost.example.org"] {
            let refused = parse(&format!("sotto+plain://{host}:7370/{KEY}"));
            assert_eq!(refused, Err(AddressError::NotLoopback), "{host}");
            assert!(parse(&format!("sotto://{host}:7370/{KEY}")).is_ok());
        }
        assert!(parse(&format!("sotto+plain://localhost:7370/{KEY}")).is_ok());
        assert!(parse(&format!("  sotto+plain://[::1]:7370/{KEY}\n")).is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let cases = [
            (format!("http://127.0.0.1:7370/{KEY}"), AddressError::Form),
            ("sotto://127.0.0.1:7370".into(), AddressError::Form),
            (format!("sotto://127.0.0.1/{KEY}"), AddressError::Form),
            (format!("sotto://::1:7370/{KEY}"), AddressError::Form),
            (format!("sotto://[127.0.0.1]:7370/{KEY}"), AddressError::Form),
            (format!("sotto://:7370/{KEY}"), AddressError::Host),
            (format!("sotto://a..b:7370/{KEY}"), AddressError::Host),
            (format!("sotto://-a:7370/{KEY}"), AddressError::Host),
            (format!("sotto://chat example:7370/{KEY}"), AddressError::Host),
            (format!("sotto://256.0.0.1:7370/{KEY}"), AddressError::Host),
            (format!("sotto://{}:7370/{KEY}", "a".repeat(64)), AddressError::Host),
            (format!("sotto://127.0.0.1:0/{KEY}"), AddressError::Port),
            (format!("sotto://127.0.0.1:65536/{KEY}"), AddressError::Port),
            (format!("sotto://127.0.0.1:7370/{}", &KEY[1..]), AddressError::Key),
            (format!("sotto://127.0.0.1:7370/{}1", &KEY[1..]), AddressError::Key),
            // The last character carries four bits that must be zero.
            (format!("sotto://127.0.0.1:7370/{}b", &KEY[1..]), AddressError::Key),
        ];
        for (text, error) in cases {
            assert_eq!(parse(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn every_node_of_an_address_must_be_one_and_another() {
        let many = |count: u16| (1..=count).map(|port| format!("a:{port}")).collect::<Vec<_>>().join(",");
        let cases = [
            ("sotto", "a:1,b:1".to_owned(), Ok(2)),
            ("sotto", "a:1,a:2,[2001:db8::1]:1".into(), Ok(3)),
            ("sotto", many(16), Ok(16)),
            ("sotto", many(17), Err(AddressError::Nodes)),
            ("sotto", "a:1,b:1,A:1".into(), Err(AddressError::Nodes)),
            ("sotto", "a:1,".into(), Err(AddressError::Form)),
            ("sotto", ",a:1".into(), Err(AddressError::Form)),
            ("sotto", "a:1,b".into(), Err(AddressError::Form)),
            ("sotto", "a:1, b:1".into(), Err(AddressError::Host)),
            ("sotto", "a:1,b:0".into(), Err(AddressError::Port)),
            ("sotto+plain", "localhost:1,[::1]:1".into(), Ok(2)),
            ("sotto+plain", "localhost:1,b:1".into(), Err(AddressError::NotLoopback)),
        ];
        for (scheme, nodes, expected) in cases {
            let parsed = parse(&format!("{scheme}://{nodes}/{KEY}"));
            assert_eq!(parsed.map(|address| address.authorities().count()), expected, "{nodes}");
        }
        let refused = parse(&format!("sotto://a:1,sotto://b:1/{KEY}"));
        assert!(refused.is_err(), "one transport for all: {refused:?}");
    }

    #[test]
    fn the_order_of_nodes_follows_from_account_and_nodes_alone() {
        let order = |nodes: &str, account: [u8; 32]| -> Vec<String> {
            let address = parse(&format!("sotto://{nodes}/{KEY}")).unwrap();
            let order = address.in_order_of(&account, None);
            assert!(order.iter().all(|node| node.root_key() == address.root_key()));
            assert!(order.iter().all(|node| node.authorities().count() == 1));
            order.iter().map(Address::authority).collect()
        };
        // Every node is at home for its share of accounts, and if one is lost, its accounts alone move.
        let mut homes = std::collections::BTreeMap::<String, u32>::new();
        for account in 0..=255 {
            let three = order("a:1,b:1,c:1", [account; 32]);
            assert_eq!(three, order("c:1,a:1,b:1", [account; 32]));
            let two = order("a:1,c:1", [account; 32]);
            assert!(three.iter().filter(|node| *node != "b:1").eq(&two));
            *homes.entry(three[0].clone()).or_default() += 1;
        }
        assert!(homes.len() == 3 && homes.values().all(|count| (60..=110).contains(count)), "{homes:?}");
    }

    /// Made by a program that shares no code with this one, from the text of the protocol.
    #[test]
    fn the_order_of_nodes_is_the_published_one() {
        let nodes = "a.example.org:7370,b.example.org:7370,[2001:db8::7]:7371,192.0.2.7:7370";
        let address = parse(&format!("sotto://{nodes}/{KEY}")).unwrap();
        let vectors = [
            ([7; 32], ["a.example.org:7370", "b.example.org:7370", "[2001:db8::7]:7371", "192.0.2.7:7370"]),
            (
                core::array::from_fn(|place| place as u8),
                ["[2001:db8::7]:7371", "b.example.org:7370", "192.0.2.7:7370", "a.example.org:7370"],
            ),
        ];
        for (account, expected) in vectors {
            let order: Vec<String> =
                address.in_order_of(&account, None).iter().map(Address::authority).collect();
            assert_eq!(order, expected);
        }
    }
}
