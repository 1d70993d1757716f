//! Pung's mapping: for each bucket Bloom filters over (label, position).

use core::hint::black_box;

use pbc::oblivious::{NONE, equal, select};
use pbc::{Encoding, HashedCode};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::blocks::{BLOCK, Blocks, Element, Writer, blocks_of_content, content_bytes};
use super::hits::Hits;
use super::{half_window, window, window_length};
use crate::error::{InputError, Malformed};
use crate::{CodeShape, Error, Label, Manifest};

/// Bytes before the counts.
pub const MAPPING_HEADER_BYTES: usize = 12;

const VERSION: u8 = 2;
const COUNT_BYTES: usize = 4;
/// Of a full block, millionths: `(1 - e^(-4 / 6))^4` for each of four filters with 4 bits for each element.
pub(crate) const FALSE_POSITIVES: u32 = 10;

const DIGEST_DOMAIN: &[u8] = b"sotto/mapping/v2/digest\0";
const LABEL_DOMAIN: &[u8] = b"sotto/mapping/v2/label\0";

/// Bloom filters for every content that holds copies, and the number of elements in it. Buckets with the same content
/// share them, and sums of contents need none: their summands stand at the positions of the copies.
///
/// Layout, integers little-endian; the size follows from the code's shape and `bucket_size` alone:
///
/// ```text
/// version u8 = 2 | kind u8 = 3 | contents u16 | bucket_size u32 | filter_bytes u32
/// | count u32, for every content | filter_bytes bytes of filters, for every content
/// ```
///
/// Every 64 positions, counted from 0, are a block, and a content has the blocks of `max(bucket_size, 1)` positions. Each has
/// four filters of 48 bytes (of an only content: eight), one behind the other, and a position is shown if all of them do. A
/// bit is number `i mod 8`, from the least significant one, of byte `i / 8`. Filter number `j` of any block is keyed
/// by `SHA-256("sotto/mapping/v2/filter\0" | round_seed | j as u32)` and holds, for the element at `position`,
/// the number `f * 2^64 + position` as 16 little-endian bytes, where `f` is the first little-endian word of
/// `SHA-256("sotto/mapping/v2/label\0" | round_seed | label)`. Hashing is that of the crate `bloomfilter` 3: two
/// SipHash-1-3 with the halves of the key, combined to 4 bit numbers.
#[derive(Debug)]
pub struct BloomMapping {
    round_seed: [u8; 32],
    /// Those that have filters, in the order of these.
    contents: Vec<Content>,
    /// The most positions that are searched in any of them.
    window: usize,
    blocks: Blocks,
}

#[derive(Debug)]
struct Content {
    number: u32,
    count: u32,
    half_window: u32,
}

impl BloomMapping {
    /// Exact size of an encoded mapping, bytes.
    #[must_use]
    pub fn encoded_bytes(shape: CodeShape, bucket_size: u32) -> u64 {
        let contents = shape.copying();
        let each = COUNT_BYTES as u64 + content_bytes(contents, bucket_size);
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

        let filter_bytes = u32::try_from(content_bytes(number, bucket_size))
            .map_err(|_| Error::Input(InputError::BucketTooLarge))?;
        let mut encoded = Vec::new();
        encoded.extend([VERSION, crate::manifest::MAPPING_BLOOM]);
        encoded.extend(number.to_le_bytes());
        encoded.extend(bucket_size.to_le_bytes());
        encoded.extend(filter_bytes.to_le_bytes());
        for content in &contents {
            // At most `bucket_size`, checked above.
            encoded.extend((content.len() as u32).to_le_bytes());
        }
        encoded.reserve_exact(contents.len() * filter_bytes as usize);
        let mut writer = Writer::new(round_seed, number)?;
        for content in contents {
            let blocks = content.chunks(BLOCK).chain(core::iter::repeat(&[][..]));
            for (number, block) in blocks.take(blocks_of_content(bucket_size)).enumerate() {
                // Below the number of labels, by the construction of an encoding.
                let fingerprint = |element: &u32| fingerprints[*element as usize];
                let block = block.iter().map(|codeword| codeword.elements().iter().map(fingerprint));
                writer.write(number * BLOCK, block, &mut encoded);
            }
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
        if manifest.mapping_kind != crate::manifest::MAPPING_BLOOM
            || encoded.len() as u64 != Self::encoded_bytes(shape, bucket_size)
            || Self::digest(encoded) != manifest.mapping_digest
        {
            return Err(malformed());
        }
        let (header, rest) = encoded.split_at_checked(MAPPING_HEADER_BYTES).ok_or_else(malformed)?;
        let copying = shape.copying();
        let mut expected = vec![VERSION, crate::manifest::MAPPING_BLOOM];
        expected.extend(copying.to_le_bytes());
        expected.extend(bucket_size.to_le_bytes());
        let filter_bytes = content_bytes(copying, bucket_size);
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
        let code = manifest.code()?;
        let content = |(number, count): (usize, &u32)| {
            // Shorter than 2^18.
            let half_window = half_window(*count as usize) as u32;
            Ok(Content {
                number: u32::try_from(number).map_err(|_| malformed())?,
                count: *count,
                half_window,
            })
        };
        let contents = code.copying().into_iter().zip(&counts).map(content).collect::<Result<_, Error>>()?;
        Ok(Self {
            round_seed: manifest.round_seed,
            contents,
            window: counts.iter().map(|count| window_length(*count as usize)).max().unwrap_or(0),
            blocks: Blocks::read(&manifest.round_seed, filters, copying, bucket_size),
        })
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl BloomMapping {
    /// Bytes that the filters take.
    pub(crate) fn filter_memory(&self) -> usize {
        self.blocks.memory()
    }
}

impl BloomMapping {
    /// The positions at which a label may stand in a content that would hold a copy of its box, ascending. Where a code
    /// reads sums of boxes, the summands stand at the position of the copy ([`pbc::BatchCode::holder`]).
    ///
    /// A label that was deposited is found in every bucket that holds a copy of it, but for a chance below 2^-29 that it
    /// stands outside the window searched; one that was not may seem to be there. Of a wanted label the positions are
    /// secret: no copy of them is left behind, as a vector leaves that grows. That this takes as long as there are hits is for
    /// those who may know.
    #[must_use]
    pub fn hits(&self, code: &dyn HashedCode, content: usize, label: &Label) -> Zeroizing<Vec<usize>> {
        let sought = self.sought(content, code.order(&label.0), self.fingerprint(label));
        let hits = self.search(&Zeroizing::new(vec![sought]));
        let mut positions = Zeroizing::new(Vec::new());
        // Room for all, so that it never moves.
        positions.reserve_exact(self.window);
        positions.extend((0..hits.count(0)).map(|chosen| hits.position(0, chosen) as usize));
        positions
    }

    /// What a filter holds of a label beside the position.
    pub(super) fn fingerprint(&self, label: &Label) -> u64 {
        fingerprint(&self.round_seed, label)
    }

    /// Where an element with this order and fingerprint may stand in a content.
    pub(super) fn sought(&self, content: usize, order: u64, fingerprint: u64) -> Element {
        // A code has at most 2^16 contents.
        let content = content as u32;
        let (mut number, mut count, mut half) = (NONE, 0, 0);
        for (here, of) in (0..).zip(&self.contents) {
            let is_here = equal(of.number, black_box(content));
            number = select(is_here, here, number);
            count |= of.count & is_here;
            half |= of.half_window & is_here;
        }
        let (first, after) = window(order, count, half);
        Element { number, fingerprint, first, after }
    }

    /// Where they seem to stand, which none of the branches and addresses tells.
    pub(super) fn search(&self, sought: &[Element]) -> Hits {
        self.blocks.search(sought, self.window)
    }
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
