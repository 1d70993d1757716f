//! Pung's mapping: per bucket a Bloom filter over (label, position).

use core::hint::black_box;

use bloomfilter::Bloom;
use pbc::oblivious::{NONE, below, equal, select};
use pbc::{Encoding, HashedCode};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::filters::{self, Filters};
use super::{half_window, window_length};
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
    /// Of every content that has filters: its number, how many elements it has, and how far from where it is expected an
    /// element may stand ([`window`]).
    contents: Vec<u32>,
    counts: Vec<u32>,
    halves: Vec<u32>,
    /// The most positions that are searched in any of them.
    window: usize,
    filters: Filters,
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
        let code = manifest.code()?;
        let contents = code.copying().into_iter().map(u32::try_from).collect::<Result<Vec<u32>, _>>();
        let halves = counts.iter().map(|count| half_window(*count as usize) as u32).collect();
        Ok(Self {
            round_seed: manifest.round_seed,
            contents: contents.map_err(|_| malformed())?,
            halves,
            window: counts.iter().map(|count| window_length(*count as usize)).max().unwrap_or(0),
            counts,
            filters: Filters::new(
                &manifest.round_seed,
                filters,
                filter_bytes,
                filters_of_each(copying).into(),
            ),
        })
    }

    /// The positions at which a label may stand in a content that would hold a copy of its box, ascending. Where a code
    /// reads sums of boxes, the summands stand at the position of the copy ([`pbc::BatchCode::holder`]).
    ///
    /// A label that was deposited is found in every bucket that holds a copy of it, but for a chance below 2^-29 that it
    /// stands outside the window searched; one that was not may seem to be there. Of a wanted label the positions are
    /// secret: no copy of them is left behind, as a vector leaves that grows. That this takes as long as there are hits is for
    /// those who may know.
    #[must_use]
    pub fn hits(&self, code: &dyn HashedCode, content: usize, label: &Label) -> Zeroizing<Vec<usize>> {
        let content = u32::try_from(content).unwrap_or(NONE);
        let hits = self.search(content, code.order(&label.0), self.fingerprint(label));
        let mut positions = Zeroizing::new(Vec::new());
        // Room for all, so that it never moves.
        positions.reserve_exact(self.window);
        positions.extend((0..hits.count()).map(|number| hits.position(number) as usize));
        positions
    }

    /// What a filter holds of a label beside the position.
    pub(super) fn fingerprint(&self, label: &Label) -> u64 {
        fingerprint(&self.round_seed, label)
    }

    /// Where an element with this order and fingerprint seems to stand in a content, which none of the branches and addresses
    /// tells.
    pub(super) fn search(&self, content: u32, order: u64, fingerprint: u64) -> Hits {
        let (mut count, mut half, mut number) = (0, 0, NONE);
        let each = self.contents.iter().zip(&self.counts).zip(&self.halves);
        for (here, ((of, its_count), its_half)) in (0..).zip(each) {
            let is_here = equal(*of, black_box(content));
            count |= its_count & is_here;
            half |= its_half & is_here;
            number = select(is_here, here, number);
        }
        // What `window` says, without branches.
        let centre = ((u128::from(order) * u128::from(count)) >> 64) as u32;
        let first = centre.wrapping_sub(half);
        let first = select(below(centre, half), 0, first);
        let after = centre.wrapping_add(half).wrapping_add(1);
        let after = select(below(after, count), after, count);

        let positions = (0..self.window as u32).map(|step| first.wrapping_add(step));
        let mut are_there =
            Zeroizing::new(positions.map(|position| below(position, after)).collect::<Vec<u32>>());
        self.filters.keep_held(number, fingerprint, first, &mut are_there);
        Hits { first, are_there }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl BloomMapping {
    /// Bytes that the filters take.
    pub(crate) fn filter_memory(&self) -> usize {
        self.filters.memory()
    }
}

/// A stretch of positions, all of which are as secret as what is sought.
pub(super) struct Hits {
    first: u32,
    /// All ones or zeros, for each position from the first on.
    are_there: Zeroizing<Vec<u32>>,
}

impl Hits {
    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.are_there.iter().fold(0, |count, is_there| count + (1 & is_there))
    }

    /// The position of one of them, counted from 0; anything for one that is none.
    pub(super) fn position(&self, chosen: u32) -> u32 {
        let (mut before, mut found) = (0, 0);
        for (step, is_there) in (0..).zip(self.are_there.iter()) {
            found = select(equal(before, black_box(chosen)) & is_there, self.first.wrapping_add(step), found);
            before += 1 & is_there;
        }
        found
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
    let key = filters::key(round_seed, number);
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
pub(super) fn tuple(fingerprint: u64, position: u64) -> u128 {
    ((u128::from(fingerprint) << 64) | u128::from(position)).to_le()
}
