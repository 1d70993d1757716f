//! Simulated users: each has its own account and deposits cover every round over the same calls as everybody else.

use core::time::Duration;
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
    ChallengeRequest, DepositRequest, RegisterRequest, RoundEvent, WatchRequest, round_event::Event,
    sotto_client::SottoClient,
};
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Address;
use crate::connection::{channel, endpoint};

/// Connections the crowd shares, and tasks that work through its users.
const CONNECTIONS: usize = 4;
const WORKERS: usize = 16;
/// For a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A registered user: nothing but a session and a source of randomness.
struct User {
    session: Bytes,
    rng: ChaCha20Rng,
}

/// Some users and the connection they share with others.
struct Group {
    client: SottoClient<Channel>,
    users: Vec<User>,
}

/// All simulated users, registered and ready.
pub(super) struct Crowd {
    groups: Vec<Group>,
    deposits: Arc<AtomicU64>,
    conductor: Option<Conductor>,
}

/// The one simulated user who follows the rounds and deposits last, so that a round in closed loop waits for the crowd.
struct Conductor {
    client: SottoClient<Channel>,
    user: User,
    events: Streaming<RoundEvent>,
}

impl Crowd {
    /// Registers `users` accounts with the server; `registered` counts along.
    pub(super) async fn register(
        address: &Address,
        manifest_key: [u8; 32],
        users: u32,
        rng: &mut ChaCha20Rng,
        registered: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            let channel = channel(endpoint(address)?, address, PATIENCE).await;
            channels.push(channel.context("the crowd cannot connect")?);
        }
        let mut tasks = JoinSet::new();
        for worker in 0..WORKERS {
            let share = (users as usize + WORKERS - 1 - worker) / WORKERS;
            let mut rngs: Vec<_> = (0..share).map(|_| child(rng)).collect();
            let client = SottoClient::new(channels[worker % CONNECTIONS].clone());
            let registered = Arc::clone(&registered);
            tasks.spawn(async move {
                let mut group = Group { client, users: Vec::with_capacity(share) };
                for rng in rngs.drain(..) {
                    group.users.push(register(&mut group.client, &manifest_key, rng).await?);
                    registered.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(group)
            });
        }
        let mut groups = Vec::with_capacity(WORKERS);
        while let Some(group) = tasks.join_next().await {
            groups.push(group.context("a crowd task ended")??);
        }
        let conductor =
            match groups.iter_mut().find_map(|group| Some((group.client.clone(), group.users.pop()?))) {
                Some((mut client, user)) => {
                    let events =
                        client.watch(WatchRequest { session: user.session.clone() }).await?.into_inner();
                    Some(Conductor { client, user, events })
                }
                None => None,
            };
        Ok(Self { groups, deposits: Arc::default(), conductor })
    }

    /// Counts the deposits made so far.
    pub(super) fn deposits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.deposits)
    }

    /// Deposits cover for every user in every round, until the server ends or the task is dropped.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { mut groups, deposits, conductor } = self;
        let Some(mut conductor) = conductor else { return core::future::pending().await };
        while let Some(event) = conductor.events.message().await? {
            let Some(Event::Opened(opened)) = event.event else { continue };
            let round = Round(opened.round);
            let mut tasks = JoinSet::new();
            for mut group in groups.drain(..) {
                let deposits = Arc::clone(&deposits);
                tasks.spawn(async move {
                    for user in &mut group.users {
                        deposit(&mut group.client, user, round, &deposits).await?;
                    }
                    anyhow::Ok(group)
                });
            }
            while let Some(group) = tasks.join_next().await {
                groups.push(group.context("a crowd task ended")??);
            }
            deposit(&mut conductor.client, &mut conductor.user, round, &deposits).await?;
        }
        Ok(())
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
    let challenge =
        client.challenge(ChallengeRequest { account: account.to_vec().into() }).await?.into_inner();
    let nonce = sotto_wire::fixed(&challenge.nonce, "nonce")?;
    let signature = key.sign(&sotto_wire::register::message(manifest_key, &account, &nonce)).to_bytes();
    let request = RegisterRequest {
        account: account.to_vec().into(),
        nonce: challenge.nonce,
        signature: signature.to_vec().into(),
        token: Bytes::new(),
    };
    Ok(User { session: client.register(request).await?.into_inner().session, rng })
}

async fn deposit(
    client: &mut SottoClient<Channel>,
    user: &mut User,
    round: Round,
    deposits: &AtomicU64,
) -> anyhow::Result<()> {
    let cover = sotto_protocol::cover(round, &mut user.rng).encode().to_vec().into();
    client.deposit(DepositRequest { session: user.session.clone(), round: round.0, deposit: cover }).await?;
    deposits.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
