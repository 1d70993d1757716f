//! One check of an answer, as every participant makes them now and then: a unit's buckets come over the wire, and its answer, and
//! its part of the hint, are computed again.

use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use mpir::{Engines, Parts};
use serde::Serialize;
use sotto_measuring::asking::blocking;
use sotto_measuring::cpu::process_milliseconds;
use sotto_participant::audit::{Digests, Proof, Verdict, judge};
use sotto_protocol::audit::{answer_digest, query_digest};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::unit_hint_digests;

use crate::client::{Client, Exchanged};

/// The unit that is checked.
const UNIT: u16 = 0;

/// What one check came to.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Check {
    /// Digests of all buckets, and the buckets of one unit.
    pub(crate) bytes: u64,
    /// The same and the call for it in the TCP streams, both ways.
    pub(crate) socket: u64,
    /// CPU time of the client, with the digests that are compared, without the download, milliseconds.
    pub(crate) cpu_ms: f64,
}

impl Client {
    /// Checks an answer of the last round. Nothing else may go through its proxy meanwhile.
    ///
    /// # Errors
    /// If the answer is not right, or it cannot be checked.
    pub(crate) async fn check(&self) -> anyhow::Result<Check> {
        let Exchanged { manifest: signed, sizes, hint, query, answers, receipt } =
            self.last.as_ref().context("no round was answered")?;
        let manifest = signed.verify(&self.manifest_key)?;
        let unit = usize::from(UNIT);
        let boxes = BOX_BYTES * manifest.bucket_size as usize * sizes.units.range(unit).len();
        let list = 32 * usize::from(manifest.buckets);

        let before = self.proxy.traffic();
        let mut boxes = self.session.unit(manifest.round, UNIT, list + boxes).await?;
        let carried = self.proxy.traffic() - before;
        let (bytes, socket) = (boxes.len() as u64, carried.up + carried.down);

        let list = boxes.split_to(list);
        let parts = |of: &Parts, all: &Bytes| -> Vec<Bytes> {
            (0..sizes.units.count()).map(|unit| all.slice(of.range(unit))).collect()
        };
        let number = |unit: usize| u16::try_from(sizes.request.number(unit)).unwrap_or(u16::MAX);
        let (queries, answers) = (parts(&sizes.request, query), parts(&sizes.answer, answers));
        let hints = unit_hint_digests(sizes.hints(hint)?);
        let proof = Proof {
            announced: self.session.announced().clone(),
            manifest: signed.clone().with_segment(None),
            receipt: receipt[..].try_into().context("the receipt is none")?,
            unit: UNIT,
            digests: Digests {
                buckets: list.as_chunks::<32>().0.to_vec(),
                queries: (0..).zip(&queries).map(|(unit, query)| query_digest(number(unit), query)).collect(),
                answers: (0..).zip(&answers).map(|(number, answer)| answer_digest(number, answer)).collect(),
            },
            keys: self.keys.clone(),
            query: queries[unit].clone(),
            answer: answers[unit].clone(),
            boxes,
            hints: Some(hints),
        };
        let root = self.session.root_key();
        let started = process_milliseconds();
        let engines = Engines::only(Arc::clone(&self.engine));
        let verdict = blocking(move || judge(&engines, &proof, &root)).await?;
        let cpu_ms = process_milliseconds() - started;
        ensure!(verdict == Verdict::Honest, "unit {UNIT}: {verdict}");
        Ok(Check { bytes, socket, cpu_ms })
    }
}
