//! What a server says of itself, in the bytes that the root signs: as it is told to who follows the rounds, and kept for
//! whoever asks later.

use bytes::Bytes;
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_protocol::{Round, ServerParameters};

use crate::convert::{Endorsement, Malformed, fixed};
use crate::{RootKey, proto};

/// What a server said of itself under the root key of its cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Announced {
    /// As [`ServerParameters::encode`] gives it.
    pub announcement: [u8; ANNOUNCEMENT_BYTES],
    /// The root key's signature.
    pub endorsement: Endorsement,
}

impl Announced {
    /// Parameters and the signature under them, as they are announced.
    #[must_use]
    pub fn new(parameters: &ServerParameters, endorsement: Endorsement) -> Self {
        Self { announcement: parameters.encode(), endorsement }
    }

    /// The parameters, if the root has signed them.
    ///
    /// # Errors
    /// [`Malformed`] if it has not, or they are none.
    pub fn parameters(&self, root: &RootKey) -> Result<ServerParameters, Malformed> {
        root.check_encoded(&self.announcement, &self.endorsement)?;
        ServerParameters::decode(&self.announcement).map_err(|_| Malformed("announcement"))
    }

    /// The key that signs the manifest and the receipts of a round, if one does, and this is an announcement.
    #[must_use]
    pub fn manifest_key_of(&self, round: Round) -> Option<[u8; 32]> {
        ServerParameters::decode(&self.announcement).ok()?.manifest_key_of(round)
    }
}

impl From<&Announced> for proto::Announcement {
    fn from(announced: &Announced) -> Self {
        Self {
            announcement: Bytes::copy_from_slice(&announced.announcement),
            endorsement: Bytes::copy_from_slice(&announced.endorsement),
        }
    }
}

impl TryFrom<&proto::Announcement> for Announced {
    type Error = Malformed;

    fn try_from(message: &proto::Announcement) -> Result<Self, Malformed> {
        Ok(Self {
            announcement: fixed(&message.announcement, "announcement")?,
            endorsement: fixed(&message.endorsement, "signature of the parameters")?,
        })
    }
}

// Two hundred bytes tell nobody anything.
impl core::fmt::Debug for Announced {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Announced").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use sotto_protocol::Round;

    use super::Announced;
    use crate::root::tests::parameters;
    use crate::root::{RootKey, endorse};
    use crate::{Malformed, proto};

    /// Receipts are checked with it, long after the announcement was read.
    #[test]
    fn the_keys_that_an_announcement_names_are_found_in_it() {
        let mut parameters = parameters(3);
        parameters.key_epoch = parameters.key_epoch.next([9; 32], Round(5), Round(8));
        let announced = Announced::new(&parameters, [0; 64]);
        let keys = [4, 5, 7, 8].map(|round| announced.manifest_key_of(Round(round)));
        assert_eq!(keys, [Some([9; 32]), Some([7; 32]), Some([7; 32]), None]);
    }

    #[test]
    fn an_announcement_survives_the_wire_and_only_the_roots_is_read() {
        let root = SigningKey::from_bytes(&[1; 32]);
        let key = RootKey(root.verifying_key().to_bytes());
        let announced = Announced::new(&parameters(3), endorse(&root, &parameters(3)));
        let mut message = proto::Announcement::from(&announced);
        assert_eq!(Announced::try_from(&message), Ok(announced.clone()));
        assert_eq!(announced.parameters(&key), Ok(parameters(3)));
        let forged = Announced::new(&parameters(4), announced.endorsement);
        assert!(forged.parameters(&key).is_err());
        message.announcement.truncate(204);
        assert_eq!(Announced::try_from(&message), Err(Malformed("announcement")));
    }
}
