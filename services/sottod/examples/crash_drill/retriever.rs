//! What a client would get: deposits, retrieved privately from a running server.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use mpir::{Engine, EngineClient};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::{BloomMapping, Deposit, Label, Manifest, Round, SignedManifest};
use sotto_session::{Session, round_spec};
use sotto_wire::{Failure, Refused};

use super::child::Child;
use super::client::session;

/// The rounds that a server serves.
pub(super) struct Served {
    rounds: BTreeMap<Round, (Manifest, BloomMapping)>,
}

impl Served {
    /// Asks for the mappings of the newest rounds that are published, up to one that is retired.
    pub(super) async fn ask(
        session: &Session,
        key: &[u8; 32],
        manifests: &BTreeMap<Round, SignedManifest>,
        retained: usize,
    ) -> anyhow::Result<Self> {
        let mut rounds = BTreeMap::new();
        for (round, signed) in manifests.iter().rev().take(retained) {
            let manifest = signed.verify(key)?;
            let bytes = BloomMapping::encoded_bytes(manifest.shape(), manifest.bucket_size);
            let bytes = match session.mapping(*round, usize::try_from(bytes)?).await {
                Ok(bytes) => bytes,
                Err(Failure::Refused(Refused::RoundClosed)) => break,
                Err(failure) => return Err(failure).context("a mapping is refused"),
            };
            let mapping = BloomMapping::decode(&bytes, &manifest)?;
            rounds.insert(*round, (manifest, mapping));
        }
        Ok(Self { rounds })
    }

    pub(super) fn serves(&self, round: Round) -> bool {
        self.rounds.contains_key(&round)
    }

    /// Retrieves deposits by their labels; returns those that do not come back as they were sent. An account may ask once in
    /// a round, so there are as many, from 1 on, as deposits of one round.
    pub(super) async fn retrieve<'a>(
        &self,
        server: &Child,
        wanted: &[&'a (Round, Deposit)],
    ) -> anyhow::Result<Vec<&'a (Round, Deposit)>> {
        let mut by_round: BTreeMap<Round, Vec<&'a (Round, Deposit)>> = BTreeMap::new();
        for deposit in wanted {
            by_round.entry(deposit.0).or_default().push(deposit);
        }
        let connection = server.connect().await?;
        let mut missing = Vec::new();
        for number in 0..by_round.values().map(Vec::len).max().unwrap_or(0) {
            let mut account =
                Account::enter(session(&connection, &server.info, number + 1).await?, number).await?;
            for (round, deposits) in &by_round {
                let Some(wanted) = deposits.get(number) else { continue };
                let (manifest, mapping) = self.rounds.get(round).context("the round is not served")?;
                let element = account.retrieve(manifest, mapping, wanted.1.label).await?;
                if element.as_deref() != Some(wanted.1.sealed.0.as_slice()) {
                    missing.push(*wanted);
                }
            }
        }
        Ok(missing)
    }
}

/// An account that retrieves.
struct Account {
    session: Session,
    engine: Arc<dyn Engine>,
    pir: Box<dyn EngineClient>,
    keys: [u8; 32],
    rng: StdRng,
}

impl Account {
    /// Uploads its keys.
    async fn enter(session: Session, number: usize) -> anyhow::Result<Self> {
        let engine = mpir::sealpir();
        let pir = engine.client(&[0x5a; 32]);
        let keys = session.upload_keys(pir.public_keys().into()).await.context("uploading keys")?;
        Ok(Self { session, engine, pir, keys, rng: StdRng::seed_from_u64(number as u64) })
    }

    /// The element under a label, if the mapping has one.
    async fn retrieve(
        &mut self,
        manifest: &Manifest,
        mapping: &BloomMapping,
        label: Label,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let code = manifest.code()?;
        // Where the filter shows one position only; a label that some bucket does not show is not in the round.
        let hits: Vec<(usize, _)> = (code.holders(&label.0).into_iter())
            .map(|bucket| (bucket, mapping.hits(&*code, bucket, &label)))
            .collect();
        if hits.iter().any(|(_, hits)| hits.is_empty()) {
            return Ok(None);
        }
        let single = hits.iter().find(|(_, hits)| hits.len() == 1);
        let (bucket, position) = single.context("a label stands at several positions everywhere")?;
        let mut targets = vec![None; code.bucket_count()];
        targets[*bucket] = position.first().copied();
        let (spec, sizes) = round_spec(&*self.engine, &self.session.root_key(), manifest)?;
        let bytes = sizes.answer.bytes();
        let request = self.pir.ask(spec, &targets, &mut self.rng)?;
        let answered = self.session.retrieve(manifest.round, &self.keys, request.bytes.into(), bytes).await;
        let mut elements = request.pending.read(&[], &answered.context("retrieving")?.answers);
        Ok(Some(elements.swap_remove(*bucket)?))
    }
}
