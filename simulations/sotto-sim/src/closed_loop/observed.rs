//! An engine that counts what the server does with it.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, PagePool, Scheme};
use rand::CryptoRng;

use crate::engine::{Engine, StageTimes};

/// What an engine has done in this process, and what it holds.
pub(super) static METER: Meter = Meter::new();

/// Times are CPU time of the threads that did the work, nanoseconds.
pub(super) struct Meter {
    expand: AtomicU64,
    first_dimension: AtomicU64,
    rest: AtomicU64,
    answers: AtomicU64,
    database_bytes: AtomicU64,
}

/// What the meter shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) expand_ms: f64,
    pub(super) first_dimension_ms: f64,
    pub(super) rest_ms: f64,
    pub(super) answers: u64,
    /// Of all prepared buckets there are now.
    pub(super) database_bytes: u64,
}

impl Meter {
    const fn new() -> Self {
        Self {
            expand: AtomicU64::new(0),
            first_dimension: AtomicU64::new(0),
            rest: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            database_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn read(&self) -> Reading {
        let milliseconds = |time: &AtomicU64| time.load(Ordering::Relaxed) as f64 / 1e6;
        Reading {
            expand_ms: milliseconds(&self.expand),
            first_dimension_ms: milliseconds(&self.first_dimension),
            rest_ms: milliseconds(&self.rest),
            answers: self.answers.load(Ordering::Relaxed),
            database_bytes: self.database_bytes.load(Ordering::Relaxed),
        }
    }

    fn answered(&self, times: StageTimes, answers: usize) {
        let StageTimes { expand, first_dimension, total } = times;
        let stages = [
            (&self.expand, expand),
            (&self.first_dimension, first_dimension),
            (&self.rest, total - expand - first_dimension),
        ];
        for (stage, milliseconds) in stages {
            stage.fetch_add((milliseconds.max(0.0) * 1e6) as u64, Ordering::Relaxed);
        }
        self.answers.fetch_add(answers as u64, Ordering::Relaxed);
    }
}

/// The engine `E`, under its own name and with its own bytes, with [`METER`] running.
pub(super) struct Observed<E>(PhantomData<fn() -> E>);

/// A prepared database whose bytes are counted for as long as it is there.
pub(super) struct Held<D> {
    database: D,
    bytes: u64,
}

impl<D> Drop for Held<D> {
    fn drop(&mut self) {
        METER.database_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<E: Engine> Scheme for Observed<E> {
    const NAME: &'static str = E::NAME;

    type Parameters = E::Parameters;
    type Database = Held<E::Database>;
    type ClientKey = E::ClientKey;
    type PublicKeys = E::PublicKeys;

    fn parameters(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        E::parameters(elements, element_bytes)
    }

    fn parameters_for_one_query(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        E::parameters_for_one_query(elements, element_bytes)
    }

    fn profile(parameters: &Self::Parameters) -> [u8; PROFILE_BYTES] {
        E::profile(parameters)
    }

    fn with_profile(
        elements: usize,
        element_bytes: usize,
        profile: &[u8; PROFILE_BYTES],
    ) -> Result<Self::Parameters, Error> {
        E::with_profile(elements, element_bytes, profile)
    }

    fn security_bits(parameters: &Self::Parameters) -> u32 {
        E::security_bits(parameters)
    }

    fn failure_log2(parameters: &Self::Parameters) -> f64 {
        E::failure_log2(parameters)
    }

    fn elements(parameters: &Self::Parameters) -> usize {
        E::elements(parameters)
    }

    fn query_bytes(parameters: &Self::Parameters) -> usize {
        E::query_bytes(parameters)
    }

    fn answer_bytes(parameters: &Self::Parameters) -> usize {
        E::answer_bytes(parameters)
    }

    fn public_keys_bytes() -> usize {
        E::public_keys_bytes()
    }

    fn client_key(seed: &[u8; 32]) -> Self::ClientKey {
        E::client_key(seed)
    }

    fn encode_public_keys(key: &Self::ClientKey) -> Vec<u8> {
        E::encode_public_keys(key)
    }

    fn decode_public_keys(bytes: &[u8]) -> Result<Self::PublicKeys, Error> {
        E::decode_public_keys(bytes)
    }

    fn setup_in(
        pool: &PagePool,
        parameters: &Self::Parameters,
        elements: &[u8],
    ) -> Result<Self::Database, Error> {
        let database = E::setup_in(pool, parameters, elements)?;
        let bytes = E::database_bytes(&database) as u64;
        METER.database_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Held { database, bytes })
    }

    fn queries<R: CryptoRng>(
        key: &Self::ClientKey,
        items: &[(&Self::Parameters, usize)],
        rng: &mut R,
    ) -> Result<Vec<Vec<u8>>, Error> {
        E::queries(key, items, rng)
    }

    fn answer(database: &Self::Database, keys: &Self::PublicKeys, query: &[u8]) -> Result<Vec<u8>, Error> {
        let mut answers = Self::answer_tile(database, &[(keys, query)]);
        answers.pop().unwrap_or(Err(Error::Malformed("query")))
    }

    fn answer_tile(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
    ) -> Vec<Result<Vec<u8>, Error>> {
        let mut times = StageTimes::default();
        let answers = times.observe::<E>(&database.database, queries);
        METER.answered(times, queries.len());
        answers
    }

    fn extract(
        parameters: &Self::Parameters,
        key: &Self::ClientKey,
        index: usize,
        answer: &[u8],
    ) -> Result<Vec<u8>, Error> {
        E::extract(parameters, key, index, answer)
    }
}
