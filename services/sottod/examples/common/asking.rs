//! Clients that deposit what nobody can read, and retrieve one box of a round, with the calls and the parts of people's clients.

use bytes::Bytes;
use mpir::{EngineClient, Request};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, Lookup, Manifest, SealedBox};
use sotto_session::{Session, round_spec};
use sotto_wire::Failure;

/// A box under a label, both of random bytes.
pub(crate) fn deposit(rng: &mut StdRng) -> Deposit {
    let mut sealed = [0; BOX_BYTES];
    rng.fill_bytes(&mut sealed);
    Deposit { label: Label(rng.random()), sealed: SealedBox(sealed) }
}

/// The mapping of a round.
pub(crate) async fn mapping(session: &Session, manifest: &Manifest) -> Result<Bytes, Failure> {
    let bytes = BloomMapping::encoded_bytes(manifest.shape(), manifest.bucket_size);
    session.mapping(manifest.round, usize::try_from(bytes).unwrap_or(usize::MAX)).await
}

/// What is asked in a round.
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// The size of all answers.
    pub(crate) answers: usize,
    /// The bucket in which the label is looked for.
    pub(crate) bucket: usize,
}

/// Asks for the box under a label, if the mapping shows it.
pub(crate) fn ask(
    session: &Session,
    client: &mut dyn EngineClient,
    manifest: &Manifest,
    mapping: &BloomMapping,
    label: Label,
    rng: &mut StdRng,
) -> anyhow::Result<Option<Asked>> {
    let code = manifest.code()?;
    let lookup = Lookup::new(&*code, mapping, &[label], rng);
    let Some(bucket) = lookup.readings()[0].buckets.first() else { return Ok(None) };
    let (spec, sizes) = round_spec(&*mpir::sealpir(), &session.root_key(), manifest)?;
    let request = client.ask(spec, lookup.targets(), rng)?;
    Ok(Some(Asked { request, answers: sizes.answer.bytes(), bucket: bucket.to_usize() }))
}
