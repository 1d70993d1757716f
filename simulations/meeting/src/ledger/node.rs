//! What one node says of rounds, heard on a connection with it alone.

use core::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sotto_protocol::{OwnSlot, Round, ServerParameters, SignedManifest};
use sotto_session::{ConnectError, Connection, ConnectionSettings, RoundNews, Session};
use sotto_wire::Failure;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt as _;

/// Before a node that is lost is asked again.
const PAUSE: Duration = Duration::from_millis(250);
/// Every so many rounds, a node is asked for all manifests since it was asked before.
const ASK: u64 = 8;

/// A node, counted from 0, has said something.
pub(super) struct Heard {
    pub(super) node: usize,
    pub(super) what: What,
}

pub(super) enum What {
    /// A round takes deposits since that moment.
    Opened(Round, Instant),
    /// A round can be retrieved since that moment.
    Ready(Box<SignedManifest>, Instant),
    /// Rounds of before.
    Manifests(Vec<SignedManifest>),
}

/// Listens to one node.
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) settings: ConnectionSettings,
    pub(super) server: ServerParameters,
    pub(super) heard: UnboundedSender<Heard>,
    /// From which round on its manifests are of interest.
    pub(super) first: Round,
    /// On a server with slots, once there was a session.
    pub(super) slot: Option<OwnSlot>,
}

impl Node {
    /// Until nobody listens any more.
    pub(super) async fn listen(mut self) {
        let seed: [u8; 32] = rand::make_rng::<StdRng>().random();
        while !self.heard.is_closed() {
            // That a node is lost shows in what it does not say; and it is asked again.
            if let Ok(session) = self.open(&seed).await {
                self.slot = session.given_slot().cloned().or(self.slot.take());
                let _ = self.follow(&session).await;
            }
            sleep(PAUSE).await;
        }
    }

    async fn open(&self, seed: &[u8; 32]) -> Result<Session, ConnectError> {
        Connection::open(&self.settings).await?.register(seed, &self.server, None, self.slot.as_ref()).await
    }

    async fn follow(&mut self, session: &Session) -> Result<(), Failure> {
        let mut rounds = core::pin::pin!(session.watch().await?);
        while let Some(news) = rounds.next().await {
            let now = Instant::now();
            let at = |elapsed| now.checked_sub(elapsed).unwrap_or(now);
            match news? {
                RoundNews::Opened { round, elapsed } => self.tell(What::Opened(round, at(elapsed))),
                RoundNews::Ready { manifest, elapsed } => {
                    let round = manifest.claimed_round();
                    self.tell(What::Ready(manifest, at(elapsed)));
                    if round.0 >= self.first.0 + ASK {
                        let manifests = session.manifests(self.first, round).await?;
                        self.tell(What::Manifests(manifests));
                        self.first = round;
                    }
                }
                RoundNews::Announced(_) | RoundNews::Directory(_) => {}
            }
        }
        Ok(())
    }

    fn tell(&self, what: What) {
        // If nobody listens, this ends soon.
        let _ = self.heard.send(Heard { node: self.number, what });
    }
}
