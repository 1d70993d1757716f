//! The named participants, each a real client with its own state on disk and its own connection.

use core::time::Duration;
use std::fs;

use anyhow::Context;
use rand_chacha::ChaCha20Rng;
use sotto_participant::host::{Disk as _, now};
use sotto_participant::{Event, Finding, Handle, Participant, RoundReport};
use sotto_protocol::client::{Client, Notice, Settings};
use sotto_protocol::{ConversationId, Round};
use sotto_session::{Connection, ConnectionSettings};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::disk::Directory;
use crate::screen::Screen;
use crate::script::{GROUP, Line, NAMES, in_pair};

/// How long leaving may take before the connection is simply cut.
const LEAVE: Duration = Duration::from_secs(2);

/// Something that happened to a participant.
pub(crate) enum Happening {
    /// A text arrived.
    Text { listener: usize, speaker: String, text: String },
    /// A round's calls are made.
    Report(RoundReport),
    /// Something a person would want to know.
    Remark(String),
}

/// Everybody with a name.
pub(crate) struct Cast {
    members: Vec<Member>,
    happenings: mpsc::Receiver<(usize, Event)>,
    /// The newest round each has finished.
    reported: Vec<Round>,
    /// The round that was open when they joined.
    joined: Round,
    /// Whether each can speak: the two need each other's keys first, the group has a card.
    introduced: Vec<bool>,
    /// States live here until the demonstration ends.
    _states: TempDir,
}

struct Member {
    handle: Handle,
    conversation: ConversationId,
}

impl Cast {
    /// Creates everybody, lets them exchange an invitation and a group card, and connects them.
    pub(crate) async fn enter(
        settings: &ConnectionSettings,
        rng: &mut ChaCha20Rng,
        screen: &Screen,
    ) -> anyhow::Result<Self> {
        let asked = now();
        let info = Connection::open(settings).await?.info().await?;
        let mut clients = Vec::new();
        for name in NAMES {
            let joined = (info.open, asked);
            clients.push(Client::new(
                name,
                info.parameters.clone(),
                Settings { conversations: 1 },
                joined,
                rng,
            )?);
        }
        let conversations = introduce(&mut clients, rng)?;

        let states = tempfile::tempdir().context("no place for the participants' states")?;
        let (sender, happenings) = mpsc::channel(1024);
        let mut members = Vec::new();
        for (number, (client, conversation)) in clients.into_iter().zip(conversations).enumerate() {
            let disk = Directory(states.path().join(NAMES[number]));
            fs::create_dir(&disk.0)?;
            disk.save(&client.snapshot())?;
            let started = Participant::start(client, Some(Box::new(disk)), settings.clone());
            let (handle, mut events) =
                screen.wait(&format!("{} makes keys and uploads them", NAMES[number]), started).await?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    if sender.send((number, event)).await.is_err() {
                        return;
                    }
                }
            });
            members.push(Member { handle, conversation });
        }
        let introduced = (0..NAMES.len()).map(|number| !in_pair(number)).collect();
        Ok(Self {
            members,
            happenings,
            reported: vec![Round(0); NAMES.len()],
            introduced,
            joined: info.open,
            _states: states,
        })
    }

    /// Everybody hands in their lines, in order; one leaves per round.
    pub(crate) async fn speak(&self, lines: &[Line]) -> anyhow::Result<()> {
        for line in lines {
            let member = &self.members[line.speaker];
            member.handle.queue_text(member.conversation, &line.text).await?;
        }
        Ok(())
    }

    /// The round that was open when everybody joined.
    pub(crate) fn joined(&self) -> Round {
        self.joined
    }

    /// Whether everybody can speak.
    pub(crate) fn is_introduced(&self) -> bool {
        self.introduced.iter().all(|&introduced| introduced)
    }

    /// Whether everybody has finished this round.
    pub(crate) fn reported(&self, round: Round) -> bool {
        self.reported.iter().all(|&reported| reported >= round)
    }

    /// The next thing that happens to anybody.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Happening> {
        let (number, event) = self.happenings.recv().await.context("all participants have stopped")?;
        let name = NAMES[number];
        Ok(match event {
            Event::Notice(Notice::Text { from, text, .. }) => {
                Happening::Text { listener: number, speaker: from, text }
            }
            Event::Notice(Notice::Established { .. }) => {
                self.introduced[number] = true;
                Happening::Remark(String::new())
            }
            Event::Notice(Notice::Warning(warning)) => Happening::Remark(format!("{name}: {warning}")),
            Event::Trouble { trouble, .. } => Happening::Remark(format!("{name}: {trouble}")),
            Event::ConnectionLost(reason) => anyhow::bail!("{name} has lost the server: {reason}"),
            Event::RoundReport(report) => {
                self.reported[number] = report.round;
                Happening::Report(report)
            }
            Event::Audited { round, finding: Finding::Cheated(_), .. } => {
                anyhow::bail!("round {round}: the server has signed a wrong answer to {name}")
            }
            Event::Audited { finding: Finding::Open(reason), .. } => {
                Happening::Remark(format!("{name}: an answer could not be checked: {reason}"))
            }
            _ => Happening::Remark(String::new()),
        })
    }

    /// Everybody leaves.
    pub(crate) async fn leave(self) {
        for member in &self.members {
            // A participant that does not stop in time is cut off by the end of the process.
            let _ = timeout(LEAVE, member.handle.stop()).await;
        }
    }
}

/// The invitation and the group card go from hand to hand as the strings that people would exchange.
fn introduce(clients: &mut [Client], rng: &mut ChaCha20Rng) -> anyhow::Result<Vec<ConversationId>> {
    let [alice, bob, carol, others @ ..] = clients else { anyhow::bail!("the cast is too small") };
    let invitation = alice.invite(bob.name(), now(), rng)?.to_string();
    let with_alice = bob.accept(alice.name(), &invitation.parse()?, now(), rng)?;
    let with_bob = alice.find(bob.name()).context("no contact came of the invitation")?;

    let roster: Vec<_> = others.iter().map(|client| (client.name().to_owned(), client.identity())).collect();
    let card = carol.create_group(GROUP, &roster, rng)?.to_string();
    let group = carol.find(GROUP).context("no group came of its making")?;
    let mut conversations = vec![with_bob, with_alice, group];
    for member in others {
        conversations.push(member.join_group(&card.parse()?, now())?);
    }
    Ok(conversations)
}
