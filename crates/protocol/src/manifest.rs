//! What the server publishes about a sealed round, signed and chained.

mod chain;
mod former;
pub mod seed;
mod signed;

use pbc::{HashedCode, PartitionedCode};
use sha2::{Digest, Sha256};

use crate::error::{Malformed, ManifestError};
use crate::table::{LOT_SLOTS, Table};
use crate::{BloomMapping, CodeKind, CodeShape, Deposit, Error, Round};

pub use chain::{ChainStep, HEADS_KEPT, ManifestChain};
pub use former::FormerManifest;
pub use signed::{SIGNATURE_BYTES, SignedManifest};

/// Version of the protocol since which manifests are what they are.
pub const MANIFEST_VERSION: u16 = 3;
/// Bytes of an encoded manifest.
pub const MANIFEST_BYTES: usize = 268;
/// Bytes of an engine's profile.
pub const PROFILE_BYTES: usize = 16;
/// Most deposits in a round.
pub const ENTRIES_MAX: u64 = 1 << 24;
/// The mapping was one Bloom filter per bucket, up to protocol version 4. Rounds with it stand in chains; nobody reads them.
pub const MAPPING_FORMER: u8 = 1;
/// There is no mapping: boxes are found by slots, whose positions clients compute.
pub const MAPPING_NONE: u8 = 2;
/// The mapping is Bloom filters, of 64 positions of a bucket each.
pub const MAPPING_BLOOM: u8 = 3;
/// Bytes of the prefix of a head that messages carry.
pub const HEAD_PREFIX_BYTES: usize = 8;

const ENGINE_BYTES: usize = 31;
const DIGEST_DOMAIN: &[u8] = b"sotto/manifest/v3/digest\0";
const DEPOSITS_DOMAIN: &[u8] = b"sotto/manifest/v1/deposits\0";
const BUCKET_DOMAIN: &[u8] = b"sotto/manifest/v2/bucket\0";
const BUCKETS_DOMAIN: &[u8] = b"sotto/manifest/v2/buckets\0";
const UNIT_HINT_DOMAIN: &[u8] = b"sotto/manifest/v3/unit hint\0";
const HINT_DOMAIN: &[u8] = b"sotto/manifest/v3/hint\0";
const RETRIEVAL_DOMAIN: &[u8] = b"sotto/manifest/v2/retrieval\0";
const STANDING_DOMAIN: &[u8] = b"sotto/manifest/v3/standing\0";

/// Everything that server and clients must agree on about one sealed round.
///
/// Encoded in 268 bytes, integers little-endian:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 2 | `version` |
/// | 2 | 1 | `mapping_kind` |
/// | 3 | 1 | `choices` (w) |
/// | 4 | 2 | `retrieve` (k) |
/// | 6 | 2 | `buckets` (b) |
/// | 8 | 8 | `round` |
/// | 16 | 8 | `entries` (n) |
/// | 24 | 4 | `bucket_size` |
/// | 28 | 31 | `engine`, ASCII, padded with zeros; 1 to 31 characters |
/// | 59 | 1 | `code`, [`CodeKind::byte`] |
/// | 60 | 32 | `round_seed` |
/// | 92 | 32 | `mapping_digest` |
/// | 124 | 32 | `deposits_digest` |
/// | 156 | 32 | `buckets_digest` |
/// | 188 | 16 | `profile` |
/// | 204 | 32 | `hint_digest` |
/// | 236 | 32 | `previous` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// [`MANIFEST_VERSION`].
    pub version: u16,
    /// The round it describes.
    pub round: Round,
    /// Deposits in the round, or places of its [table](crate::table) (n). No deposits are a round like any other.
    pub entries: u64,
    /// Name of the PIR engine.
    pub engine: String,
    /// The batch code.
    pub code: CodeKind,
    /// Messages a client retrieves (k).
    pub retrieve: u16,
    /// Buckets of the batch code, each of which gets one query (b).
    pub buckets: u16,
    /// Copies of every deposit, in as many candidate buckets (w).
    pub choices: u8,
    /// Kind of the mapping from labels to positions: [`MAPPING_BLOOM`] (or [`MAPPING_FORMER`]), or [`MAPPING_NONE`] with
    /// slots.
    pub mapping_kind: u8,
    /// Elements in every bucket after padding, at least 1.
    pub bucket_size: u32,
    /// Seed of the batch code and the mapping, fixed before the first deposit and shown after the last, see [`seed`].
    pub round_seed: [u8; 32],
    /// Digest of the encoded mapping; zeros if there is none.
    pub mapping_digest: [u8; 32],
    /// [`deposits_digest`] of the round; zeros with slots, where the buckets hold every place of the table, whatever it is.
    pub deposits_digest: [u8; 32],
    /// [`buckets_digest`] of what stands in the buckets.
    pub buckets_digest: [u8; 32],
    /// How the engine arranges its databases, in bytes that only it understands.
    pub profile: [u8; PROFILE_BYTES],
    /// [`hint_digest`] of what everybody downloads to read answers.
    pub hint_digest: [u8; 32],
    /// [`Manifest::digest`] of the last manifest published before this one; zeros for the first.
    pub previous: [u8; 32],
}

impl Manifest {
    /// The fixed layout, of a manifest that [`Manifest::check`] accepts; a longer name of the engine is cut off.
    #[must_use]
    pub fn encode(&self) -> [u8; MANIFEST_BYTES] {
        let mut engine = [0; ENGINE_BYTES];
        for (place, byte) in engine.iter_mut().zip(self.engine.bytes()) {
            *place = byte;
        }
        let fields: [&[u8]; 17] = [
            &self.version.to_le_bytes(),
            &[self.mapping_kind],
            &[self.choices],
            &self.retrieve.to_le_bytes(),
            &self.buckets.to_le_bytes(),
            &self.round.0.to_le_bytes(),
            &self.entries.to_le_bytes(),
            &self.bucket_size.to_le_bytes(),
            &engine,
            &[self.code.byte()],
            &self.round_seed,
            &self.mapping_digest,
            &self.deposits_digest,
            &self.buckets_digest,
            &self.profile,
            &self.hint_digest,
            &self.previous,
        ];
        let mut bytes = [0; MANIFEST_BYTES];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }

    /// Reads what [`Manifest::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another size or a name that is none; otherwise as for [`Manifest::check`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; MANIFEST_BYTES] =
            bytes.try_into().map_err(|_| Error::Malformed(Malformed::Manifest))?;
        let mut fields = Fields(bytes);
        let manifest = Self {
            version: u16::from_le_bytes(fields.take()?),
            mapping_kind: u8::from_le_bytes(fields.take()?),
            choices: u8::from_le_bytes(fields.take()?),
            retrieve: u16::from_le_bytes(fields.take()?),
            buckets: u16::from_le_bytes(fields.take()?),
            round: Round(u64::from_le_bytes(fields.take()?)),
            entries: u64::from_le_bytes(fields.take()?),
            bucket_size: u32::from_le_bytes(fields.take()?),
            engine: decode_engine(fields.take()?)?,
            code: CodeKind::of_byte(u8::from_le_bytes(fields.take()?))
                .ok_or(Error::Manifest(ManifestError::CodeKind))?,
            round_seed: fields.take()?,
            mapping_digest: fields.take()?,
            deposits_digest: fields.take()?,
            buckets_digest: fields.take()?,
            profile: fields.take()?,
            hint_digest: fields.take()?,
            previous: fields.take()?,
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether its numbers are possible ones, so that nothing sized by them exceeds what n deposits explain.
    ///
    /// # Errors
    /// [`Error::Manifest`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Manifest(reason));
        if self.version != MANIFEST_VERSION {
            return refuse(ManifestError::Version);
        }
        let is_former = self.mapping_kind == MAPPING_FORMER && !self.code.has_slots();
        if self.mapping_kind != mapping_kind(self.code) && !is_former {
            return refuse(ManifestError::Mapping);
        }
        if self.engine.is_empty() || self.engine.len() > ENGINE_BYTES || !self.engine.is_ascii() {
            return refuse(ManifestError::Engine);
        }
        let shape = self.shape();
        shape.check().map_err(|error| Error::Manifest(ManifestError::Shape(error)))?;
        if self.entries > ENTRIES_MAX {
            return refuse(ManifestError::Entries);
        }
        if self.code.has_slots() {
            let table = Table::of_places(self.entries);
            let size = self.entries.div_ceil(u64::from(self.buckets / u16::from(self.choices)));
            return match table {
                None => refuse(ManifestError::Table),
                Some(_) if u64::from(self.bucket_size) != size => refuse(ManifestError::BucketSize),
                Some(_) if [self.mapping_digest, self.deposits_digest] != [[0; 32]; 2] => {
                    refuse(ManifestError::Digests)
                }
                Some(_) => Ok(()),
            };
        }
        let copies = self.entries * u64::from(self.choices);
        // Contents that are sums of others are as long as the longest of those.
        let mean = copies.div_ceil(u64::from(shape.copying()));
        let size = u64::from(self.bucket_size);
        if size == 0 || size < mean || size > self.entries.max(1) || size > 2 * mean + BUCKET_SLACK {
            return refuse(ManifestError::BucketSize);
        }
        Ok(())
    }

    /// The name of this manifest in the chain: SHA-256 over a domain and the encoding.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::new_with_prefix(DIGEST_DOMAIN).chain_update(self.encode()).finalize().into()
    }

    /// The first 8 bytes of [`Manifest::digest`], which messages carry so that readers can compare their worlds.
    #[must_use]
    pub fn head_prefix(&self) -> [u8; HEAD_PREFIX_BYTES] {
        prefix(&self.digest())
    }

    /// Public randomness of the round for a PIR engine, under the root key of its cluster: SHA-256 of domain, root key,
    /// number and seed of the round. It does not depend on what else stands here, some of which is computed under it.
    #[must_use]
    pub fn retrieval_seed(&self, root: &[u8; 32]) -> [u8; 32] {
        let hash = Sha256::new_with_prefix(RETRIEVAL_DOMAIN).chain_update(root);
        hash.chain_update(self.round.0.to_le_bytes()).chain_update(self.round_seed).finalize().into()
    }

    /// Public randomness under which queries of the round are made. It is [`Manifest::retrieval_seed`] or, where queries stand, one
    /// for all rounds of an epoch whose tables have as many places: SHA-256 of domain, root key, number and seed of the epoch's
    /// first round, and the number of places.
    #[must_use]
    pub fn query_seed(&self, root: &[u8; 32]) -> [u8; 32] {
        if self.code.epoch_rounds() == 1 {
            return self.retrieval_seed(root);
        }
        let hash = Sha256::new_with_prefix(STANDING_DOMAIN).chain_update(root);
        let hash = hash.chain_update(self.code.epoch(self.round).0.to_le_bytes());
        hash.chain_update(self.epoch_seed()).chain_update(self.entries.to_le_bytes()).finalize().into()
    }

    /// The seed of the first round of the epoch: it follows from that of any other.
    fn epoch_seed(&self) -> [u8; 32] {
        (self.code.epoch(self.round).0..self.round.0).fold(self.round_seed, |seed, _| seed::step(&seed))
    }

    /// The batch code with its dimensions.
    #[must_use]
    pub const fn shape(&self) -> CodeShape {
        let Self { code: kind, retrieve, buckets, choices, .. } = *self;
        CodeShape { kind, retrieve, buckets, choices }
    }

    /// The round's batch code, if boxes are found by labels.
    ///
    /// # Errors
    /// [`Error::Manifest`] if there is no such code, which [`Manifest::check`] excludes but with slots.
    pub fn code(&self) -> Result<Box<dyn HashedCode>, Error> {
        self.shape().code(self.round_seed).map_err(|_| Error::Manifest(ManifestError::NoCode))
    }

    /// The round's batch code, if boxes are found by slots.
    ///
    /// Places are drawn anew in every round, so that accounts whose slots share buckets do so in one round and not in the
    /// next: whoever gives out slots and knows the seeds gains one round by that, and not as many as have one seed. Where queries
    /// stand, an epoch is what a round is elsewhere.
    ///
    /// # Errors
    /// [`Error::Manifest`] if there is no such code, which [`Manifest::check`] excludes but with labels.
    pub fn slot_code(&self) -> Result<PartitionedCode, Error> {
        let none = || Error::Manifest(ManifestError::NoCode);
        let places = usize::try_from(self.entries).map_err(|_| none())?;
        self.shape().slot_code(self.epoch_seed(), places).map_err(|_| none())
    }

    /// The round's table, if boxes are found by slots.
    #[must_use]
    pub fn table(&self) -> Option<Table> {
        Table::of_places(self.entries).filter(|_| self.code.has_slots())
    }

    /// Bytes of the round's mapping, 0 if there is none.
    #[must_use]
    pub fn mapping_bytes(&self) -> u64 {
        mapping_bytes(self.shape(), self.bucket_size)
    }
}

/// Bytes of the mapping of a round with such a code and buckets of such a size, 0 if there is none.
#[must_use]
pub fn mapping_bytes(shape: CodeShape, bucket_size: u32) -> u64 {
    if shape.kind.has_slots() { 0 } else { BloomMapping::encoded_bytes(shape, bucket_size) }
}

/// The size that a round's buckets can be expected to have if so many accounts have deposited, or, with slots, if there are so
/// many: the load of the fullest one. None if there can be no such round.
///
/// With labels each load is binomial; the mean of the largest of b of them, each of deviation s, exceeds theirs by at most
/// `s sqrt(2 ln b)`, and by little less. With slots nothing is left to chance.
#[must_use]
pub fn expected_bucket_size(shape: CodeShape, accounts: u64) -> Option<u32> {
    shape.check().ok().filter(|()| (1..=ENTRIES_MAX).contains(&accounts))?;
    if shape.kind.has_slots() {
        let lots = u32::try_from(accounts.div_ceil(LOT_SLOTS.into())).ok()?;
        let groups = u32::from(shape.buckets) / u32::from(shape.choices);
        return Some(Table::holding(lots)?.places().div_ceil(groups));
    }
    let buckets = f64::from(shape.copying());
    let share = f64::from(shape.choices) / buckets;
    let mean = accounts as f64 * share;
    let largest = mean + (mean * (1.0 - share) * 2.0 * buckets.ln()).sqrt();
    // No more than there are, of which there are fewer than 2^32.
    Some((largest.round() as u32).clamp(1, accounts as u32))
}

/// The kind of mapping that goes with a code.
#[must_use]
pub const fn mapping_kind(code: CodeKind) -> u8 {
    if code.has_slots() { MAPPING_NONE } else { MAPPING_BLOOM }
}

/// A bucket may exceed twice the mean by this many elements. With at most 4 boxes under a label
/// ([`crate::deposit::arrange`]) chance does not: of a mean of 128, where it comes closest, that is 11 standard deviations.
const BUCKET_SLACK: u64 = 128;

/// Digest of a round's deposits in the order given: SHA-256 over a domain, their number as `u64`, and each deposit.
#[must_use]
pub fn deposits_digest(deposits: &[Deposit]) -> [u8; 32] {
    let mut digest =
        Sha256::new_with_prefix(DEPOSITS_DOMAIN).chain_update((deposits.len() as u64).to_le_bytes());
    for deposit in deposits {
        digest.update(deposit.label.0);
        digest.update(deposit.sealed.0);
    }
    digest.finalize().into()
}

/// Digest of one bucket as it is served: SHA-256 over a domain, its number, and its boxes in order, those that pad it with
/// them.
#[must_use]
pub fn bucket_digest(bucket: u16, boxes: &[u8]) -> [u8; 32] {
    Sha256::new_with_prefix(BUCKET_DOMAIN)
        .chain_update(bucket.to_le_bytes())
        .chain_update(boxes)
        .finalize()
        .into()
}

/// Digest of all buckets: SHA-256 over a domain and the [`bucket_digest`] of each, ascending. Who has these can check any
/// one bucket.
#[must_use]
pub fn buckets_digest(buckets: &[[u8; 32]]) -> [u8; 32] {
    Sha256::new_with_prefix(BUCKETS_DOMAIN).chain_update(buckets.as_flattened()).finalize().into()
}

/// Digest of a unit's part of a hint: SHA-256 over a domain, the unit's number as `u16`, and the part.
#[must_use]
pub fn unit_hint_digest(unit: u16, part: &[u8]) -> [u8; 32] {
    let hash = Sha256::new_with_prefix(UNIT_HINT_DOMAIN).chain_update(unit.to_le_bytes());
    hash.chain_update(part).finalize().into()
}

/// Digest of a hint: SHA-256 over a domain and the [`unit_hint_digest`] of each unit's part, ascending. Who has these can check any
/// one part.
#[must_use]
pub fn hint_digest(units: &[[u8; 32]]) -> [u8; 32] {
    Sha256::new_with_prefix(HINT_DOMAIN).chain_update(units.as_flattened()).finalize().into()
}

/// The [`unit_hint_digest`] of each part of a hint.
pub fn unit_hint_digests<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<[u8; 32]> {
    (0..).zip(parts).map(|(unit, part)| unit_hint_digest(unit, part)).collect()
}

fn prefix(digest: &[u8; 32]) -> [u8; HEAD_PREFIX_BYTES] {
    let (words, _) = digest.as_chunks::<HEAD_PREFIX_BYTES>();
    words[0]
}

fn decode_engine(field: [u8; ENGINE_BYTES]) -> Result<String, Error> {
    let malformed = || Error::Malformed(Malformed::EngineName);
    let length = field.iter().position(|byte| *byte == 0).unwrap_or(ENGINE_BYTES);
    let (name, padding) = field.split_at(length);
    if !name.iter().all(u8::is_ascii_graphic) || padding.iter().any(|byte| *byte != 0) {
        return Err(malformed());
    }
    String::from_utf8(name.to_vec()).map_err(|_| malformed())
}

/// Takes fields of known size off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Error::Malformed(Malformed::Manifest))?;
        self.0 = rest;
        Ok(*field)
    }
}
