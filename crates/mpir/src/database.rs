//! The server's side: one database per bucket.

use pir_core::dimensions::Stage;
use pir_core::{PagePool, Scheme};

use crate::{Error, each, parameters};

/// The preprocessed buckets of one batch-coded database.
pub struct MultiDatabase<S: Scheme> {
    parameters: S::Parameters,
    /// The different contents; bucket `i` has content `i / copies`.
    contents: Vec<S::Database>,
    copies: usize,
}

impl<S: Scheme> MultiDatabase<S> {
    /// Preprocesses every bucket (SETUP), in parallel.
    ///
    /// A bucket is given as `padded * element_bytes` bytes, as `pbc::Encoding::materialise` makes them. The parameters
    /// are those of [`crate::parameters`], so that a client derives them from published numbers.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there is none; [`Error::Engine`] if the engine has no parameters for this shape or a bucket
    /// is of another size.
    pub fn setup(element_bytes: usize, padded: usize, buckets: &[Vec<u8>]) -> Result<Self, Error> {
        Self::setup_copies(element_bytes, padded, buckets, 1)
    }

    /// The same for a code that has several buckets of one content: `contents` and `copies` are those of
    /// [`pbc::Encoding::contents`], and every content is preprocessed, and held, only once.
    ///
    /// # Errors
    /// As for [`MultiDatabase::setup`]; [`Error::Bucket`] also if there are no copies.
    pub fn setup_copies(
        element_bytes: usize,
        padded: usize,
        contents: &[Vec<u8>],
        copies: usize,
    ) -> Result<Self, Error> {
        let buckets = contents.len().checked_mul(copies).ok_or(Error::Bucket)?;
        let parameters = parameters::<S>(buckets, padded, element_bytes)?;
        Self::with_parameters(&PagePool::default(), parameters, contents, copies)
    }

    /// The same with the given parameters, in memory of this pool.
    ///
    /// # Errors
    /// As for [`MultiDatabase::setup_copies`].
    pub fn with_parameters(
        pool: &PagePool,
        parameters: S::Parameters,
        contents: &[Vec<u8>],
        copies: usize,
    ) -> Result<Self, Error> {
        if contents.len().checked_mul(copies).is_none_or(|buckets| buckets == 0) {
            return Err(Error::Bucket);
        }
        let setup = |number: usize| S::setup_in(pool, &parameters, &contents[number]);
        let contents = each(contents.len(), &setup).into_iter().collect::<Result<_, _>>()?;
        Ok(Self { parameters, contents, copies })
    }

    /// The parameters common to all buckets.
    pub const fn parameters(&self) -> &S::Parameters {
        &self.parameters
    }

    /// The number `b` of buckets.
    pub const fn bucket_count(&self) -> usize {
        // Checked when it was set up.
        self.contents.len() * self.copies
    }

    /// Size in memory of all different contents, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.contents.iter().map(S::database_bytes).sum()
    }

    fn bucket(&self, bucket: usize) -> Result<&S::Database, Error> {
        self.contents.get(bucket / self.copies).ok_or(Error::Bucket)
    }

    /// Answers one client's queries (ANSWER), in parallel: the `i`-th answer is bucket `i`'s to the `i`-th query.
    ///
    /// # Errors
    /// [`Error::Count`] unless there is exactly one query per bucket; [`Error::Engine`] if one is malformed, and then no
    /// answer at all.
    pub fn answer(&self, keys: &S::PublicKeys, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
        let expected = self.bucket_count();
        if queries.len() != expected {
            return Err(Error::Count { what: "queries", expected, actual: queries.len() });
        }
        each(expected, &|bucket| self.answer_one(bucket, keys, queries[bucket])).into_iter().collect()
    }

    /// Answers the query to one bucket, for a server that streams answers as they become ready.
    ///
    /// # Errors
    /// [`Error::Bucket`] if there is no such bucket; [`Error::Engine`] if the query is malformed.
    pub fn answer_one(&self, bucket: usize, keys: &S::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let database = self.bucket(bucket)?;
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
        self.answer_observed(bucket, queries, &mut |_| ())
    }

    /// [`MultiDatabase::answer_tile`], telling `observe` whenever a stage has ended for the whole tile.
    ///
    /// # Errors
    /// As for [`MultiDatabase::answer_tile`].
    pub fn answer_observed(
        &self,
        bucket: usize,
        queries: &[(&S::PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Result<Vec<Result<Vec<u8>, Error>>, Error> {
        let answers = S::answer_observed(self.bucket(bucket)?, queries, observe);
        Ok(answers.into_iter().map(|answer| answer.map_err(Error::from)).collect())
    }
}

impl<S: Scheme> core::fmt::Debug for MultiDatabase<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MultiDatabase")
            .field("engine", &S::NAME)
            .field("parameters", &self.parameters)
            .field("buckets", &self.bucket_count())
            .finish()
    }
}
