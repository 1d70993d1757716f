//! What a client would get: deposits, retrieved privately from a running server.

use std::collections::BTreeMap;

use anyhow::Context;
use bytes::Bytes;
use mpir::EngineClient;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Manifest, OwnSlot, Round, SignedManifest};
use sotto_session::{Connection, Session};
use sotto_wire::{Failure, Info, Refused};

use super::asking::{Asked, ask, mapping};
use super::child::session;

/// The rounds that a server serves.
pub(super) struct Served {
    rounds: BTreeMap<Round, (Manifest, Bytes)>,
}

impl Served {
    /// Asks for the mappings of the newest rounds that are published, up to one that is retired. None if one is being built
    /// again.
    pub(super) async fn ask(
        session: &Session,
        key: &[u8; 32],
        manifests: &BTreeMap<Round, SignedManifest>,
        retained: usize,
    ) -> anyhow::Result<Option<Self>> {
        let mut rounds = BTreeMap::new();
        for (round, signed) in manifests.iter().rev().take(retained) {
            let manifest = signed.verify(key)?;
            let bytes = match mapping(session, &manifest).await {
                Ok(bytes) => bytes,
                Err(Failure::Refused(Refused::RoundClosed)) => break,
                Err(Failure::Refused(Refused::RoundNotReady)) => return Ok(None),
                Err(failure) => return Err(failure).context("a mapping is refused"),
            };
            rounds.insert(*round, (manifest, bytes));
        }
        Ok(Some(Self { rounds }))
    }

    pub(super) fn serves(&self, round: Round) -> bool {
        self.rounds.contains_key(&round)
    }

    /// Retrieves deposits by their labels; returns those that do not come back as they were sent. An account may ask once in
    /// a round, so there are as many, from 1 on, as deposits of one round.
    pub(super) async fn retrieve<'a>(
        &self,
        connection: &Connection,
        info: &Info,
        accounts: &[(usize, Option<OwnSlot>)],
        wanted: &[&'a (Round, Deposit)],
    ) -> anyhow::Result<Vec<&'a (Round, Deposit)>> {
        let mut by_round: BTreeMap<Round, Vec<&'a (Round, Deposit)>> = BTreeMap::new();
        for deposit in wanted {
            by_round.entry(deposit.0).or_default().push(deposit);
        }
        let mut missing = Vec::new();
        for number in 0..by_round.values().map(Vec::len).max().unwrap_or(0) {
            let (account, slot) = accounts.get(number).context("there are too few accounts")?;
            let session = session(connection, info, *account, slot.as_ref()).await?;
            let mut account = Account::enter(session, number).await?;
            for (round, deposits) in &by_round {
                let Some(wanted) = deposits.get(number) else { continue };
                let (manifest, mapping) = self.rounds.get(round).context("the round is not served")?;
                let element = account.retrieve(manifest, mapping, &wanted.1).await?;
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
    pir: Box<dyn EngineClient>,
    keys: [u8; 32],
    rng: StdRng,
}

impl Account {
    /// Uploads its keys.
    async fn enter(session: Session, number: usize) -> anyhow::Result<Self> {
        let pir = mpir::sealpir().client(&[0x5a; 32]);
        let keys = session.upload_keys(pir.public_keys().into()).await.context("uploading keys")?;
        Ok(Self { session, pir, keys, rng: StdRng::seed_from_u64(number as u64) })
    }

    /// The element under a deposit's label, if the mapping has one.
    async fn retrieve(
        &mut self,
        manifest: &Manifest,
        mapping: &[u8],
        wanted: &Deposit,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let asked = ask(&self.session, &mut *self.pir, manifest, mapping, wanted, &mut self.rng)?;
        let Some(Asked { request, answers, bucket }) = asked else { return Ok(None) };
        let answered = self.session.retrieve(manifest.round, &self.keys, request.bytes.into(), answers).await;
        let mut elements = request.pending.read(&[], &answered.context("retrieving")?.answers);
        Ok(Some(elements.swap_remove(bucket)?))
    }
}
