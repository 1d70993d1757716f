//! Clients that deposit what nobody can read, and retrieve one box of a round, with the calls and the parts of people's clients:
//! by its label, or by the slot of who deposited it.

use bytes::Bytes;
use mpir::{EngineClient, Request};
use pbc::{BatchCode as _, Oracle as _, PartitionedCode};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::table::SENT_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, Lookup, Manifest, OwnSlot, SealedBox};
use sotto_session::{Session, round_spec};
use sotto_wire::{Failure, convert};

/// A box under a label, both of random bytes: as a server stores it, and as it is sent. With a slot, a part of the label is
/// the knock.
pub(crate) fn deposit(rng: &mut StdRng, slot: Option<&OwnSlot>) -> (Deposit, Bytes) {
    let mut sealed = [0; BOX_BYTES];
    rng.fill_bytes(&mut sealed);
    let deposit = Deposit { label: Label(rng.random()), sealed: SealedBox(sealed) };
    let sent = Bytes::copy_from_slice(&deposit.encode());
    let Some(slot) = slot else { return (deposit, sent) };
    let sent = sent.slice(sent.len() - SENT_BYTES..);
    let stored = convert::deposit_in_table(&sent, slot.number);
    (stored.unwrap_or(deposit), sent)
}

/// The mapping of a round; no bytes, and no call, with slots.
pub(crate) async fn mapping(session: &Session, manifest: &Manifest) -> Result<Bytes, Failure> {
    session.mapping(manifest.round, usize::try_from(manifest.mapping_bytes()).unwrap_or(usize::MAX)).await
}

/// What is asked in a round.
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// The size of all answers.
    pub(crate) answers: usize,
    /// The bucket in which the label is looked for.
    pub(crate) bucket: usize,
}

/// Asks for a box, if the mapping shows its label, or for what lies in the slot under which it is stored.
pub(crate) fn ask(
    session: &Session,
    client: &mut dyn EngineClient,
    manifest: &Manifest,
    mapping: &[u8],
    wanted: &Deposit,
    rng: &mut StdRng,
) -> anyhow::Result<Option<Asked>> {
    let planned = if manifest.code.has_slots() {
        place(manifest, wanted, rng)?
    } else {
        let mapping = BloomMapping::decode(mapping, manifest)?;
        let lookup = Lookup::new(&*manifest.code()?, &mapping, &[wanted.label], rng);
        let bucket = lookup.readings()[0].buckets().first().map(|bucket| bucket.to_usize());
        bucket.map(|bucket| (bucket, lookup.targets().to_vec()))
    };
    let Some((bucket, targets)) = planned else { return Ok(None) };
    let (spec, sizes) = round_spec(&*mpir::sealpir(), &session.root_key(), manifest)?;
    let request = client.ask(spec, &targets, rng)?;
    Ok(Some(Asked { request, answers: sizes.answer.bytes(), bucket }))
}

/// From which bucket a slot is read, and what is read in all.
fn place(
    manifest: &Manifest,
    wanted: &Deposit,
    rng: &mut StdRng,
) -> anyhow::Result<Option<(usize, Vec<Option<usize>>)>> {
    let code = manifest.slot_code()?;
    let slot: [u8; 4] = core::array::from_fn(|at| wanted.label.0[at]);
    let key = PartitionedCode::key(u32::from_le_bytes(slot).into());
    let schedule = code.schedule_drawn(&[&key], &mut || rng.next_u64());
    let Some(bucket) = schedule.assignment(0).first().copied() else { return Ok(None) };
    let mut targets = vec![None; manifest.buckets.into()];
    targets[bucket.to_usize()] = code.position(0, &key, bucket);
    Ok(Some((bucket.to_usize(), targets)))
}
