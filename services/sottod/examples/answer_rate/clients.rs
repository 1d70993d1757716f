//! Those who deposit at the nodes that vote, and those who retrieve at the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sotto_protocol::{Deposit, Manifest, Round};
use sotto_session::{ConnectionSettings, RoundNews, Session};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use crate::asking::{Asked, ask, deposit, mapping};
use crate::nodes::Nodes;

/// Before somebody asks again who was refused.
const PAUSE: Duration = Duration::from_millis(100);

/// What everybody asks in a round.
struct Question {
    round: Round,
    query: Bytes,
    answers: usize,
}

type Questions = watch::Receiver<Option<Arc<Question>>>;

/// They stop with this.
pub(crate) struct Clients {
    answered: Arc<AtomicU64>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Clients {
    /// So many at each of the nodes behind those that vote.
    pub(crate) async fn begin(
        nodes: &Nodes,
        voters: usize,
        clients: usize,
        deposits: usize,
    ) -> anyhow::Result<Self> {
        let (voting, answering) = nodes.settings().split_at(voters);
        let first = voting.first().context("no node votes")?;
        let depositing = sessions(nodes, first, deposits, 0).await?;
        let (tell, questions) = watch::channel(None);
        let answered = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let keys = Bytes::from(mpir::sealpir().client(&[0x51; 32]).public_keys().to_vec());
        for (at, settings) in answering.iter().enumerate() {
            for session in sessions(nodes, settings, clients, (at + 1) << 16).await? {
                let (keys, questions, answered) = (keys.clone(), questions.clone(), Arc::clone(&answered));
                tasks.spawn(retrieve(session, keys, questions, answered));
            }
        }
        tasks.spawn(deposit_and_tell(depositing, tell));
        Ok(Self { answered, tasks })
    }

    /// How many retrievals were answered until now.
    pub(crate) fn answered(&mut self) -> anyhow::Result<u64> {
        if let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        let answered = self.answered.load(Ordering::Relaxed);
        ensure!(answered > 0, "nothing was answered");
        Ok(answered)
    }
}

async fn sessions(
    nodes: &Nodes,
    settings: &ConnectionSettings,
    count: usize,
    from: usize,
) -> anyhow::Result<Vec<Session>> {
    let connection = nodes.connect(settings).await?;
    let info = connection.info().await?;
    let mut sessions = Vec::new();
    for number in from..from + count {
        let mut seed = [0x5a; 32];
        seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
        sessions.push(connection.session(&seed, &info, None, None).await?);
    }
    Ok(sessions)
}

/// Deposits in every round, and tells what is asked for once it is ready.
async fn deposit_and_tell(
    sessions: Vec<Session>,
    tell: watch::Sender<Option<Arc<Question>>>,
) -> anyhow::Result<()> {
    let sessions = Arc::new(sessions);
    let listener = sessions.first().context("nobody deposits")?;
    let mut news = core::pin::pin!(listener.watch().await?);
    let mut rng = StdRng::seed_from_u64(1);
    let mut stored: BTreeMap<Round, Deposit> = BTreeMap::new();
    while let Some(news) = news.next().await {
        match news? {
            RoundNews::Opened { round, .. } => {
                let mut storing = JoinSet::new();
                for at in 0..sessions.len() {
                    let (sessions, (sealed, sent)) = (Arc::clone(&sessions), deposit(&mut rng, None));
                    storing.spawn(async move { sessions[at].deposit(round, &sent).await.map(|()| sealed) });
                }
                while let Some(done) = storing.join_next().await {
                    // Who comes too late is not in it.
                    stored.extend(done?.ok().map(|sealed| (round, sealed)));
                }
            }
            RoundNews::Ready { manifest, .. } => {
                let manifest = manifest.verify(&key_of(listener, manifest.claimed_round())?)?;
                let Some(wanted) = stored.remove(&manifest.round) else { continue };
                // A round may be over before it is asked about.
                let Ok(question) = question(listener, &manifest, &wanted).await else { continue };
                tell.send_replace(Some(Arc::new(question)));
            }
            RoundNews::Announced(_) | RoundNews::Directory(_) => {}
        }
    }
    anyhow::bail!("the node ends its watch")
}

fn key_of(listener: &Session, round: Round) -> anyhow::Result<[u8; 32]> {
    listener.announced().manifest_key_of(round).context("no key signs the round")
}

async fn question(session: &Session, manifest: &Manifest, wanted: &Deposit) -> anyhow::Result<Question> {
    let mapping = mapping(session, manifest).await?;
    let mut rng = StdRng::seed_from_u64(manifest.round.0);
    let mut client = mpir::sealpir().client(&[0x51; 32]);
    let asked = ask(session, &mut *client, manifest, &mapping, wanted, &mut rng)?;
    let Asked { request, answers, .. } = asked.context("a deposit is not where it is said to be")?;
    Ok(Question { round: manifest.round, query: request.bytes.into(), answers })
}

/// Retrieves one round after the other, as fast as answers come.
async fn retrieve(
    session: Session,
    keys: Bytes,
    mut questions: Questions,
    answered: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let keys = session.upload_keys(keys).await?;
    loop {
        questions.changed().await?;
        let Some(question) = questions.borrow_and_update().clone() else { continue };
        loop {
            let asked = session.retrieve(question.round, &keys, question.query.clone(), question.answers);
            if asked.await.is_ok() {
                answered.fetch_add(1, Ordering::Relaxed);
                break;
            }
            // It is not ready there, or not any more, or there are too many.
            if questions.has_changed()? {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
