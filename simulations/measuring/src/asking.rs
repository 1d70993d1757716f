//! What clients that measure deposit and ask: what `sotto` does with the labels of contacts, with the same parts.

use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use mpir::{EngineClient, Pending, Request, RoundSpec};
use pbc::BatchCode;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::mapping::{Outcome, Places, Reading, Sought};
use sotto_protocol::table::SENT_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Lookup, Manifest, Table};
use tokio::sync::oneshot;

/// A deposit as it is sent: on a server with slots, a part of the label serves as the knock.
pub fn sent(deposit: &Deposit, slots: bool) -> Vec<u8> {
    let encoded = deposit.encode();
    let label_bytes = encoded.len() - BOX_BYTES;
    let sent_label = if slots { SENT_BYTES - BOX_BYTES } else { label_bytes };
    [&encoded[..sent_label], &encoded[label_bytes..]].concat()
}

/// A multi-query, with what is needed to judge its answers.
pub struct Asked {
    pending: Box<dyn Pending>,
    code: Box<dyn BatchCode>,
    readings: Vec<Reading>,
    wanted: Vec<Deposit>,
    places: Option<Places>,
}

/// A multi-query that is asked again in the rounds of an epoch, and what it was made for.
pub struct Standing {
    /// As it was sent.
    pub query: Bytes,
    /// Its SHA-256, by which it is named in the other rounds.
    pub digest: [u8; 32],
    spec: RoundSpec,
    pending: Box<dyn Pending>,
    places: Places,
}

impl Standing {
    /// What was asked, if it is to be asked again.
    ///
    /// # Errors
    /// If the engine's queries do not stand, or nothing was asked in a table.
    pub fn new(spec: RoundSpec, query: &Bytes, asked: Asked) -> anyhow::Result<(Arc<Self>, Asked)> {
        let again = asked.pending.again(&spec).context("an engine whose queries do not stand")?;
        let places = asked.places.clone().context("no table")?;
        let digest = Sha256::digest(query).into();
        let standing = Self { query: query.clone(), digest, spec, pending: asked.pending, places };
        Ok((Arc::new(standing), Asked { pending: again, ..asked }))
    }

    /// What is read in another round; nothing if that is not to be asked in the same bytes.
    ///
    /// # Errors
    /// If the round's table does not have the slots that are wanted.
    pub fn again(
        &self,
        spec: &RoundSpec,
        manifest: &Manifest,
        wanted: Vec<Deposit>,
    ) -> anyhow::Result<Option<Asked>> {
        let (Some(table), true) = (manifest.table(), self.spec.asks_as(spec)) else { return Ok(None) };
        let pending = self.pending.again(spec).context("an engine whose queries do not stand")?;
        let sought = sought(table, &wanted)?;
        let (code, readings) = (Box::new(manifest.slot_code()?), self.places.readings(&sought));
        Ok(Some(Asked { pending, code, readings, wanted, places: None }))
    }
}

/// Looks the wanted labels or slots up and asks for them: what `sotto_protocol::Client::lookup` does with the labels of contacts,
/// with the same parts. The request's bytes come first.
///
/// # Errors
/// If the mapping is none of this round, a slot is outside of its table, or the engine refuses the round.
pub fn ask(
    pir: &Mutex<Box<dyn EngineClient>>,
    spec: RoundSpec,
    manifest: &Manifest,
    mapping: &[u8],
    wanted: Vec<Deposit>,
    seed: [u8; 32],
) -> anyhow::Result<(Bytes, Asked)> {
    let mut rng = StdRng::from_seed(seed);
    let (code, lookup): (Box<dyn BatchCode>, _) = match manifest.table() {
        Some(table) => {
            let code = manifest.slot_code()?;
            let lookup = Lookup::in_table(&code, &sought(table, &wanted)?, &mut rng);
            (Box::new(code), lookup)
        }
        None => {
            let mapping = BloomMapping::decode(mapping, manifest)?;
            let code = manifest.code()?;
            let labels: Vec<_> = wanted.iter().map(|deposit| deposit.label).collect();
            let lookup = Lookup::new(&*code, &mapping, &labels, &mut rng);
            (code, lookup)
        }
    };
    let readings = lookup.readings().to_vec();
    let mut pir = pir.lock().map_err(|_| anyhow!("an earlier query failed"))?;
    let Request { bytes, pending } = pir.ask(spec, lookup.targets(), &mut rng)?;
    let places = lookup.places().cloned();
    Ok((bytes.into(), Asked { pending, code, readings, wanted, places }))
}

fn sought(table: Table, wanted: &[Deposit]) -> anyhow::Result<Vec<Sought>> {
    wanted.iter().map(|deposit| place(table, deposit)).collect()
}

/// Where the box of the slot is that a deposit's label tells.
fn place(table: Table, deposit: &Deposit) -> anyhow::Result<Sought> {
    let slot = u32::from_le_bytes(core::array::from_fn(|at| deposit.label.0[at]));
    let place = table.place(slot).context("a slot that the table does not have")?;
    Ok(Sought { place, is_known: true })
}

impl Asked {
    /// Extracts all buckets and compares what was wanted with what was deposited: what the mapping says of each, and whether
    /// its box came back, bit by bit.
    pub fn judge(self, hint: &Bytes, answer: &Bytes) -> Vec<(Deposit, Outcome, bool)> {
        let elements = self.pending.read(hint, answer);
        let elements: Option<Vec<&[u8]>> = elements.iter().map(|element| element.as_deref().ok()).collect();
        let judge = |(wanted, reading): (Deposit, &Reading)| {
            let codewords = elements.as_ref().and_then(|elements| reading.codewords(elements));
            let read: Option<Vec<&[u8]>> = codewords
                .as_ref()
                .map(|codewords| codewords.iter().map(|codeword| codeword.as_slice()).collect());
            let element = read.and_then(|read| self.code.decode(&read).ok());
            let right = element.is_some_and(|bytes| bytes == wanted.sealed.0);
            (wanted, reading.outcome(), right)
        };
        self.wanted.into_iter().zip(&self.readings).map(judge).collect()
    }
}

/// Work of the clients, on as many threads as there are processors: real clients do not share a machine.
///
/// # Errors
/// If it panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    let (reply, result) = oneshot::channel();
    // If nobody waits any more, nobody misses the result.
    let start = move || rayon::spawn(move || drop(reply.send(work())));
    // Not from this thread: it may be the only one of a pool, as that of the figures is, and it waits.
    tokio::spawn(async move { start() }).await.context("a computation was not begun")?;
    result.await.context("a computation has failed")
}
