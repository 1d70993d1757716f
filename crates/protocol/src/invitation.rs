//! What one person hands another outside the system, so that they can meet in it.

use core::fmt;
use core::str::FromStr;

use ed25519_dalek::VerifyingKey;
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};

use crate::error::InputError;
use crate::secret::Secret;
use crate::{Error, Round, UnixMillis, armour, domain};

const PREFIX: &str = "sotto-invite-3-";
/// Those of version 1 named no inviter; those of version 2 are answered by one who renews no keys.
const PREFIXES_BEFORE: [&str; 2] = ["sotto-invite-1-", "sotto-invite-2-"];
const BYTES: usize = 1 + 8 + 32 + 32 + 32 + 8 + 8 + 8;
/// The only role there is: the bearer is the one invited.
const ROLE_INVITED: u8 = 1;

/// How long an invitation can be accepted unless something else is said: a week, ms.
pub(crate) const LIFE_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long any invitation can be accepted, for used ones are remembered for that time: four weeks, ms.
pub(crate) const LIFE_MAX_MS: u64 = 4 * LIFE_MS;

/// By what a client knows an invitation again when its secret is erased.
pub(crate) type InvitationMark = [u8; 8];

/// An invitation to a conversation of two. Whoever holds it can take the invited one's place, so it travels on a way
/// that only that person reads; it is used once, and before it expires.
///
/// As a string it is `sotto-invite-3-` and, in lower-case base32 without padding, these 129 bytes (integers
/// little-endian) and the first 4 bytes of SHA-256 over `"sotto v1 string checksum" | 0 | "sotto-invite-3-" | 0` and
/// them:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 1 | role of the bearer: 1, invited |
/// | 1 | 8 | first bytes of SHA-256 of the root key of the server, or of one of its manifest keys |
/// | 9 | 32 | secret |
/// | 41 | 32 | X25519 key of the inviter, made for this invitation |
/// | 73 | 32 | Ed25519 identity key of the inviter |
/// | 105 | 8 | round at which the chains start |
/// | 113 | 8 | when that round was open, milliseconds since the Unix epoch |
/// | 121 | 8 | when it expires, milliseconds since the Unix epoch |
///
/// It names no account.
#[derive(Clone)]
pub struct Invitation {
    pub(crate) server: [u8; 8],
    pub(crate) secret: Secret,
    pub(crate) exchange: [u8; 32],
    pub(crate) identity: [u8; 32],
    pub(crate) start: Round,
    pub(crate) time: UnixMillis,
    pub(crate) expires: UnixMillis,
}

impl Invitation {
    /// What its string begins with, and how many characters it has.
    pub const FORM: (&str, usize) = (PREFIX, PREFIX.len() + armour::characters(BYTES));

    /// `exchange` and `identity` are the inviter's public keys.
    pub(crate) fn new(
        server: [u8; 8],
        (exchange, identity): ([u8; 32], [u8; 32]),
        (start, time): (Round, UnixMillis),
        expires: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Self {
        let secret = Secret::random(rng);
        Self { server, secret, exchange, identity, start, time, expires }
    }

    /// The identity key of the one whose invitation it is, as `sotto identity` shows it there. Whoever brings the
    /// invitation may be somebody else.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        self.identity
    }

    /// Until when it can be accepted.
    #[must_use]
    pub fn expires(&self) -> UnixMillis {
        self.expires
    }

    /// Whether it can be accepted now at a server with this root key, as far as that shows without an account.
    ///
    /// # Errors
    /// [`Error::Input`] if it is for another server, or has expired.
    pub fn check(&self, root_key: &[u8; 32], now: UnixMillis) -> Result<(), Error> {
        if self.server != server_mark(root_key) {
            return Err(Error::Input(InputError::InvitationElsewhere));
        }
        if now >= self.expires {
            return Err(Error::Input(InputError::InvitationExpired));
        }
        Ok(())
    }

    /// One-way, so that it can stay when the secret is erased.
    pub(crate) fn mark(&self) -> InvitationMark {
        let mut mark = [0; 8];
        self.secret.expand_into(domain::INVITATION_MARK, &[], &mut mark);
        mark
    }
}

/// By what an invitation or a group card knows its server, of a key of that.
pub(crate) fn server_mark(key: &[u8; 32]) -> [u8; 8] {
    let digest: [u8; 32] = Sha256::digest(key).into();
    core::array::from_fn(|i| digest[i])
}

/// The whole secret string: to be shown to the one who invites, and to nobody else.
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(BYTES));
        bytes.push(ROLE_INVITED);
        bytes.extend(self.server);
        bytes.extend(self.secret.bytes());
        bytes.extend(self.exchange);
        bytes.extend(self.identity);
        bytes.extend(self.start.0.to_le_bytes());
        bytes.extend(self.time.0.to_le_bytes());
        bytes.extend(self.expires.0.to_le_bytes());
        f.write_str(&armour::encode(PREFIX, &bytes))
    }
}

impl FromStr for Invitation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const MISTYPED: InputError = InputError::InvitationMistyped;
        let prefix = text.trim_start().get(..PREFIX.len());
        let is = |before: &&str| prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(before));
        if PREFIXES_BEFORE.iter().any(is) {
            return Err(Error::Input(InputError::InvitationBefore));
        }
        let bytes = armour::decode(PREFIX, text, InputError::NoInvitation, MISTYPED)?;
        let bytes: &[u8; BYTES] = bytes.as_slice().try_into().map_err(|_| Error::Input(MISTYPED))?;
        let identity = field(bytes, 73);
        // An identity key under which nothing can be signed is nobody's.
        let signs = VerifyingKey::from_bytes(&identity).is_ok_and(|key| !key.is_weak());
        if bytes[0] != ROLE_INVITED || !signs {
            return Err(Error::Input(InputError::NoInvitation));
        }
        Ok(Self {
            server: field(bytes, 1),
            secret: Secret::new(field(bytes, 9)),
            exchange: field(bytes, 41),
            identity,
            start: Round(u64::from_le_bytes(field(bytes, 105))),
            time: UnixMillis(u64::from_le_bytes(field(bytes, 113))),
            expires: UnixMillis(u64::from_le_bytes(field(bytes, 121))),
        })
    }
}

/// `N` bytes of a field that lies within the layout above.
fn field<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(..)")
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use proptest::prelude::{any, proptest};

    use super::Invitation;
    use crate::error::InputError;
    use crate::secret::Secret;
    use crate::{Error, Round, UnixMillis};

    fn invitation() -> Invitation {
        Invitation {
            server: [1; 8],
            secret: Secret::new([2; 32]),
            exchange: [5; 32],
            identity: SigningKey::from_bytes(&[6; 32]).verifying_key().to_bytes(),
            start: Round(3),
            time: UnixMillis(4),
            expires: UnixMillis(7),
        }
    }

    #[test]
    fn an_invitation_has_the_form_by_which_it_is_found() {
        let text = invitation().to_string();
        let (prefix, characters) = Invitation::FORM;
        assert!(text.starts_with(prefix));
        assert_eq!(text.len(), characters);
    }

    #[test]
    fn an_invitation_survives_being_copied_by_people() {
        let text = format!("  {}\n", invitation().to_string().to_uppercase());
        let copied: Invitation = text.parse().unwrap();
        assert_eq!(copied.to_string(), invitation().to_string());
        assert_eq!((copied.start, copied.time, copied.server), (Round(3), UnixMillis(4), [1; 8]));
        assert_eq!((copied.expires(), copied.identity()), (UnixMillis(7), invitation().identity));
        assert_eq!(format!("{copied:?}"), "Invitation(..)");
    }

    /// Whoever makes an account to accept an invitation must not find out then that it cannot.
    #[test]
    fn an_invitation_is_for_its_server_and_for_its_time() {
        let server = super::server_mark(&[9; 32]);
        let invitation = Invitation { server, ..invitation() };
        let checked = |root: u8, now| invitation.check(&[root; 32], UnixMillis(now));
        assert_eq!(checked(9, 6), Ok(()));
        assert_eq!(checked(9, 7), Err(Error::Input(InputError::InvitationExpired)));
        assert_eq!(checked(8, 6), Err(Error::Input(InputError::InvitationElsewhere)));
    }

    #[test]
    fn the_layout_does_not_change_unnoticed() {
        let expected = concat!(
            "sotto-invite-3-aeaqcaibaeaqcaicaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaicqkbifaucqkbifauc",
            "qkbifaucqkbifaucqkbifaucqkbifaucqlcuhl77r5m4ekflxvtk273sakrlfndoxzcpascddubkxxr5pjhyxamaaaaaaaaaaa",
            "baaaaaaaaaaaadqaaaaaaaaaaarae5ie",
        );
        assert_eq!(invitation().to_string(), expected);
    }

    #[test]
    fn an_invitation_of_the_version_before_is_named_as_such() {
        let before = concat!(
            "sotto-invite-1-aeaqcaibaeaqcaicaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibq",
            "aaaaaaaaaaaeaaaaaaaaaaapnysojq"
        );
        for text in [before.to_owned(), format!(" {}\n", before.to_uppercase())] {
            let refused = text.parse::<Invitation>().unwrap_err();
            assert_eq!(refused, Error::Input(InputError::InvitationBefore));
        }
    }

    #[test]
    fn an_identity_under_which_anything_would_be_signed_is_refused() {
        let mut weak = [0; 32];
        weak[0] = 1;
        for identity in [weak, [2; 32]] {
            let invitation = Invitation { identity, ..invitation() };
            assert!(invitation.to_string().parse::<Invitation>().is_err());
        }
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
            assert!(format!("sotto-invite-3-{text}").parse::<Invitation>().is_err());
        }
    }
}
