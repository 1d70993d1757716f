//! A proof as it is kept and handed on.

use bytes::Bytes;
use sotto_protocol::audit::{RECEIPT_BYTES, Receipt};
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_protocol::{Manifest, SignedManifest};
use sotto_session::Announced;
use sotto_wire::{Malformed, limits};

/// Most bytes of a proof: the buckets of a unit, and 32 MiB for all the rest.
pub const PROOF_MAX: usize = limits::UNIT_MAX + 32 * 1024 * 1024;

const MAGIC: &[u8; 11] = b"sotto proof";
/// Without a hint, and with one.
const VERSIONS: [u8; 2] = [3, 4];

/// Digests of every bucket, and of every unit, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Of the buckets' contents, [`sotto_protocol::manifest::bucket_digest`].
    pub buckets: Vec<[u8; 32]>,
    /// Of the queries to the units, [`sotto_protocol::audit::query_digest`].
    pub queries: Vec<[u8; 32]>,
    /// Of their answers, [`sotto_protocol::audit::answer_digest`].
    pub answers: Vec<[u8; 32]>,
}

/// One unit's answer, and everything by which anybody can tell whether it is right. Nothing in it is checked before
/// [`super::judge`].
///
/// Encoded, integers little-endian, with b buckets by the manifest:
///
/// | bytes | field |
/// |---|---|
/// | 12 | `"sotto proof"`, version 3, or 4 with digests of a hint |
/// | 205, 64 | announcement, and the root key's signature |
/// | 268, 64 | manifest, and its signature |
/// | 64 | receipt |
/// | 2, 2 | unit, number of units u |
/// | 32 b, 32 u, 32 u | digests of all buckets, queries, answers |
/// | 4 + | length of the public keys, at most 16 MiB, and they |
/// | 4 + | length of the query, at most 64 MiB, and it |
/// | 4 + | length of the answer, at most 256 MiB, and it |
/// | 4 + | length of the unit's buckets, at most 256 MiB, and their boxes |
/// | 32 u | in version 4: digests of all parts of the hint |
#[derive(Clone, PartialEq, Eq)]
pub struct Proof {
    /// What the server said of itself.
    pub announced: Announced,
    /// The round; without what shows that its seed was fixed.
    pub manifest: SignedManifest,
    /// Under the answers.
    pub receipt: Receipt,
    /// Which unit was asked.
    pub unit: u16,
    /// Of all buckets and units.
    pub digests: Digests,
    /// The public keys as they were uploaded.
    pub keys: Bytes,
    /// The query to the unit.
    pub query: Bytes,
    /// Its answer.
    pub answer: Bytes,
    /// The boxes of the unit's buckets, those that pad them with them.
    pub boxes: Bytes,
    /// Of the parts of the hint of every unit, ascending, [`sotto_protocol::manifest::unit_hint_digest`], if the hint is to be looked at,
    /// too. Of a round of one unit the manifest says as much.
    pub hints: Option<Vec<[u8; 32]>>,
}

impl Proof {
    /// The layout above.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { announced, manifest, receipt, unit, digests, keys, query, answer, boxes, hints } = self;
        // What is longer is refused when it is read.
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        let lengths = [length(keys), length(query), length(answer), length(boxes)];
        let units = u16::try_from(digests.queries.len()).unwrap_or(u16::MAX);
        let mut encoded = [
            MAGIC.as_slice(),
            &[VERSIONS[usize::from(hints.is_some())]],
            &announced.announcement,
            &announced.endorsement,
            &manifest.bytes,
            &manifest.signature,
            receipt,
            &unit.to_le_bytes(),
            &units.to_le_bytes(),
            digests.buckets.as_flattened(),
            digests.queries.as_flattened(),
            digests.answers.as_flattened(),
            &lengths[0],
            keys,
            &lengths[1],
            query,
            &lengths[2],
            answer,
            &lengths[3],
            boxes,
        ]
        .concat();
        encoded.extend(hints.iter().flat_map(|hints| hints.as_flattened()));
        encoded
    }

    /// Reads what [`Proof::encode`] wrote. What is kept is no larger than what is read.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes.clone());
        if fields.array::<11>()? != *MAGIC {
            return Err(Malformed("proof: the file is none"));
        }
        let [version] = fields.array()?;
        if !VERSIONS.contains(&version) {
            return Err(Malformed("proof: it is of another version"));
        }
        let announcement = fields.array::<ANNOUNCEMENT_BYTES>()?;
        let announced = Announced { announcement, endorsement: fields.array()? };
        let (encoded, signature) = (fields.array::<MANIFEST_BYTES>()?, fields.array::<SIGNATURE_BYTES>()?);
        let manifest = Manifest::decode(&encoded).map_err(|_| Malformed("proof: manifest"))?;
        let receipt = fields.array::<RECEIPT_BYTES>()?;
        let unit = u16::from_le_bytes(fields.array()?);
        let units = usize::from(u16::from_le_bytes(fields.array()?));
        let digests = Digests {
            buckets: fields.digests(manifest.buckets.into())?,
            queries: fields.digests(units)?,
            answers: fields.digests(units)?,
        };
        let keys = fields.counted(limits::KEYS_MAX)?;
        let query = fields.counted(limits::QUERY_MAX)?;
        let answer = fields.counted(limits::ANSWER_MAX)?;
        let boxes = fields.counted(limits::UNIT_MAX)?;
        let hints = if version == VERSIONS[1] { Some(fields.digests(units)?) } else { None };
        if !fields.0.is_empty() {
            return Err(Malformed("proof: there is more behind it"));
        }
        let manifest = SignedManifest { bytes: encoded, signature, segment: None };
        Ok(Self { announced, manifest, receipt, unit, digests, keys, query, answer, boxes, hints })
    }
}

// Megabytes tell nobody anything.
impl core::fmt::Debug for Proof {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let round = self.manifest.claimed_round();
        f.debug_struct("Proof").field("round", &round).field("unit", &self.unit).finish_non_exhaustive()
    }
}

const TRUNCATED: Malformed = Malformed("proof: sizes");

/// Takes fields off the front, without copying the long ones.
struct Fields(Bytes);

impl Fields {
    fn take(&mut self, bytes: usize) -> Result<Bytes, Malformed> {
        if bytes > self.0.len() { Err(TRUNCATED) } else { Ok(self.0.split_to(bytes)) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?[..].try_into().map_err(|_| TRUNCATED)
    }

    fn digests(&mut self, count: usize) -> Result<Vec<[u8; 32]>, Malformed> {
        Ok(self.take(32 * count)?.as_chunks::<32>().0.to_vec())
    }

    fn counted(&mut self, most: usize) -> Result<Bytes, Malformed> {
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| TRUNCATED)?;
        if length > most { Err(TRUNCATED) } else { self.take(length) }
    }
}
