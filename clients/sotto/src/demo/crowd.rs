//! Simulated users: each has its own account and deposits cover every round over the same calls as everybody else.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Context;
use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::Round;
use sotto_wire::proto::{
    ChallengeRequest, DepositRequest, RegisterRequest, WatchRequest, round_event::Event, sotto_client::SottoClient,
};
use tokio::{sync::watch, task::JoinSet};
use tonic::transport::{Channel, Endpoint};

/// Connections the crowd shares, and tasks that work through its users.
const CONNECTIONS: usize = 4;
const WORKERS: usize = 16;

/// A registered user: nothing but a session and a source of randomness.
struct User {
    session: Bytes,
    rng: ChaCha20Rng,
}

/// All simulated users, registered and ready.
pub(super) struct Crowd {
    workers: Vec<(SottoClient<Channel>, Vec<User>)>,
    deposits: Arc<AtomicU64>,
}

impl Crowd {
    /// Registers `users` accounts with the server; `registered` counts along.
    pub(super) async fn register(
        endpoint: Endpoint,
        manifest_key: [u8; 32],
        users: u32,
        rng: &mut ChaCha20Rng,
        registered: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(endpoint.connect().await.context("the crowd cannot connect")?);
        }
        let mut tasks = JoinSet::new();
        for worker in 0..WORKERS {
            let share = (users as usize + WORKERS - 1 - worker) / WORKERS;
            let mut rngs: Vec<_> = (0..share).map(|_| child(rng)).collect();
            let client = SottoClient::new(channels[worker % CONNECTIONS].clone());
            let registered = Arc::clone(&registered);
            tasks.spawn(async move {
                let mut client = client;
                let mut users = Vec::with_capacity(share);
                for rng in rngs.drain(..) {
                    users.push(register(&mut client, &manifest_key, rng).await?);
                    registered.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok((client, users))
            });
        }
        let mut workers = Vec::with_capacity(WORKERS);
        while let Some(worker) = tasks.join_next().await {
            let (client, users) = worker.context("a crowd task ended")??;
            if !users.is_empty() {
                workers.push((client, users));
            }
        }
        Ok(Self { workers, deposits: Arc::default() })
    }

    /// Counts the deposits made so far.
    pub(super) fn deposits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.deposits)
    }

    /// Deposits cover for every user in every round, until the server ends or the task is dropped.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Some((first, users)) = self.workers.first() else { return Ok(()) };
        let session = users.first().map(|user| user.session.clone()).unwrap_or_default();
        let mut events = first.clone().watch(WatchRequest { session }).await?.into_inner();
        let (open, opened) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for (client, users) in self.workers {
            tasks.spawn(deposit(client, users, opened.clone(), Arc::clone(&self.deposits)));
        }
        loop {
            tokio::select! {
                event = events.message() => match event? {
                    Some(event) => if let Some(Event::Opened(opened)) = event.event {
                        open.send_replace(Some(Round(opened.round)));
                    },
                    None => return Ok(()),
                },
                Some(ended) = tasks.join_next() => ended.context("a crowd task ended")??,
            }
        }
    }
}

fn child(rng: &mut ChaCha20Rng) -> ChaCha20Rng {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

async fn register(
    client: &mut SottoClient<Channel>,
    manifest_key: &[u8; 32],
    mut rng: ChaCha20Rng,
) -> anyhow::Result<User> {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let key = SigningKey::from_bytes(&seed);
    let account = key.verifying_key().to_bytes();
    let challenge = client.challenge(ChallengeRequest { account: account.to_vec().into() }).await?.into_inner();
    let nonce = sotto_wire::fixed(&challenge.nonce, "nonce")?;
    let signature = key.sign(&sotto_wire::register::message(manifest_key, &account, &nonce)).to_bytes();
    let request = RegisterRequest {
        account: account.to_vec().into(),
        nonce: challenge.nonce,
        signature: signature.to_vec().into(),
    };
    Ok(User { session: client.register(request).await?.into_inner().session, rng })
}

async fn deposit(
    mut client: SottoClient<Channel>,
    mut users: Vec<User>,
    mut opened: watch::Receiver<Option<Round>>,
    deposits: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    while opened.changed().await.is_ok() {
        let Some(round) = *opened.borrow_and_update() else { continue };
        for user in &mut users {
            let cover = sotto_protocol::cover(round, &mut user.rng).encode();
            let request =
                DepositRequest { session: user.session.clone(), round: round.0, deposit: cover.to_vec().into() };
            client.deposit(request).await?;
            deposits.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
