//! What a client would get: deposits, retrieved privately from a running server.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use bytes::Bytes;
use mpir::MultiClient;
use pir_core::{Scheme, SealPir};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, Manifest, Mapping as _, Round, SignedManifest};
use sotto_wire::{Failure, Refused, proto, split};

use super::child::Child;
use super::client::{Client, session};

/// The rounds that a server serves.
pub(super) struct Served {
    rounds: BTreeMap<Round, (Manifest, BloomMapping)>,
}

impl Served {
    /// Asks for the mappings of the newest rounds that are published, up to one that is retired.
    pub(super) async fn ask(
        client: &mut Client,
        session: &Bytes,
        key: &[u8; 32],
        manifests: &BTreeMap<Round, SignedManifest>,
        retained: usize,
    ) -> anyhow::Result<Self> {
        let mut rounds = BTreeMap::new();
        for (round, signed) in manifests.iter().rev().take(retained) {
            let manifest = signed.verify(key)?;
            let request = proto::MappingRequest { session: session.clone(), round: round.0 };
            let mut chunks = match client.mapping(request).await {
                Ok(response) => response.into_inner(),
                Err(status) if Failure::from(&status) == Failure::Refused(Refused::RoundClosed) => break,
                Err(status) => return Err(status).context("a mapping is refused"),
            };
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.message().await? {
                bytes.extend_from_slice(&chunk.data);
            }
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
        let pir = MultiClient::<SealPir>::new(&[0x5a; 32]);
        let mut client = server.connect().await?;
        let mut missing = Vec::new();
        for number in 0..by_round.values().map(Vec::len).max().unwrap_or(0) {
            let mut account = Account::new(&mut client, server, &pir, number + 1).await?;
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
struct Account<'a> {
    client: &'a mut Client,
    pir: &'a MultiClient<SealPir>,
    session: Bytes,
    keys: Bytes,
    rng: StdRng,
}

impl<'a> Account<'a> {
    async fn new(
        client: &'a mut Client,
        server: &Child,
        pir: &'a MultiClient<SealPir>,
        number: usize,
    ) -> anyhow::Result<Self> {
        let session = session(client, &server.key, number).await.context("registering")?;
        let first = |number| if number == 0 { session.clone() } else { Bytes::new() };
        let chunk = |(number, data)| proto::KeysChunk { session: first(number), data };
        let chunks: Vec<_> = split(pir.public_keys().into()).enumerate().map(chunk).collect();
        let uploaded = client.upload_keys(tokio_stream::iter(chunks)).await.context("uploading keys")?;
        let keys = uploaded.into_inner().digest;
        Ok(Self { client, pir, session, keys, rng: StdRng::seed_from_u64(number as u64) })
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
        let parameters =
            mpir::parameters::<SealPir>(manifest.buckets.into(), manifest.bucket_size as usize, BOX_BYTES)?;
        let query = self.pir.multi_query(&parameters, &targets, &mut self.rng)?;
        let (session, keys, round) = (self.session.clone(), self.keys.clone(), manifest.round.0);
        let chunks =
            split(query.encoded().concat().into()).enumerate().map(move |(number, data)| match number {
                0 => proto::QueryChunk { session: session.clone(), round, keys: keys.clone(), data },
                _ => proto::QueryChunk { data, ..Default::default() },
            });
        let chunks = tokio_stream::iter(chunks.collect::<Vec<_>>());
        let mut answers = self.client.retrieve(chunks).await.context("retrieving")?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = answers.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        let answers: Vec<Vec<u8>> =
            bytes.chunks(SealPir::answer_bytes(&parameters)).map(<[u8]>::to_vec).collect();
        ensure!(answers.len() == targets.len(), "an answer is missing");
        let mut elements = self.pir.multi_extract(&parameters, &query, &answers);
        Ok(Some(elements.swap_remove(*bucket)?))
    }
}
