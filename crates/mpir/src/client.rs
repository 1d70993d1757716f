//! The client's side: one query per bucket, wanted or not.

use core::fmt;

use pir_core::Scheme;
use rand_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use crate::uniform::indices;
use crate::{Error, each};

/// A client's secret key, one for all buckets and databases.
pub struct MultiClient<S: Scheme> {
    key: S::ClientKey,
}

impl<S: Scheme> MultiClient<S> {
    /// The client of a seed, always the same one.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self { key: S::client_key(seed) }
    }

    /// The encoded public keys, to be uploaded once for all buckets; always the same bytes.
    pub fn public_keys(&self) -> Vec<u8> {
        S::encode_public_keys(&self.key)
    }

    /// One query per bucket (QUERY), for the element at `targets[i]` of bucket `i` or, where that is `None`, for one
    /// drawn uniformly and afresh.
    ///
    /// The number of queries, their sizes and the amount of randomness drawn for indices do not depend on which
    /// targets there are: an index is drawn for every bucket, and used where none is wanted. Neither do branches and
    /// memory accesses.
    ///
    /// # Errors
    /// [`Error::Engine`] if a target is not below the number of elements of a bucket.
    pub fn multi_query<R: CryptoRng>(
        &self,
        parameters: &S::Parameters,
        targets: &[Option<usize>],
        rng: &mut R,
    ) -> Result<MultiQuery, Error> {
        let elements = S::elements(parameters);
        let indices = indices(targets, elements, rng);
        let mut items: Vec<_> = indices.iter().map(|&index| (parameters, index)).collect();
        let encoded = S::queries(&self.key, &items, rng);
        items.iter_mut().for_each(|(_, index)| index.zeroize());
        Ok(MultiQuery { indices, encoded: encoded? })
    }

    /// The codeword that one bucket's answer holds (EXTRACT).
    ///
    /// # Errors
    /// [`Error::Bucket`] if the query has no such bucket; [`Error::Engine`] if the answer is malformed.
    pub fn extract(
        &self,
        parameters: &S::Parameters,
        query: &MultiQuery,
        bucket: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let index = *query.indices.get(bucket).ok_or(Error::Bucket)?;
        Ok(S::extract(parameters, &self.key, index, answer)?)
    }

    /// The codewords of all buckets, in parallel; those of random elements too, so that the work does not depend on
    /// what was wanted.
    ///
    /// There is one result for each bucket whatever the server sent: a malformed answer spoils no other one, and
    /// unless there is exactly one answer per bucket, all results are [`Error::Count`].
    pub fn multi_extract(
        &self,
        parameters: &S::Parameters,
        query: &MultiQuery,
        answers: &[Vec<u8>],
    ) -> Vec<Result<Vec<u8>, Error>> {
        let expected = query.indices.len();
        if answers.len() != expected {
            return vec![Err(Error::Count { what: "answers", expected, actual: answers.len() }); expected];
        }
        each(expected, &|bucket| self.extract(parameters, query, bucket, &answers[bucket]))
    }
}

impl<S: Scheme> fmt::Debug for MultiClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiClient").field("engine", &S::NAME).finish_non_exhaustive()
    }
}

/// One query per bucket, with what is needed to read the answers.
pub struct MultiQuery {
    /// Secret: what is asked of each bucket.
    indices: Zeroizing<Vec<usize>>,
    encoded: Vec<Vec<u8>>,
}

impl MultiQuery {
    /// The encoded queries, bucket by bucket: what the server gets.
    pub fn encoded(&self) -> &[Vec<u8>] {
        &self.encoded
    }

    /// The encoded queries as they are sent, without what is secret about them, which stays.
    pub(crate) fn take_encoded(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.encoded).concat()
    }
}

impl fmt::Debug for MultiQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiQuery").field("buckets", &self.encoded.len()).finish_non_exhaustive()
    }
}
