//! What a server said of itself, as it is kept for whoever asks later.

use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_wire::Endorsement;

/// Where the manifest key stands in an announcement.
const MANIFEST_KEY_AT: usize = 10;

/// What a server said of itself under the root key of its cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Announced {
    /// As [`sotto_protocol::ServerParameters::encode`] gives it.
    pub announcement: [u8; ANNOUNCEMENT_BYTES],
    /// The root key's signature.
    pub endorsement: Endorsement,
}

impl Announced {
    /// The key that signs manifests and receipts.
    #[must_use]
    pub fn manifest_key(&self) -> [u8; 32] {
        core::array::from_fn(|place| self.announcement[MANIFEST_KEY_AT + place])
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
    use super::Announced;
    use crate::check::tests::parameters;

    /// Receipts are checked with it, long after the announcement was read.
    #[test]
    fn the_key_that_an_announcement_names_is_found_in_it() {
        let manifest_key = core::array::from_fn(|place| place as u8 + 1);
        let parameters = sotto_protocol::ServerParameters { manifest_key, ..parameters() };
        let announced = Announced { announcement: parameters.encode(), endorsement: [0; 64] };
        assert_eq!(announced.manifest_key(), manifest_key);
    }
}
