//! The seam between engines and everybody above them: a round in, bytes out.
//!
//! Client and server half are apart. Whatever an engine keeps between the steps of one round, a secret per query, state, a
//! hint, lives in values that only it can open.

use core::any::Any;
use core::fmt::Debug;
use std::sync::Arc;

use pir_core::dimensions::Stage;
use rand_core::CryptoRng;

use crate::{Assurance, Error, Form, Profile, RoundSpec, Sizes};

/// A PIR engine, as servers and clients see it.
pub trait Engine: Debug + Send + Sync {
    /// Its name in manifests, announcements and reports.
    fn name(&self) -> &'static str;

    /// The arrangement that costs a server least for databases of this form; what it announces.
    ///
    /// # Errors
    /// [`Error::Engine`] if there is none with a failure bound of 2^-40.
    fn profile(&self, form: Form) -> Result<Profile, Error>;

    /// Sizes of all that is sent for a round.
    ///
    /// # Errors
    /// [`Error::Engine`] if the profile is none for this form.
    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error>;

    /// What the announced arrangement promises, computed from it alone.
    ///
    /// # Errors
    /// [`Error::Engine`] if the profile is none for this form.
    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error>;

    /// Size of a client's public keys, the same for all rounds, bytes.
    fn public_keys_bytes(&self) -> usize;

    /// The client of a seed, always the same one. The seed is drawn for a session and never stored: a request of a round
    /// that was asked before a restart is made with another secret.
    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient>;

    /// Reads a client's public keys.
    ///
    /// # Errors
    /// [`Error::Engine`] for a wrong size, version or range.
    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error>;

    /// Prepares all buckets of a round (SETUP), on the threads of the pool that it is called on.
    ///
    /// # Errors
    /// [`Error::Engine`] if the buckets are not those of the specification, or there is no memory.
    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error>;

    /// The answer of one unit to a request, and its part of the hint, as anybody can compute them who has the unit's buckets, one
    /// behind the other, and its part of the request: the same bytes as [`PreparedRound::answer`] and [`PreparedRound::hint`] give, on any
    /// machine. Takes as long as to prepare and answer one unit.
    ///
    /// # Errors
    /// [`Error::Engine`] if the buckets have another size than the specification says, or keys or request are malformed;
    /// [`Error::Bucket`] if there is no such unit.
    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        contents: &[u8],
        public_keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error>;
}

/// What a server should have said of one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recomputed {
    /// To the request.
    pub answer: Vec<u8>,
    /// To everybody: the unit's part, of no bytes with most engines.
    pub hint: Vec<u8>,
}

impl Recomputed {
    /// Of an engine without a hint.
    #[must_use]
    pub fn without_hint(answer: Vec<u8>) -> Self {
        Self { answer, hint: Vec::new() }
    }
}

/// The buckets of a round. Bucket `i` has content `i / copies`: some codes have several buckets of one content, which is
/// prepared, and held, only once.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The different contents, each as many bytes as all elements of a bucket have.
    pub different: &'a [Vec<u8>],
    /// Buckets that follow each other and have the same content.
    pub copies: usize,
}

/// A client's public keys, as an engine has read them.
#[derive(Clone)]
pub struct PublicKeys(Arc<dyn Any + Send + Sync>);

impl PublicKeys {
    /// Keys of some engine.
    pub fn new<K: Any + Send + Sync>(keys: K) -> Self {
        Self(Arc::new(keys))
    }

    /// The keys, if they are of the engine whose they should be.
    ///
    /// # Errors
    /// [`Error::Engine`] if they are another engine's.
    pub fn get<K: Any>(&self) -> Result<&K, Error> {
        self.0.downcast_ref().ok_or(Error::Engine(pir_core::Error::Malformed("public keys")))
    }
}

/// A client's half for one session: it holds the secret.
pub trait EngineClient: Send {
    /// The public keys, to be uploaded once; always the same bytes.
    fn public_keys(&self) -> Vec<u8>;

    /// Everything that is asked in a round, of all buckets at once: of each the element at `targets[i]` or, where that is
    /// `None`, one drawn at random. Size and form of the request do not depend on which targets there are; neither do
    /// branches and memory accesses.
    ///
    /// A round is asked for once: an engine that works under a round's public seed gives away what was wanted if it answers
    /// two different requests of one secret under it.
    ///
    /// # Errors
    /// [`Error::Asked`] if this client has asked for the round before; [`Error::Engine`] if a target is not below the
    /// number of elements, or the profile is none for this form; [`Error::Count`] unless there is one target per bucket.
    fn ask(
        &mut self,
        spec: RoundSpec,
        targets: &[Option<usize>],
        rng: &mut dyn CryptoRng,
    ) -> Result<Request, Error>;

    /// A request for elements drawn at random, to be sent in place of one that was not made in time. Of the two only one may
    /// be sent.
    ///
    /// # Errors
    /// As for [`EngineClient::ask`], but for rounds asked for before.
    fn cover(&self, spec: RoundSpec, rng: &mut dyn CryptoRng) -> Result<Request, Error>;
}

/// What is sent for a round, and what alone can read the answer.
pub struct Request {
    /// What the server gets.
    pub bytes: Vec<u8>,
    /// Secret: what was asked for.
    pub pending: Box<dyn Pending>,
}

/// The secret half of a request.
pub trait Pending: Send + Sync {
    /// Whether a request for elements drawn at random that was made for one round may be sent in another.
    fn serves(&self, spec: &RoundSpec) -> bool;

    /// What reads the answer of another round to the same bytes. Only of a round that [asks](RoundSpec::asks_as) as the one that
    /// the request was made for, and of engines whose queries stand.
    fn again(&self, _spec: &RoundSpec) -> Option<Box<dyn Pending>> {
        None
    }

    /// The elements of all buckets, wanted or not, so that the work does not depend on what was wanted. There is one result
    /// for each bucket whatever the server sent: a malformed answer, or part of the hint, of one unit spoils no other one.
    fn read(self: Box<Self>, hint: &[u8], answer: &[u8]) -> Vec<Result<Vec<u8>, Error>>;
}

/// A query of one client, as the server sees it.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The client's keys.
    pub keys: &'a PublicKeys,
    /// The whole request.
    pub request: &'a [u8],
}

/// A server's half for one round.
pub trait PreparedRound: Send + Sync {
    /// Sizes of all that is sent.
    fn sizes(&self) -> Sizes;

    /// Size in memory, bytes.
    fn memory_bytes(&self) -> usize;

    /// What everybody downloads to read answers, as [`Sizes::hint`] says; nothing for most engines.
    fn hint(&self) -> &[u8] {
        &[]
    }

    /// Answers the part of several clients' requests that concerns one unit, in one pass over its database (ANSWER).
    ///
    /// There is one result per query, in their order; a malformed query spoils no other one.
    fn answer(&self, unit: usize, tile: &[Query<'_>]) -> Vec<Result<Vec<u8>, Error>>;

    /// [`PreparedRound::answer`] for measurements: an engine that works in such stages tells `observe` whenever one has ended
    /// for the whole tile.
    fn answer_observed(
        &self,
        unit: usize,
        tile: &[Query<'_>],
        _observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        self.answer(unit, tile)
    }
}
