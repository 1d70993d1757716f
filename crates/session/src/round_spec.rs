//! What a round is to an engine, from what its server announces.

use mpir::{Engine, Error, Form, RoundSpec};
use sotto_protocol::Round;
use sotto_protocol::deposit::BOX_BYTES;

/// The specification of a round with so many buckets of so many boxes each. Its seed is
/// [`retrieval_seed`](sotto_protocol::Manifest::retrieval_seed) under the root key of the cluster.
///
/// # Errors
/// [`Error`] if the engine has no arrangement for them.
pub fn round_spec(
    engine: &dyn Engine,
    seed: [u8; 32],
    round: Round,
    buckets: usize,
    elements: usize,
) -> Result<RoundSpec, Error> {
    let form = Form { buckets, elements, element_bytes: BOX_BYTES };
    Ok(RoundSpec { seed, round: round.0, form, profile: engine.profile(form)? })
}
