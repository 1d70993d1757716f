//! What clients that measure deposit and ask: what `sotto` does with the labels of contacts, with the same parts.

use std::sync::Mutex;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use mpir::{EngineClient, Pending, Request, RoundSpec};
use pbc::{BatchCode, BucketIndex, PartitionedCode};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::mapping::{Outcome, Reading, Targets};
use sotto_protocol::table::SENT_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Lookup, Manifest, Table};
use tokio::sync::oneshot;

/// A deposit as it is sent: on a server with slots, a part of the label serves as the knock.
pub(crate) fn sent(deposit: &Deposit, slots: bool) -> Vec<u8> {
    let encoded = deposit.encode();
    let label_bytes = encoded.len() - BOX_BYTES;
    let sent_label = if slots { SENT_BYTES - BOX_BYTES } else { label_bytes };
    [&encoded[..sent_label], &encoded[label_bytes..]].concat()
}

/// A multi-query, with what is needed to judge its answers.
pub(crate) struct Asked {
    pending: Box<dyn Pending>,
    code: Box<dyn BatchCode>,
    readings: Vec<Reading>,
    wanted: Vec<Deposit>,
}

/// Looks the wanted labels or slots up and asks for them: what `sotto_protocol::Client::lookup` does with the labels of contacts,
/// with the same parts.
pub(crate) fn ask(
    pir: &Mutex<Box<dyn EngineClient>>,
    spec: RoundSpec,
    manifest: &Manifest,
    mapping: &[u8],
    wanted: Vec<Deposit>,
    seed: [u8; 32],
) -> anyhow::Result<(Bytes, Asked)> {
    let mut rng = StdRng::from_seed(seed);
    let (code, targets, readings): (Box<dyn BatchCode>, _, _) = match manifest.table() {
        Some(table) => {
            let code = manifest.slot_code()?;
            let (targets, readings) = places(&code, table, &wanted, &mut rng)?;
            (Box::new(code), targets, readings)
        }
        None => {
            let mapping = BloomMapping::decode(mapping, manifest)?;
            let code = manifest.code()?;
            let labels: Vec<_> = wanted.iter().map(|deposit| deposit.label).collect();
            let lookup = Lookup::new(&*code, &mapping, &labels, &mut rng);
            let readings = lookup.readings().to_vec();
            (code, lookup.into_targets(), readings)
        }
    };
    let mut pir = pir.lock().map_err(|_| anyhow!("an earlier query failed"))?;
    let Request { bytes, pending } = pir.ask(spec, &targets, &mut rng)?;
    Ok((bytes.into(), Asked { pending, code, readings, wanted }))
}

/// Where the slots are whose boxes are wanted, of which each deposit's label tells one.
fn places(
    code: &PartitionedCode,
    table: Table,
    wanted: &[Deposit],
    rng: &mut StdRng,
) -> anyhow::Result<(Targets, Vec<Reading>)> {
    let slot = |deposit: &Deposit| {
        let slot = u32::from_le_bytes(core::array::from_fn(|at| deposit.label.0[at]));
        table.place(slot).context("a slot that the table does not have")
    };
    let slots = wanted.iter().map(slot).collect::<anyhow::Result<Vec<u32>>>()?;
    let keys: Vec<[u8; 8]> = slots.iter().map(|slot| PartitionedCode::key((*slot).into())).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let schedule = code.schedule_drawn(&keys, &mut || rng.next_u64());
    let mut targets = Targets::new(vec![None; code.bucket_count()]);
    let reading = |(number, slot): (usize, &u32)| {
        let buckets = schedule.assignment(number).to_vec();
        for (bucket, position) in code.places(*slot) {
            if buckets.contains(&bucket) {
                targets[bucket.to_usize()] = Some(position);
            }
        }
        let outcome = if buckets.is_empty() { Outcome::Deferred } else { Outcome::Found };
        Reading { outcome, buckets, crowded: (0, 0) }
    };
    let readings = slots.iter().enumerate().map(reading).collect();
    Ok((targets, readings))
}

impl Asked {
    /// Extracts all buckets and compares what was wanted with what was deposited: what the mapping says of each, and whether
    /// its box came back, bit by bit.
    pub(crate) fn judge(self, hint: &Bytes, answer: &Bytes) -> Vec<(Deposit, Outcome, bool)> {
        let codewords = self.pending.read(hint, answer);
        let judge = |(wanted, reading): (Deposit, &Reading)| {
            let codeword = |bucket: &BucketIndex| codewords.get(bucket.to_usize())?.as_deref().ok();
            let read: Option<Vec<&[u8]>> = reading.buckets.iter().map(codeword).collect();
            let element = read.and_then(|read| self.code.decode(&read).ok());
            let right = element.is_some_and(|bytes| bytes == wanted.sealed.0);
            (wanted, reading.outcome, right)
        };
        self.wanted.into_iter().zip(&self.readings).map(judge).collect()
    }
}

/// Work of the clients, on as many threads as there are processors: real clients do not share a machine.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (reply, result) = oneshot::channel();
    // If nobody waits any more, nobody misses the result.
    let start = move || rayon::spawn(move || drop(reply.send(work())));
    // Not from this thread: it may be the only one of a pool, as that of the figures is, and it waits.
    tokio::spawn(async move { start() }).await.context("a computation was not begun")?;
    result.await.context("a computation has failed")
}
