//! Where a server is and which key it must hold.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use data_encoding::BASE32_NOPAD;

const SCHEME: &str = "sotto://";
/// Characters of a key: 256 bits in base32 without padding.
const KEY_CHARACTERS: usize = 52;

/// The address of a server: `sotto://HOST:PORT/KEY`, where the key is the server's Ed25519 manifest key as 52 characters
/// of lower-case base32 without padding. An address is public, but must come from somebody who knows the server: what
/// the server says is believed only under this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: Host,
    port: u16,
    manifest_key: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Localhost,
    Ip(IpAddr),
}

/// Why a text is no address, or none that this version connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Not of the form `sotto://HOST:PORT/KEY`.
    #[error("not a server address; it looks like sotto://127.0.0.1:7370/ followed by the server's key")]
    Form,
    /// The port is not 1 to 65535.
    #[error("the port of the server address must be a number from 1 to 65535")]
    Port,
    /// The key is not one.
    #[error(
        "the server's key must be 52 characters, letters a-z and digits 2-7; copy the whole address again"
    )]
    Key,
    /// The host is another machine.
    #[error(
        "this version connects only to servers on the same machine (localhost, 127.0.0.1 or [::1]), because it does \
         not encrypt the connection with TLS yet; use an SSH tunnel to reach another machine"
    )]
    NotLoopback,
}

impl Address {
    /// An address on this machine.
    ///
    /// # Errors
    /// [`AddressError::NotLoopback`] for an address of another machine, [`AddressError::Port`] for port 0.
    pub fn new(ip: IpAddr, port: u16, manifest_key: [u8; 32]) -> Result<Self, AddressError> {
        if !ip.is_loopback() {
            return Err(AddressError::NotLoopback);
        }
        if port == 0 {
            return Err(AddressError::Port);
        }
        Ok(Self { host: Host::Ip(ip), port, manifest_key })
    }

    /// The key the server must hold.
    #[must_use]
    pub fn manifest_key(&self) -> &[u8; 32] {
        &self.manifest_key
    }

    /// Host and port, for people and as the authority of a URI.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host {
            Host::Localhost => format!("localhost:{}", self.port),
            Host::Ip(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = BASE32_NOPAD.encode(&self.manifest_key).to_ascii_lowercase();
        write!(f, "{SCHEME}{}/{key}", self.authority())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(AddressError::Form)?;
        let (authority, key) = rest.split_once('/').ok_or(AddressError::Form)?;
        let (host, port) = authority.rsplit_once(':').ok_or(AddressError::Form)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(AddressError::Port)?;
        Ok(Self { host: parse_host(host)?, port, manifest_key: parse_key(key)? })
    }
}

fn parse_host(host: &str) -> Result<Host, AddressError> {
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(Host::Localhost);
    }
    if host.is_empty() {
        return Err(AddressError::Form);
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(ip) if ip.is_ipv6() != (bare.len() != host.len()) => Err(AddressError::Form),
        Ok(ip) if ip.is_loopback() => Ok(Host::Ip(ip)),
        _ => Err(AddressError::NotLoopback),
    }
}

fn parse_key(key: &str) -> Result<[u8; 32], AddressError> {
    if key.len() != KEY_CHARACTERS {
        return Err(AddressError::Key);
    }
    let bytes = BASE32_NOPAD.decode(key.to_ascii_uppercase().as_bytes()).map_err(|_| AddressError::Key)?;
    bytes.try_into().map_err(|_| AddressError::Key)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Address, AddressError};

    const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn parse(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    proptest! {
        #[test]
        fn an_address_reads_back_as_itself(key in any::<[u8; 32]>(), port in 1..=u16::MAX, v6 in any::<bool>()) {
            let ip: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::new(127, 0, 3, 1).into() };
            let address = Address::new(ip, port, key).unwrap();
            prop_assert_eq!(address.to_string().len(), "sotto:///".len() + address.authority().len() + 52);
            prop_assert_eq!(parse(&address.to_string()), Ok(address));
        }

        #[test]
        fn arbitrary_text_never_panics(text in "(sotto://)?.{0,40}(:[0-9]{0,6})?(/.{0,60})?") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn names_of_other_machines_are_refused_with_the_reason() {
        for host in ["example.org", "192.168.1.5", "0.0.0.0", "[2001:db8::1]", "localhost.example.org"] {
            let refused = parse(&format!("sotto://{host}:7370/{KEY}"));
            assert_eq!(refused, Err(AddressError::NotLoopback), "{host}");
        }
        assert!(AddressError::NotLoopback.to_string().contains("TLS"));
        assert!(parse(&format!("sotto://localhost:7370/{KEY}")).is_ok());
        assert!(parse(&format!("  sotto://[::1]:7370/{KEY}\n")).is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let cases = [
            (format!("http://127.0.0.1:7370/{KEY}"), AddressError::Form),
            ("sotto://127.0.0.1:7370".into(), AddressError::Form),
            (format!("sotto://127.0.0.1/{KEY}"), AddressError::Form),
            (format!("sotto://::1:7370/{KEY}"), AddressError::Form),
            (format!("sotto://[127.0.0.1]:7370/{KEY}"), AddressError::Form),
            (format!("sotto://:7370/{KEY}"), AddressError::Form),
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
}
