//! Pung's mapping: per bucket a Bloom filter over (label, position).

use bloomfilter::Bloom;
use pbc::{Encoding, HashedCode};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::window;
use crate::error::{InputError, Malformed};
use crate::{CodeShape, Error, Label, Manifest};

/// Bytes before the counts.
pub const MAPPING_HEADER_BYTES: usize = 12;

const VERSION: u8 = 1;
const COUNT_BYTES: usize = 4;
/// Filter bytes per element: 24 bits.
const ELEMENT_BYTES: usize = 3;
/// Of a full filter, millionths: `(1 - e^(-17 / 24))^17` with 17 bits for each element.
pub(crate) const FALSE_POSITIVES: u32 = 10;
/// Filters of the only content of an unencoded round: since no other one can stand in for it, both must agree. One
/// filter of the same size would be worse: all its bit numbers derive from two hashes, so its rate has a floor.
const FILTERS_UNENCODED: u16 = 2;
/// Filters are made for at least so many elements: in smaller ones the crate's double hashing degenerates.
const ELEMENTS_MIN: usize = 64;

const DIGEST_DOMAIN: &[u8] = b"sotto/mapping/v1/digest\0";
const LABEL_DOMAIN: &[u8] = b"sotto/mapping/v1/label\0";
const FILTER_DOMAIN: &[u8] = b"sotto/mapping/v1/filter\0";

/// A Bloom filter for every content that holds copies, and the number of elements in it. Buckets with the same content
/// share it, and sums of contents need none: their summands stand at the positions of the copies.
///
/// Layout, integers little-endian; the size follows from the code's shape and `bucket_size` alone:
///
/// ```text
/// version u8 = 1 | kind u8 = 1 | contents u16 | bucket_size u32 | filter_bytes u32
/// | count u32, for every content | filter_bytes bytes of filter, for every content (an only one: twice)
/// ```
///
/// `filter_bytes` is 3 for each of `max(bucket_size, 64)` elements; a bit is number `i mod 8`, from the least
/// significant one, of byte `i / 8`. Filter number `c`, which is that of content `c` (an only one: both are its),
/// is keyed by `SHA-256("sotto/mapping/v1/filter\0" | round_seed | c as u32)` and holds, for the element at `position`,
/// the number `f * 2^64 + position` as 16 little-endian bytes, where `f` is the first little-endian word of
/// `SHA-256("sotto/mapping/v1/label\0" | round_seed | label)`. Hashing is that of the crate `bloomfilter` 3: two
/// SipHash-1-3 with the halves of the key, combined to 17 bit numbers.
#[derive(Debug)]
pub struct BloomMapping {
    round_seed: [u8; 32],
    /// Of every content of the code; `None` for those that hold sums.
    contents: Vec<Option<Content>>,
}

#[derive(Debug)]
struct Content {
    count: usize,
    /// A tuple is in the content if all of them hold it.
    filters: Vec<Bloom<u128>>,
}

impl BloomMapping {
    /// Exact size of an encoded mapping, bytes.
    #[must_use]
    pub fn encoded_bytes(shape: CodeShape, bucket_size: u32) -> u64 {
        let contents = shape.copying();
        let each = COUNT_BYTES as u64 + filter_bytes(bucket_size) * u64::from(filters_of_each(contents));
        MAPPING_HEADER_BYTES as u64 + u64::from(contents) * each
    }

    /// Digest of an encoded mapping, as it stands in the manifest: SHA-256 over a domain and the bytes.
    #[must_use]
    pub fn digest(encoded: &[u8]) -> [u8; 32] {
        Sha256::new_with_prefix(DIGEST_DOMAIN).chain_update(encoded).finalize().into()
    }

    /// Builds and encodes the mapping of a round whose element `i` stands under `labels[i]`.
    ///
    /// # Errors
    /// [`Error::Input`] if the encoding is not one of these labels by such a code, or a bucket has more than
    /// `bucket_size` elements.
    pub fn build(
        round_seed: &[u8; 32],
        code: &dyn HashedCode,
        encoding: &Encoding,
        labels: &[Label],
        bucket_size: u32,
    ) -> Result<Vec<u8>, Error> {
        if encoding.elements() != labels.len() || encoding.largest() as u64 > u64::from(bucket_size) {
            return Err(Error::Input(InputError::OtherLabels));
        }
        let content = |number: usize| encoding.contents().get(number);
        let contents: Option<Vec<_>> = code.copying().into_iter().map(content).collect();
        let contents = contents.ok_or(Error::Input(InputError::OtherCode))?;
        let unfit = |_| Error::Input(InputError::TooManyContents);
        let number = u16::try_from(contents.len()).map_err(unfit)?;
        let fingerprints: Vec<u64> = labels.iter().map(|label| fingerprint(round_seed, label)).collect();

        let filter_bytes =
            u32::try_from(filter_bytes(bucket_size)).map_err(|_| Error::Input(InputError::BucketTooLarge))?;
        let mut encoded = Vec::new();
        encoded.extend([VERSION, crate::manifest::MAPPING_BLOOM]);
        encoded.extend(number.to_le_bytes());
        encoded.extend(bucket_size.to_le_bytes());
        encoded.extend(filter_bytes.to_le_bytes());
        for content in &contents {
            // At most `bucket_size`, checked above.
            encoded.extend((content.len() as u32).to_le_bytes());
        }
        let each = usize::from(filters_of_each(number));
        let filters = contents.into_iter().flat_map(|content| core::iter::repeat_n(content, each));
        for (number, content) in (0..).zip(filters) {
            let mut filter = empty_filter(round_seed, number, bucket_size)?;
            for (position, codeword) in (0_u64..).zip(content) {
                for element in codeword.elements() {
                    // Below the number of labels, by the construction of an encoding.
                    filter.set(&tuple(fingerprints[*element as usize], position));
                }
            }
            encoded.extend(bits(&filter, filter_bytes as usize));
        }
        Ok(encoded)
    }

    /// Reads the mapping that a manifest announces.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless size, digest, header and counts are those that the manifest implies; nothing is
    /// allocated before the size and the digest are checked.
    pub fn decode(encoded: &[u8], manifest: &Manifest) -> Result<Self, Error> {
        let malformed = || Error::Malformed(Malformed::Mapping);
        let (shape, bucket_size) = (manifest.shape(), manifest.bucket_size);
        if encoded.len() as u64 != Self::encoded_bytes(shape, bucket_size)
            || Self::digest(encoded) != manifest.mapping_digest
        {
            return Err(malformed());
        }
        let (header, rest) = encoded.split_at_checked(MAPPING_HEADER_BYTES).ok_or_else(malformed)?;
        let copying = shape.copying();
        let mut expected = vec![VERSION, crate::manifest::MAPPING_BLOOM];
        expected.extend(copying.to_le_bytes());
        expected.extend(bucket_size.to_le_bytes());
        let filter_bytes = filter_bytes(bucket_size);
        expected.extend(u32::try_from(filter_bytes).map_err(|_| malformed())?.to_le_bytes());
        if header != expected {
            return Err(malformed());
        }

        let (counts, filters) =
            rest.split_at_checked(usize::from(copying) * COUNT_BYTES).ok_or_else(malformed)?;
        let (counts, _) = counts.as_chunks::<COUNT_BYTES>();
        let counts: Vec<u32> = counts.iter().map(|count| u32::from_le_bytes(*count)).collect();
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if total != manifest.entries * u64::from(manifest.choices)
            || counts.iter().any(|count| *count > bucket_size)
        {
            return Err(malformed());
        }
        let filter_bytes = usize::try_from(filter_bytes).map_err(|_| malformed())?;
        let read = |(number, bits): (u32, &[u8])| {
            let empty = empty_filter(&manifest.round_seed, number, bucket_size)?;
            let mut bytes = empty.into_bytes();
            let header = bytes.len().checked_sub(bits.len()).ok_or_else(malformed)?;
            bytes[header..].copy_from_slice(bits);
            Bloom::from_bytes(bytes).map_err(|_| malformed())
        };
        let mut filters = (0..).zip(filters.chunks_exact(filter_bytes)).map(read);
        let code = manifest.code()?;
        let mut contents: Vec<Option<Content>> = (0..code.contents()).map(|_| None).collect();
        for (number, count) in code.copying().into_iter().zip(counts) {
            let each = filters_of_each(copying).into();
            let filters = filters.by_ref().take(each).collect::<Result<_, Error>>()?;
            let content = Content { count: count as usize, filters };
            *contents.get_mut(number).ok_or_else(malformed)? = Some(content);
        }
        Ok(Self { round_seed: manifest.round_seed, contents })
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl BloomMapping {
    /// Bytes that the filters take.
    pub(crate) fn filter_memory(&self) -> usize {
        let filters = self.contents.iter().flatten().flat_map(|content| &content.filters);
        filters.map(|filter| filter.as_slice().len()).sum()
    }
}

impl BloomMapping {
    /// The positions at which a label may stand in a content that would hold a copy of its box, ascending. Where a code
    /// reads sums of boxes, the summands stand at the position of the copy ([`pbc::BatchCode::holder`]).
    ///
    /// A label that was deposited is found in every bucket that holds a copy of it, but for a chance below 2^-29 that it
    /// stands outside the window searched; one that was not may seem to be there. Of a wanted label the positions are
    /// secret: no copy of them is left behind, as a vector leaves that grows.
    #[must_use]
    pub fn hits(&self, code: &dyn HashedCode, content: usize, label: &Label) -> Zeroizing<Vec<usize>> {
        let mut hits = Zeroizing::new(Vec::new());
        let Some(Some(Content { count, filters })) = self.contents.get(content) else {
            return hits;
        };
        let fingerprint = fingerprint(&self.round_seed, label);
        let present = |position: &usize| {
            let tuple = tuple(fingerprint, *position as u64);
            filters.iter().all(|filter| filter.check(&tuple))
        };
        let window = window(code.order(&label.0), *count);
        // Room for all, so that it never moves.
        hits.reserve_exact(window.len());
        hits.extend(window.filter(present));
        hits
    }
}

/// Size of every filter, bytes.
fn filter_bytes(bucket_size: u32) -> u64 {
    u64::from(bucket_size).max(ELEMENTS_MIN as u64) * ELEMENT_BYTES as u64
}

fn filters_of_each(contents: u16) -> u16 {
    if contents == 1 { FILTERS_UNENCODED } else { 1 }
}

fn empty_filter(round_seed: &[u8; 32], number: u32, bucket_size: u32) -> Result<Bloom<u128>, Error> {
    let key: [u8; 32] = Sha256::new_with_prefix(FILTER_DOMAIN)
        .chain_update(round_seed)
        .chain_update(number.to_le_bytes())
        .finalize()
        .into();
    let unfit = Error::Input(InputError::FilterTooLarge);
    let bytes = usize::try_from(filter_bytes(bucket_size)).map_err(|_| unfit.clone())?;
    let elements = (bucket_size as usize).max(ELEMENTS_MIN);
    Bloom::new_with_seed(bytes, elements, &key).map_err(|_| unfit)
}

/// The filter without the header that the crate puts before the bits.
fn bits(filter: &Bloom<u128>, filter_bytes: usize) -> &[u8] {
    let bytes = filter.as_slice();
    &bytes[bytes.len() - filter_bytes..]
}

fn fingerprint(round_seed: &[u8; 32], label: &Label) -> u64 {
    let digest: [u8; 32] = Sha256::new_with_prefix(LABEL_DOMAIN)
        .chain_update(round_seed)
        .chain_update(label.0)
        .finalize()
        .into();
    let (words, _) = digest.as_chunks::<8>();
    u64::from_le_bytes(words[0])
}

/// What a filter holds. An integer is hashed in the machine's byte order; swapped on a big-endian machine, it is hashed
/// as little-endian bytes everywhere.
fn tuple(fingerprint: u64, position: u64) -> u128 {
    ((u128::from(fingerprint) << 64) | u128::from(position)).to_le()
}
