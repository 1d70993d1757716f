//! What one person hands another outside the system, so that they can meet in it.

use core::fmt;
use core::str::FromStr;

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};

use crate::secret::Secret;
use crate::{Error, Round, UnixMillis, armour};

const PREFIX: &str = "sotto-invite-1-";
const BYTES: usize = 1 + 8 + 32 + 8 + 8;
/// The only role there is: the bearer is the one invited.
const ROLE_INVITED: u8 = 1;

/// An invitation to a conversation of two. Whoever holds it can take the invited one's place, so it travels on a way
/// that only that person reads; it is used once.
///
/// As a string it is `sotto-invite-1-` and, in lower-case base32 without padding, these 57 bytes (integers
/// little-endian) and the first 4 bytes of SHA-256 over `"sotto v1 string checksum" | 0 | "sotto-invite-1-" | 0` and
/// them:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 1 | role of the bearer: 1, invited |
/// | 1 | 8 | first bytes of SHA-256 of the server's manifest key |
/// | 9 | 32 | secret |
/// | 41 | 8 | round at which the chains start |
/// | 49 | 8 | when that round was open, milliseconds since the Unix epoch |
///
/// It names no account.
#[derive(Clone)]
pub struct Invitation {
    pub(crate) server: [u8; 8],
    pub(crate) secret: Secret,
    pub(crate) start: Round,
    pub(crate) time: UnixMillis,
}

impl Invitation {
    pub(crate) fn new(
        manifest_key: &[u8; 32],
        (start, time): (Round, UnixMillis),
        rng: &mut impl CryptoRng,
    ) -> Self {
        Self { server: server_mark(manifest_key), secret: Secret::random(rng), start, time }
    }
}

/// By what an invitation or a group card knows its server.
pub(crate) fn server_mark(manifest_key: &[u8; 32]) -> [u8; 8] {
    let digest: [u8; 32] = Sha256::digest(manifest_key).into();
    core::array::from_fn(|i| digest[i])
}

/// The whole secret string: to be shown to the one who invites, and to nobody else.
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(BYTES));
        bytes.push(ROLE_INVITED);
        bytes.extend(self.server);
        bytes.extend(self.secret.bytes());
        bytes.extend(self.start.0.to_le_bytes());
        bytes.extend(self.time.0.to_le_bytes());
        f.write_str(&armour::encode(PREFIX, &bytes))
    }
}

impl FromStr for Invitation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const OTHER: &str = "this is not an invitation; one begins with sotto-invite-1-";
        const MISTYPED: &str = "this invitation is incomplete or has a typing error";
        let bytes = armour::decode(PREFIX, text, OTHER, MISTYPED)?;
        let bytes: &[u8; BYTES] = bytes.as_slice().try_into().map_err(|_| Error::Input(MISTYPED))?;
        if bytes[0] != ROLE_INVITED {
            return Err(Error::Input(OTHER));
        }
        Ok(Self {
            server: core::array::from_fn(|i| bytes[1 + i]),
            secret: Secret::new(core::array::from_fn(|i| bytes[9 + i])),
            start: Round(u64::from_le_bytes(core::array::from_fn(|i| bytes[41 + i]))),
            time: UnixMillis(u64::from_le_bytes(core::array::from_fn(|i| bytes[49 + i]))),
        })
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::Invitation;
    use crate::secret::Secret;
    use crate::{Round, UnixMillis};

    fn invitation() -> Invitation {
        Invitation { server: [1; 8], secret: Secret::new([2; 32]), start: Round(3), time: UnixMillis(4) }
    }

    #[test]
    fn an_invitation_survives_being_copied_by_people() {
        let text = format!("  {}\n", invitation().to_string().to_uppercase());
        let copied: Invitation = text.parse().unwrap();
        assert_eq!(copied.to_string(), invitation().to_string());
        assert_eq!((copied.start, copied.time, copied.server), (Round(3), UnixMillis(4), [1; 8]));
        assert_eq!(format!("{copied:?}"), "Invitation(..)");
    }

    #[test]
    fn the_layout_does_not_change_unnoticed() {
        let expected = concat!(
            "sotto-invite-1-aeaqcaibaeaqcaicaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibq",
            "aaaaaaaaaaaeaaaaaaaaaaapnysojq"
        );
        assert_eq!(invitation().to_string(), expected);
    }

    #[test]
    fn every_single_typing_error_is_noticed() {
        let text = invitation().to_string();
        for at in 0..text.len() {
            for letter in "a7-".chars().filter(|letter| !text[at..].starts_with(*letter)) {
                let mut mistyped = text.clone();
                mistyped.replace_range(at..=at, &letter.to_string());
                assert!(mistyped.parse::<Invitation>().is_err(), "{mistyped}");
            }
            assert!(text[..at].parse::<Invitation>().is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_strings_do_not_panic(text in any::<String>()) {
            assert!(text.parse::<Invitation>().is_err());
            assert!(format!("sotto-invite-1-{text}").parse::<Invitation>().is_err());
        }
    }
}
