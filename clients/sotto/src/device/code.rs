//! The string that a device needs once: where the participant is, its key, and a secret by which it knows the device.
//!
//! ```text
//! sotto-device://HOST:PORT/KEY
//! KEY = base32 of: public key (32) | secret (16) | first 4 bytes of SHA-256("sotto v1 device code" | 0 | HOST:PORT | key | secret)
//! ```

use core::fmt::Write as _;

use rand::Rng as _;
use sha2::{Digest as _, Sha256};
use sotto_protocol::base32::BASE32;
use zeroize::Zeroizing;

use super::key::{KEY_BYTES, Public};
use crate::daemon::message::Private;

const PREFIX: &str = "sotto-device://";
/// More than a day of guessing against a participant that takes five attempts a code finds: 128 bits.
pub(crate) const SECRET_BYTES: usize = 16;
const CHECK_BYTES: usize = 4;
const DOMAIN: &[u8] = b"sotto v1 device code\0";
/// Longest name of a host, a colon, and a port.
const AUTHORITY_MAX: usize = 253 + 6;
/// More than any code has, with what a terminal breaks it with.
pub(crate) const CHARACTERS_MAX: usize = 1024;

/// Serves one pairing.
pub(crate) type Secret = Zeroizing<[u8; SECRET_BYTES]>;

pub(crate) fn new_secret() -> Secret {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut secret[..]);
    secret
}

/// What a code says.
pub(crate) struct Code {
    /// Host and port.
    pub(crate) authority: String,
    pub(crate) participant: Public,
    pub(crate) secret: Secret,
}

/// Why a string is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    #[error("this is not a code of 'sotto pair', which begins with sotto-device://")]
    None,
    #[error("this code was mistyped; copy the whole of it again")]
    Mistyped,
}

impl Code {
    pub(crate) fn write(&self) -> Private {
        // Never grown, so that no copy stays behind.
        let mut text = Zeroizing::new(String::with_capacity(CHARACTERS_MAX));
        let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES + SECRET_BYTES + CHECK_BYTES));
        bytes.extend(self.participant);
        bytes.extend(self.secret.iter());
        let check = check(&self.authority, &bytes);
        bytes.extend(check);
        // Writing to a string does not fail.
        let _ = write!(text, "{PREFIX}{}/", self.authority);
        text.push_str(&Zeroizing::new(BASE32.encode(&bytes)));
        Private(text)
    }

    /// However it was copied: blanks, line breaks and the case of letters do not matter.
    pub(crate) fn read(text: &Private) -> Result<Self, CodeError> {
        let mut copied = Zeroizing::new(String::with_capacity(text.0.len()));
        copied.extend(text.0.split_whitespace());
        copied.make_ascii_lowercase();
        let rest = copied.strip_prefix(PREFIX).ok_or(CodeError::None)?;
        let (authority, key) = rest.split_once('/').ok_or(CodeError::Mistyped)?;
        if !is_authority(authority) {
            return Err(CodeError::Mistyped);
        }
        let bytes = Zeroizing::new(BASE32.decode(key.as_bytes()).map_err(|_| CodeError::Mistyped)?);
        let (said, checked) = bytes.split_at_checked(KEY_BYTES + SECRET_BYTES).ok_or(CodeError::Mistyped)?;
        if check(authority, said) != *checked {
            return Err(CodeError::Mistyped);
        }
        let (participant, secret) = said.split_first_chunk().ok_or(CodeError::Mistyped)?;
        let secret = Zeroizing::new(secret.try_into().map_err(|_| CodeError::Mistyped)?);
        Ok(Self { authority: authority.to_owned(), participant: *participant, secret })
    }
}

/// Whether this may be the beginning of a code, and some of it is still to come.
pub(crate) fn lacks_some(text: &str) -> bool {
    let code: String = text.split_whitespace().collect();
    let code = code.to_ascii_lowercase();
    let whole = ((KEY_BYTES + SECRET_BYTES + CHECK_BYTES) * 8).div_ceil(5);
    match code.strip_prefix(PREFIX) {
        Some(rest) => rest.split_once('/').is_none_or(|(_, key)| key.len() < whole),
        None => !code.is_empty() && PREFIX.starts_with(&code),
    }
}

/// Whether this is a host, as a name or a number, and a port.
pub(crate) fn is_authority(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_number = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match is_number {
        Some(number) => number.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_part = |part: &str| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            };
            host.split('.').all(is_part)
        }
    };
    text.len() <= AUTHORITY_MAX && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn check(authority: &str, said: &[u8]) -> [u8; CHECK_BYTES] {
    let digest: [u8; 32] =
        Sha256::new_with_prefix(DOMAIN).chain_update(authority).chain_update(said).finalize().into();
    core::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::{Code, CodeError, is_authority, lacks_some, new_secret};
    use crate::daemon::message::Private;
    use crate::qr::Qr;

    fn code(authority: &str) -> Code {
        Code { authority: authority.to_owned(), participant: [7; 32], secret: new_secret() }
    }

    #[test]
    fn a_code_is_read_however_it_was_copied_and_no_other_string() {
        for authority in ["192.168.1.20:7371", "[2001:db8::7]:1", "laptop.home.example:65535"] {
            let written = code(authority);
            let text = written.write().0;
            let (one, other) = text.split_at(40);
            for copied in [text.to_string(), text.to_uppercase(), format!(" {one}\r\n {other}\n")] {
                let read = Code::read(&Private::new(copied)).unwrap();
                assert_eq!((read.authority.as_str(), read.participant), (authority, [7; 32]));
                assert_eq!(read.secret, written.secret);
            }
            assert!((1..text.len()).all(|length| lacks_some(&text[..length])) && !lacks_some(&text));
            for place in 15..text.len() {
                let mut changed = text.to_string().into_bytes();
                changed[place] = if changed[place] == b'a' { b'b' } else { b'a' };
                let changed = String::from_utf8(changed).unwrap();
                assert!(Code::read(&Private::new(changed)).is_err(), "{place}");
            }
        }
        for none in ["", "sotto://chat.example.org:7370/abc", "sotto-device:/"] {
            assert_eq!(Code::read(&Private::new(none)).err(), Some(CodeError::None), "{none}");
        }
    }

    #[test]
    fn a_code_fits_as_a_qr_code_on_a_usual_terminal() {
        let (columns, rows) = Qr::of(&code("192.168.100.200:17371").write().0).unwrap().size();
        assert!(columns <= 80 && rows <= 21, "{columns} {rows}");
    }

    #[test]
    fn a_place_to_reach_is_a_host_and_a_port() {
        for good in ["a:1", "127.0.0.1:7371", "[::1]:7371", "my-laptop.local:1"] {
            assert!(is_authority(good), "{good}");
        }
        for wrong in
            ["", ":1", "a", "a:", "a:0", "a:65536", "::1:7371", "[a]:1", "a b:1", "a..b:1", "a/b:1", "[::1:1"]
        {
            assert!(!is_authority(wrong), "{wrong}");
        }
    }
}
