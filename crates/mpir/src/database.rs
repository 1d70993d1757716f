//! The server's side: one database per bucket.

use pir_core::Scheme;
use rayon::prelude::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::Error;

/// The preprocessed buckets of one batch-coded database.
pub struct MultiDatabase<S: Scheme> {
    parameters: S::Parameters,
    buckets: Vec<S::Database>,
}

impl<S: Scheme> MultiDatabase<S> {
    /// Preprocesses every bucket (SETUP), in parallel.
    ///
    /// A bucket is given as `padded * element_bytes` bytes, as `pbc::Encoding::materialise` makes them. The parameters
    /// are `S::parameters(padded, element_bytes)`, so that a client derives them from the two published numbers.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there is none; [`Error::Engine`] if the engine has no parameters for this shape or a bucket
    /// is of another size.
    pub fn setup(element_bytes: usize, padded: usize, buckets: &[Vec<u8>]) -> Result<Self, Error> {
        if buckets.is_empty() {
            return Err(Error::Bucket);
        }
        let parameters = S::parameters(padded, element_bytes)?;
        let buckets =
            buckets.par_iter().map(|bucket| S::setup(&parameters, bucket)).collect::<Result<_, _>>()?;
        Ok(Self { parameters, buckets })
    }

    /// The parameters common to all buckets.
    pub const fn parameters(&self) -> &S::Parameters {
        &self.parameters
    }

    /// The number `b` of buckets.
    pub const fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Answers one client's queries (ANSWER), in parallel: the `i`-th answer is bucket `i`'s to the `i`-th query.
    ///
    /// # Errors
    /// [`Error::Count`] unless there is exactly one query per bucket; [`Error::Engine`] if one is malformed, and then no
    /// answer at all.
    pub fn answer(&self, keys: &S::PublicKeys, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
        if queries.len() != self.buckets.len() {
            return Err(Error::Count {
                what: "queries",
                expected: self.buckets.len(),
                actual: queries.len(),
            });
        }
        let answer = |(bucket, query): (&S::Database, &&[u8])| S::answer(bucket, keys, query);
        Ok(self.buckets.par_iter().zip(queries).map(answer).collect::<Result<_, _>>()?)
    }

    /// Answers the query to one bucket, for a server that streams answers as they become ready.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there is no such bucket; [`Error::Engine`] if the query is malformed.
    pub fn answer_one(&self, bucket: usize, keys: &S::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let database = self.buckets.get(bucket).ok_or(Error::Bucket)?;
        Ok(S::answer(database, keys, query)?)
    }

    /// Answers several clients' queries to one bucket; an engine may do it in one pass over the bucket.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there is no such bucket; within, an error per malformed query.
    pub fn answer_tile(
        &self,
        bucket: usize,
        queries: &[(&S::PublicKeys, &[u8])],
    ) -> Result<Vec<Result<Vec<u8>, Error>>, Error> {
        let database = self.buckets.get(bucket).ok_or(Error::Bucket)?;
        let answers = S::answer_tile(database, queries);
        Ok(answers.into_iter().map(|answer| answer.map_err(Error::from)).collect())
    }
}

impl<S: Scheme> core::fmt::Debug for MultiDatabase<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MultiDatabase")
            .field("engine", &S::NAME)
            .field("parameters", &self.parameters)
            .field("buckets", &self.buckets.len())
            .finish()
    }
}
