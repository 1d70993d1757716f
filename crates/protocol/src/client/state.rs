//! The client as bytes.
//!
//! ```text
//! version, u8 = 10 | first 8 bytes of SHA-256("sotto v1 client state" | 0 | version | content) | content (postcard)
//! ```
//!
//! The checksum is against accidents. The bytes hold all secrets: whoever stores them keeps them as carefully.

mod version2;
mod version3;
mod version5;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Client;
use super::addresses::Addresses;
use super::left::LeftGroups;
use super::unshown::Offered;
use crate::error::{InputError, Malformed};
use crate::{Error, domain};

const VERSION: u8 = 10;
const CHECKSUM_BYTES: usize = 8;
const HEADER_BYTES: usize = 1 + CHECKSUM_BYTES;

impl Client {
    /// All of the client.
    #[must_use]
    pub fn snapshot(&self) -> Zeroizing<Vec<u8>> {
        // Measured first, so that no half-written copy is left behind in memory that has been given back.
        let size = postcard::experimental::serialized_size(&self.state);
        let size =
            size.expect("the state has neither sequences of unknown length nor types unknown to the format");
        let mut bytes = Zeroizing::new(vec![0; HEADER_BYTES + size]);
        let (header, content) = bytes.split_at_mut(HEADER_BYTES);
        postcard::to_slice(&self.state, content).expect("the size was measured");
        header[0] = VERSION;
        header[1..].copy_from_slice(&checksum(VERSION, content));
        bytes
    }

    /// The client of which these are all bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] if they are not exactly what [`Client::snapshot`] wrote, in this version or one from 2 on;
    /// [`Error::Input`] for other versions.
    pub fn restore(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = Error::Malformed(Malformed::State);
        let (header, content) = bytes.split_at_checked(HEADER_BYTES).ok_or(malformed.clone())?;
        if header[1..] != checksum(header[0], content) {
            return Err(malformed);
        }
        let state = match header[0] {
            // Nobody looked for others who hold an invitation once its keys were offered for.
            VERSION | 9 => decode(content)?,
            // They ended before the texts that were offered. In the first of them keys of two were never renewed.
            7 | 8 => decode(&followed_by(content, &Offered::new())?)?,
            // It ended before the groups that were left.
            6 => decode(&followed_by(content, &(LeftGroups::default(), Offered::new()))?)?,
            5 => decode::<version5::State5>(content)?.into(),
            // It ended before the slots.
            4 => decode::<version5::State5>(&followed_by(content, &Addresses::default())?)?.into(),
            3 => decode::<version3::State3>(content)?.into(),
            2 => decode::<version2::State2>(content)?.try_into()?,
            0 | 1 => return Err(Error::Input(InputError::StateBefore)),
            _ => return Err(Error::Input(InputError::StateNewer)),
        };
        Ok(Self { state })
    }
}

/// Any content as the bytes of a client whose checksum holds.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn checked(content: &[u8]) -> Vec<u8> {
    [&[VERSION][..], &checksum(VERSION, content), content].concat()
}

/// What an earlier version stored, and what came to stand behind it, as it begins.
fn followed_by(content: &[u8], more: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, Error> {
    let more = postcard::to_allocvec(more).map_err(|_| Error::Malformed(Malformed::State))?;
    Ok(Zeroizing::new([content, &more].concat()))
}

fn decode<'de, T: Deserialize<'de>>(content: &'de [u8]) -> Result<T, Error> {
    let malformed = Error::Malformed(Malformed::State);
    let (state, rest) = postcard::take_from_bytes(content).map_err(|_| malformed.clone())?;
    if rest.is_empty() { Ok(state) } else { Err(malformed) }
}

fn checksum(version: u8, content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest: [u8; 32] = Sha256::new_with_prefix(domain::STATE_CHECKSUM)
        .chain_update([0, version])
        .chain_update(content)
        .finalize()
        .into();
    core::array::from_fn(|i| digest[i])
}

/// A deposit as its 304 bytes.
pub(super) mod deposit {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::{Deposit, Round};

    pub(crate) fn serialize<S: Serializer>(
        deposit: &Option<(Round, Deposit)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        deposit.as_ref().map(|(round, deposit)| (*round, deposit.encode().to_vec())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(Round, Deposit)>, D::Error> {
        let stored = Option::<(Round, Vec<u8>)>::deserialize(deserializer)?;
        let decode = |(round, bytes): (Round, Vec<u8>)| {
            Deposit::decode(&bytes).map(|deposit| (round, deposit)).map_err(de::Error::custom)
        };
        stored.map(decode).transpose()
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::{HEADER_BYTES, VERSION, checked, checksum};
    use crate::client::{Client, Settings};
    use crate::error::{InputError, Malformed};
    use crate::{Error, Retrieval, Round, RoundMode, ServerParameters, UnixMillis};

    fn client() -> (Client, ChaCha20Rng) {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let server = ServerParameters {
            protocol_version: crate::PROTOCOL_VERSION,
            serial: 1,
            manifest_key: [1; 32],
            seeds: crate::SeedCommitment::default(),
            engine: "none".into(),
            security_bits: 128,
            code: crate::CodeKind::Cuckoo,
            retrieve: 4,
            buckets: 12,
            choices: 3,
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 200,
            query_ms: 300,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: crate::KeyEpoch::ENDLESS,
        };
        let settings = Settings { conversations: 2 };
        let joined = (Round(1), UnixMillis(0));
        let mut client = Client::new("alice", server, settings, joined, &mut rng).unwrap();
        client.invite("bob", UnixMillis(0), &mut rng).unwrap();
        (client, rng)
    }

    fn holds(client: &Client, needle: &[u8]) -> bool {
        client.snapshot().windows(needle.len()).any(|window| window == needle)
    }

    /// The bytes of a round's key must be gone from the state once the round was read, or can no longer be.
    #[test]
    fn no_key_outlives_its_round() {
        for read in [true, false] {
            let (mut client, mut rng) = client();
            client.open_round(Round(1), UnixMillis(0), &mut rng).unwrap();
            let keys: Vec<Vec<u8>> = client.state.wants[&Round(1)]
                .iter()
                .map(|want| postcard::to_allocvec(&want.key).unwrap())
                .collect();
            assert!(!keys.is_empty() && keys.iter().all(|key| holds(&client, key)));
            if read {
                client.received(Retrieval::dummy(Round(1), 12), Vec::new());
            } else {
                for round in 2..=4 {
                    assert!(keys.iter().all(|key| holds(&client, key)));
                    client.open_round(Round(round), UnixMillis(0), &mut rng).unwrap();
                }
            }
            assert!(!keys.iter().any(|key| holds(&client, key)));
        }
    }

    /// A state that is cut off, or goes on, or is not of this version, is not taken for another one.
    #[test]
    fn a_state_is_read_as_it_was_written_or_not_at_all() {
        let (client, _) = client();
        let stored = client.snapshot();
        assert_eq!(*Client::restore(&stored).unwrap().snapshot(), *stored);
        let content = &stored[HEADER_BYTES..];
        assert_eq!(checked(content), *stored);
        for bad in [&content[..content.len() - 1], &[content, &[0]].concat()] {
            assert_eq!(Client::restore(&checked(bad)).err(), Some(Error::Malformed(Malformed::State)));
        }
        for (version, reason) in [
            (0, InputError::StateBefore),
            (1, InputError::StateBefore),
            (VERSION + 1, InputError::StateNewer),
        ] {
            let bytes = [&[version][..], &checksum(version, content), content].concat();
            assert_eq!(Client::restore(&bytes).err(), Some(Error::Input(reason)));
            // With the checksum of another version it is damaged.
            let bytes = [&[version][..], &checksum(VERSION, content), content].concat();
            assert_eq!(Client::restore(&bytes).err(), Some(Error::Malformed(Malformed::State)));
        }
        assert_eq!(
            Client::restore(&stored[..HEADER_BYTES - 1]).err(),
            Some(Error::Malformed(Malformed::State))
        );
    }

    /// Two clients from one state would otherwise make the same secrets for different groups.
    #[test]
    fn fresh_secrets_differ_from_each_other_and_after_every_round() {
        let (mut one, mut rng) = client();
        let mut other = Client::restore(&one.snapshot()).unwrap();
        one.open_round(Round(1), UnixMillis(0), &mut rng).unwrap();
        other.open_round(Round(1), UnixMillis(0), &mut rng).unwrap();
        let mut secrets: Vec<[u8; 32]> =
            (0..6).map(|i| *if i % 2 == 0 { &mut one } else { &mut other }.state.fresh().bytes()).collect();
        secrets.sort_unstable();
        secrets.dedup();
        assert_eq!(secrets.len(), 6);
    }
}
