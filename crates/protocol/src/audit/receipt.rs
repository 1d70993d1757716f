//! What a server signs of a multi-query and its answers.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::{Error, Round};

/// Bytes of a receipt.
pub const RECEIPT_BYTES: usize = 64;

/// A signature by the manifest key under a [`Statement`].
pub type Receipt = [u8; RECEIPT_BYTES];

const QUERY_DOMAIN: &[u8] = b"sotto/receipt/v1/query\0";
const QUERIES_DOMAIN: &[u8] = b"sotto/receipt/v1/queries\0";
const ANSWER_DOMAIN: &[u8] = b"sotto/receipt/v1/answer\0";
const ANSWERS_DOMAIN: &[u8] = b"sotto/receipt/v1/answers\0";
const SIGNATURE_DOMAIN: &[u8] = b"sotto/receipt/v1/signature\0";

/// Digest of the query to one bucket: SHA-256 over a domain, the bucket's number, and the query.
#[must_use]
pub fn query_digest(bucket: u16, query: &[u8]) -> [u8; 32] {
    digest(QUERY_DOMAIN, bucket, query)
}

/// Digest of one bucket's answer, likewise.
#[must_use]
pub fn answer_digest(bucket: u16, answer: &[u8]) -> [u8; 32] {
    digest(ANSWER_DOMAIN, bucket, answer)
}

/// That certain queries, under certain public keys, in a certain round, were answered in a certain way.
///
/// Queries and answers stand in it by the digest of their digests, so that who holds these can show one query and one
/// answer without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    round: Round,
    manifest: [u8; 32],
    keys: [u8; 32],
    queries: [u8; 32],
    answers: [u8; 32],
}

impl Statement {
    /// Of a round, the [`digest`](crate::Manifest::digest) of its manifest, SHA-256 of the public keys as they were
    /// uploaded, and [`query_digest`] and [`answer_digest`] of every bucket, ascending.
    #[must_use]
    pub fn new(
        round: Round,
        manifest: [u8; 32],
        keys: [u8; 32],
        queries: &[[u8; 32]],
        answers: &[[u8; 32]],
    ) -> Self {
        let all = |domain, digests: &[[u8; 32]]| {
            Sha256::new_with_prefix(domain).chain_update(digests.as_flattened()).finalize().into()
        };
        let (queries, answers) = (all(QUERIES_DOMAIN, queries), all(ANSWERS_DOMAIN, answers));
        Self { round, manifest, keys, queries, answers }
    }

    /// Signs it with the manifest key.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> Receipt {
        key.sign(&self.signed()).to_bytes()
    }

    /// Whether the holder of the manifest key signed it (strict verification, RFC 8032 without small-order keys).
    ///
    /// # Errors
    /// [`Error::Receipt`] if not.
    pub fn verify(&self, manifest_key: &[u8; 32], receipt: &Receipt) -> Result<(), Error> {
        let key = VerifyingKey::from_bytes(manifest_key).map_err(|_| Error::Receipt)?;
        key.verify_strict(&self.signed(), &Signature::from_bytes(receipt)).map_err(|_| Error::Receipt)
    }

    /// Domain, round, and digests of the manifest, the keys, the queries and the answers: 163 bytes.
    fn signed(&self) -> Vec<u8> {
        let Self { round, manifest, keys, queries, answers } = self;
        [SIGNATURE_DOMAIN, &round.0.to_le_bytes(), manifest, keys, queries, answers].concat()
    }
}

fn digest(domain: &[u8], bucket: u16, bytes: &[u8]) -> [u8; 32] {
    Sha256::new_with_prefix(domain).chain_update(bucket.to_le_bytes()).chain_update(bytes).finalize().into()
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{Statement, answer_digest, query_digest};
    use crate::{Error, Round};

    #[test]
    fn a_receipt_is_for_one_statement_alone() {
        let key = SigningKey::from_bytes(&[5; 32]);
        let public = key.verifying_key().to_bytes();
        let (queries, answers) = ([[3; 32], [4; 32]], [[5; 32], [6; 32]]);
        let statement = Statement::new(Round(7), [1; 32], [2; 32], &queries, &answers);
        let receipt = statement.sign(&key);
        assert_eq!(statement.verify(&public, &receipt), Ok(()));
        for other in [
            Statement::new(Round(8), [1; 32], [2; 32], &queries, &answers),
            Statement::new(Round(7), [0; 32], [2; 32], &queries, &answers),
            Statement::new(Round(7), [1; 32], [0; 32], &queries, &answers),
            Statement::new(Round(7), [1; 32], [2; 32], &answers, &queries),
            Statement::new(Round(7), [1; 32], [2; 32], &queries, &queries),
            Statement::new(Round(7), [1; 32], [2; 32], &[queries[1], queries[0]], &answers),
        ] {
            assert_eq!(other.verify(&public, &receipt), Err(Error::Receipt));
        }
        let mut bent = receipt;
        bent[9] ^= 1;
        assert_eq!(statement.verify(&public, &bent), Err(Error::Receipt));
        assert_eq!(statement.verify(&[9; 32], &receipt), Err(Error::Receipt));
    }

    #[test]
    fn queries_and_answers_of_different_buckets_have_different_digests() {
        let mut all = vec![query_digest(0, b"x"), query_digest(1, b"x"), query_digest(0, b"y")];
        all.extend([answer_digest(0, b"x"), answer_digest(1, b"x")]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
    }
}
