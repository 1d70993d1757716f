//! The first of the paper's ways to the oracle: the mapping is downloaded.

use core::fmt;

use crate::hash::{KeyedHash, domain};
use crate::{BatchCode, BucketIndex, Encoding, Error, Oracle};

const FINGERPRINTS: [u8; 32] = domain("sotto/pbc/v1/mapping/fingerprint");
const VERSION: u8 = 1;

/// Bytes of a fingerprint.
const WIDTH: usize = 5;

/// The mapping as fingerprints of keys, in the order of the codewords: whoever downloads it finds every position of a
/// key, without knowing any other key.
///
/// It has 40 bits for each codeword that is a copy, once for all buckets of the same content. A key that is not
/// stored is found in a bucket of `l` codewords with probability `l / 2^40`.
///
/// Layout, little-endian: version, 1 byte; number of contents, 4 bytes; then for each the number of its codewords, 4
/// bytes, and five bytes for each of them, all zeros where the codeword is not a copy.
#[derive(Clone)]
pub struct DownloadedOracle {
    fingerprints: KeyedHash,
    contents: Vec<Vec<[u8; WIDTH]>>,
    copies: usize,
}

impl DownloadedOracle {
    /// What the server publishes: the mapping of an encoding of these keys.
    ///
    /// # Errors
    /// [`Error::Mapping`] if there are not as many keys as elements, or 2^32 codewords in a bucket.
    pub fn encode(encoding: &Encoding, keys: &[&[u8]], seed: &[u8; 32]) -> Result<Vec<u8>, Error> {
        if keys.len() != encoding.elements() {
            return Err(Error::Mapping);
        }
        let of_keys = KeyedHash::new(&FINGERPRINTS, seed).first_words(keys);
        let length = |length: usize| u32::try_from(length).map_err(|_| Error::Mapping);
        let mut encoded = vec![VERSION];
        encoded.extend(length(encoding.contents().len())?.to_le_bytes());
        for content in encoding.contents() {
            encoded.extend(length(content.len())?.to_le_bytes());
            for codeword in content {
                encoded.extend(match codeword.elements() {
                    [element] => fingerprint(of_keys[*element as usize][0]),
                    _ => [0; WIDTH],
                });
            }
        }
        Ok(encoded)
    }

    /// Reads what [`DownloadedOracle::encode`] wrote, for a code with the same seed and buckets of at most `bucket_size`
    /// codewords: a position beyond would be an index that no bucket has.
    ///
    /// # Errors
    /// [`Error::Mapping`] if the bytes are not of that form, a bucket is larger, or the number of contents does not divide the code's number
    /// of buckets.
    pub fn decode(
        encoded: &[u8],
        code: &dyn BatchCode,
        seed: &[u8; 32],
        bucket_size: usize,
    ) -> Result<Self, Error> {
        let (version, mut rest) = encoded.split_first().ok_or(Error::Mapping)?;
        let count = number(&mut rest)?;
        // No number of buckets is a multiple of 0.
        if *version != VERSION || !code.bucket_count().is_multiple_of(count) {
            return Err(Error::Mapping);
        }
        let mut contents = Vec::new();
        for _ in 0..count {
            let length =
                number(&mut rest).ok().filter(|length| *length <= bucket_size).ok_or(Error::Mapping)?;
            let bytes = length.checked_mul(WIDTH).and_then(|bytes| rest.split_at_checked(bytes));
            let (content, after) = bytes.ok_or(Error::Mapping)?;
            contents.push(content.as_chunks::<WIDTH>().0.to_vec());
            rest = after;
        }
        if !rest.is_empty() {
            return Err(Error::Mapping);
        }
        let copies = code.bucket_count() / count;
        Ok(Self { fingerprints: KeyedHash::new(&FINGERPRINTS, seed), contents, copies })
    }
}

fn number(rest: &mut &[u8]) -> Result<usize, Error> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or(Error::Mapping)?;
    *rest = after;
    Ok(u32::from_le_bytes(*bytes) as usize)
}

/// Zeros mark the places without a key.
fn fingerprint(word: u64) -> [u8; WIDTH] {
    let [a, b, c, d, e, ..] = word.to_le_bytes();
    if [a, b, c, d, e] == [0; WIDTH] { [1, 0, 0, 0, 0] } else { [a, b, c, d, e] }
}

impl Oracle for DownloadedOracle {
    /// `None` also if two codewords have the key's fingerprint, as two elements under one key do.
    fn position(&self, _key_number: usize, key: &[u8], bucket: BucketIndex) -> Option<usize> {
        let wanted = fingerprint(self.fingerprints.word(key));
        let content = self.contents.get(bucket.to_usize() / self.copies)?;
        let mut hits = content.iter().enumerate().filter(|(_, fingerprint)| **fingerprint == wanted);
        let (position, _) = hits.next()?;
        hits.next().is_none().then_some(position)
    }
}

impl fmt::Debug for DownloadedOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadedOracle").field("contents", &self.contents.len()).finish_non_exhaustive()
    }
}
