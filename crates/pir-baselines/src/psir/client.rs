//! A client and a server with a state between them that only the client has.

use core::fmt;

use pir_core::{Error, PagePool};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::partition::{Partition, add};
use super::state::{Chosen, State};
use super::{Inner, Shape};

/// What both ends agree on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters<P> {
    pub(super) shape: Shape,
    /// Of the inner engine, for the sums of the parts.
    pub(super) inner: P,
}

impl<P> Parameters<P> {
    /// Size of a request.
    pub(super) fn request_bytes<I: Inner<Parameters = P>>(&self) -> usize {
        self.shape.partition_bytes() + I::query_bytes(&self.inner)
    }
}

/// A client of the inner engine, and its secret.
pub struct Client<I: Inner> {
    parameters: Parameters<I::Parameters>,
    key: I::ClientKey,
}

/// What alone reads the answer to a request.
pub struct Answer {
    part: usize,
    sum: Zeroizing<Vec<u8>>,
}

impl<I: Inner> fmt::Debug for Client<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl<I: Inner> Client<I> {
    /// The client of a seed, always the same one.
    ///
    /// # Errors
    /// [`Error::Shape`] if the inner engine has no parameters for sums of such records.
    pub fn new(shape: &Shape, seed: &[u8; 32]) -> Result<Self, Error> {
        let parameters = Parameters { shape: *shape, inner: of_parts::<I>(shape)? };
        Ok(Self { parameters, key: I::client_key(seed) })
    }

    /// The public keys of the inner engine, to be uploaded once.
    #[must_use]
    pub fn public_keys(&self) -> Vec<u8> {
        I::encode_public_keys(&self.key)
    }

    /// Asks for a record, with the next block that does not hold it; `None` if there is none left, and another Init is
    /// needed.
    ///
    /// # Errors
    /// [`Error::Index`] if there is no such record, [`Error::Shape`] if the state is of other records.
    pub fn query<R: CryptoRng>(
        &self,
        state: &mut State,
        index: usize,
        rng: &mut R,
    ) -> Result<Option<(Vec<u8>, Answer)>, Error> {
        if index >= self.parameters.shape.elements() {
            return Err(Error::Index);
        }
        if *state.shape() != self.parameters.shape {
            return Err(Error::Shape("a state of other records"));
        }
        let Some(Chosen { partition, part, sum }) = state.take(index, rng) else { return Ok(None) };
        let mut request = Vec::with_capacity(self.parameters.request_bytes::<I>());
        partition.encode(&mut request);
        let query = I::queries(&self.key, &[(&self.parameters.inner, part)], rng)?.pop();
        request.extend(query.unwrap_or_default());
        Ok(Some((request, Answer { part, sum })))
    }

    /// Reads the record that was asked for.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the answer is none, or one to a client of longer or shorter records.
    pub fn read(&self, asked: Answer, answer: &[u8]) -> Result<Vec<u8>, Error> {
        let mut record = I::extract(&self.parameters.inner, &self.key, asked.part, answer)?;
        if record.len() != asked.sum.len() {
            return Err(Error::Malformed("answer"));
        }
        add(&mut record, &asked.sum);
        Ok(record)
    }
}

/// A server's half: the records as they are.
pub struct Server<'a, I: Inner> {
    parameters: Parameters<I::Parameters>,
    /// What the sums of one request leave, those of another take.
    pool: &'a PagePool,
    records: &'a [u8],
}

impl<I: Inner> fmt::Debug for Server<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl<'a, I: Inner> Server<'a, I> {
    /// A server of these records.
    ///
    /// # Errors
    /// [`Error::Shape`] if they are not as many bytes as the shape says, or as for [`Client::new`].
    pub fn new(shape: &Shape, pool: &'a PagePool, records: &'a [u8]) -> Result<Self, Error> {
        Self::with(Parameters { shape: *shape, inner: of_parts::<I>(shape)? }, pool, records)
    }

    pub(super) fn with(
        parameters: Parameters<I::Parameters>,
        pool: &'a PagePool,
        records: &'a [u8],
    ) -> Result<Self, Error> {
        let shape = parameters.shape;
        let right = shape.elements() * shape.element_bytes() == records.len();
        right.then_some(Self { parameters, pool, records }).ok_or(Error::Shape("size of the database"))
    }

    /// The sums of the parts that a request asks for, and its query to the inner engine.
    pub(super) fn sums<'r>(&self, request: &'r [u8]) -> Result<(Vec<u8>, &'r [u8]), Error> {
        let Parameters { shape, .. } = &self.parameters;
        if request.len() != self.parameters.request_bytes::<I>() {
            return Err(Error::Malformed("request"));
        }
        let (partition, query) =
            request.split_at_checked(shape.partition_bytes()).ok_or(Error::Malformed("request"))?;
        Ok((Partition::decode(shape, partition)?.sums(self.records), query))
    }

    /// The inner engine's answer from these sums.
    pub(super) fn answer_sums(
        &self,
        sums: &[u8],
        query: &[u8],
        keys: &I::PublicKeys,
    ) -> Result<Vec<u8>, Error> {
        I::answer(&I::setup_in(self.pool, &self.parameters.inner, sums)?, keys, query)
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is none.
    pub fn answer(&self, keys: &I::PublicKeys, request: &[u8]) -> Result<Vec<u8>, Error> {
        let (sums, query) = self.sums(request)?;
        self.answer_sums(&sums, query, keys)
    }
}

/// The inner engine's parameters where nobody announces any.
fn of_parts<I: Inner>(shape: &Shape) -> Result<I::Parameters, Error> {
    match I::INSECURE_PROFILE {
        Some(profile) => I::of_parts(shape, &profile),
        None => I::parameters_for_one_query(shape.parts(), shape.element_bytes()),
    }
}
