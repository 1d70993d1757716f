//! Binary data as a string that people copy: a prefix, then lower-case base32 of the bytes and a 4-byte checksum.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::base32::BASE32;
use crate::error::InputError;
use crate::{Error, domain};

const CHECKSUM_BYTES: usize = 4;

/// How many characters stand behind the prefix for so many bytes.
pub(crate) const fn characters(bytes: usize) -> usize {
    ((bytes + CHECKSUM_BYTES) * 8).div_ceil(5)
}

/// `prefix` and the base32 of `bytes | checksum`; the checksum covers the prefix too.
pub(crate) fn encode(prefix: &str, bytes: &[u8]) -> Zeroizing<String> {
    let mut checked = Zeroizing::new(bytes.to_vec());
    checked.extend(checksum(prefix, bytes));
    let text = Zeroizing::new(BASE32.encode(&checked));
    Zeroizing::new([prefix, &text].concat())
}

/// The bytes, from what [`encode`] wrote; blanks around it and the case of letters do not matter.
///
/// # Errors
/// [`Error::Input`] with one of the two reasons given: another kind of string; a typing error.
pub(crate) fn decode(
    prefix: &str,
    text: &str,
    other_kind: InputError,
    mistyped: InputError,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let text = Zeroizing::new(text.trim().to_ascii_lowercase());
    let symbols = text.strip_prefix(prefix).ok_or(Error::Input(other_kind))?;
    let mistyped = Error::Input(mistyped);
    let mut bytes = Zeroizing::new(BASE32.decode(symbols.as_bytes()).map_err(|_| mistyped.clone())?);
    let length = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or_else(|| mistyped.clone())?;
    let (content, check) = bytes.split_at(length);
    if checksum(prefix, content) != check {
        return Err(mistyped);
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn checksum(prefix: &str, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest: [u8; 32] = Sha256::new_with_prefix(domain::STRING_CHECKSUM)
        .chain_update([0])
        .chain_update(prefix)
        .chain_update([0])
        .chain_update(bytes)
        .finalize()
        .into();
    core::array::from_fn(|i| digest[i])
}
