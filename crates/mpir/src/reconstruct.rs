//! From the codewords of all buckets to the elements wanted (lines 26 to 30 of paper Figure 8).

use pbc::{BatchCode, Plan};

use crate::Error;

/// For every key of the plan its element, or `None` if the key was deferred; `codewords` is one result per bucket, as
/// [`crate::MultiClient::multi_extract`] returns them.
///
/// A key fails only by the buckets that serve it: with the error of the first of them that failed, with
/// [`Error::Bucket`] if one is missing from `codewords`, or with [`Error::Code`].
pub fn reconstruct(
    code: &dyn BatchCode,
    plan: &Plan,
    codewords: &[Result<Vec<u8>, Error>],
) -> Vec<Option<Result<Vec<u8>, Error>>> {
    let element = |key_number| {
        let buckets = plan.assignment(key_number);
        if buckets.is_empty() {
            return None;
        }
        let codeword = |bucket: &pbc::BucketIndex| match codewords.get(bucket.to_usize()) {
            Some(Ok(codeword)) => Ok(codeword.as_slice()),
            Some(Err(error)) => Err(*error),
            None => Err(Error::Bucket),
        };
        let read: Result<Vec<&[u8]>, Error> = buckets.iter().map(codeword).collect();
        Some(read.and_then(|read| Ok(code.decode(&read)?)))
    };
    (0..plan.keys()).map(element).collect()
}
