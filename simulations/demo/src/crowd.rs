//! Simulated users: each has its own account and deposits cover every round over the same calls as everybody else.

use core::pin::Pin;
use core::time::Duration;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Context;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::Round;
use sotto_session::{Connection, ConnectionSettings, RoundNews, Session};
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt as _};

/// Connections the crowd shares, and tasks that work through its users.
const CONNECTIONS: usize = 4;
const WORKERS: usize = 16;
/// For a call: many are under way at the same time.
const PATIENCE: Duration = Duration::from_secs(120);

type News = Pin<Box<dyn Stream<Item = anyhow::Result<RoundNews>> + Send>>;

/// A registered user: nothing but a session and a source of randomness.
struct User {
    session: Session,
    rng: ChaCha20Rng,
}

/// All simulated users, registered and ready, in groups that deposit at the same time.
pub(crate) struct Crowd {
    groups: Vec<Vec<User>>,
    deposits: Arc<AtomicU64>,
    conductor: Option<Conductor>,
}

/// The one simulated user who follows the rounds and deposits last, so that a round in closed loop waits for the crowd.
struct Conductor {
    user: User,
    news: News,
}

impl Crowd {
    /// Registers `users` accounts with the server; `registered` counts along.
    pub(crate) async fn register(
        settings: &ConnectionSettings,
        users: u32,
        rng: &mut ChaCha20Rng,
        registered: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let settings = ConnectionSettings { call_timeout: PATIENCE, ..settings.clone() };
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(&settings).await.context("the crowd cannot connect")?);
        }
        let info = Arc::new(connections[0].info().await?);
        let mut tasks = JoinSet::new();
        for worker in 0..WORKERS {
            let share = (users as usize + WORKERS - 1 - worker) / WORKERS;
            let rngs: Vec<_> = (0..share).map(|_| child(rng)).collect();
            let (connection, info) = (connections[worker % CONNECTIONS].clone(), Arc::clone(&info));
            let registered = Arc::clone(&registered);
            tasks.spawn(async move {
                let mut group = Vec::with_capacity(share);
                for mut rng in rngs {
                    let mut seed = [0; 32];
                    rng.fill_bytes(&mut seed);
                    group.push(User { session: connection.session(&seed, &info, None, None).await?, rng });
                    registered.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(group)
            });
        }
        let mut groups = Vec::with_capacity(WORKERS);
        while let Some(group) = tasks.join_next().await {
            groups.push(group.context("a crowd task ended")??);
        }
        let conductor = match groups.iter_mut().find_map(Vec::pop) {
            Some(user) => {
                let news = Box::pin(user.session.watch().await?.map(|news| Ok(news?)));
                Some(Conductor { user, news })
            }
            None => None,
        };
        Ok(Self { groups, deposits: Arc::default(), conductor })
    }

    /// Counts the deposits made so far.
    pub(crate) fn deposits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.deposits)
    }

    /// Deposits cover for every user in every round, until the server ends or the task is dropped.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Self { mut groups, deposits, conductor } = self;
        let Some(mut conductor) = conductor else { return core::future::pending().await };
        while let Some(news) = conductor.news.next().await {
            let RoundNews::Opened { round, .. } = news? else { continue };
            let mut tasks = JoinSet::new();
            for mut group in groups.drain(..) {
                let deposits = Arc::clone(&deposits);
                tasks.spawn(async move {
                    for user in &mut group {
                        deposit(user, round, &deposits).await?;
                    }
                    anyhow::Ok(group)
                });
            }
            while let Some(group) = tasks.join_next().await {
                groups.push(group.context("a crowd task ended")??);
            }
            deposit(&mut conductor.user, round, &deposits).await?;
        }
        Ok(())
    }
}

fn child(rng: &mut ChaCha20Rng) -> ChaCha20Rng {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

async fn deposit(user: &mut User, round: Round, deposits: &AtomicU64) -> anyhow::Result<()> {
    let cover = sotto_protocol::cover(round, &mut user.rng).encode();
    user.session.deposit(round, &cover).await?;
    deposits.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
