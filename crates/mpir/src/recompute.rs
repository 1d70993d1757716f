//! Answering again, as anybody can who has one bucket.

use pir_core::Scheme;

use crate::Error;

/// The answer of one bucket to a query: the same bytes as [`crate::MultiDatabase::answer_one`] gives, on any machine. Bucket,
/// public keys and query are as they are published, uploaded and sent.
///
/// Takes as much time and memory as to set up and answer one bucket.
///
/// # Errors
/// [`Error::Engine`] if the bucket has another size than the parameters say, or the keys or the query are malformed.
pub fn recompute<S: Scheme>(
    parameters: &S::Parameters,
    bucket: &[u8],
    public_keys: &[u8],
    query: &[u8],
) -> Result<Vec<u8>, Error> {
    let keys = S::decode_public_keys(public_keys)?;
    let database = S::setup(parameters, bucket)?;
    Ok(S::answer(&database, &keys, query)?)
}
