//! A person who takes part in the rounds, says something now and then, and prints what arrives.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use rand::rngs::StdRng;
use sotto::Store;
use sotto_participant::host::now;
use sotto_participant::{Event, Handle, Participant};
use sotto_protocol::client::{Client, Notice, Settings};
use sotto_protocol::{ConversationId, Round};
use sotto_session::ConnectionSettings;
use sotto_wire::Info;

use super::meet::meet;
use super::{Arguments, Person};
use crate::target::ended;

/// Something is said every so many rounds, if all that was said before has arrived.
const EVERY: u64 = 6;

const LINES: [[&str; 6]; 2] = [
    [
        "are we being watched?",
        "they see that we are here, and nothing else",
        "the documents are ready",
        "forty pages",
        "page nine is smudged",
        "until tomorrow",
    ],
    [
        "everybody is, all the time",
        "then they know as much as yesterday",
        "send them when you like",
        "I shall read them tonight",
        "I can read it",
        "until tomorrow",
    ],
];

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let person = arguments.person;
    let mut ended = core::pin::pin!(ended());
    let entering = async {
        let (settings, info) = arguments.target.reach().await?;
        let (client, store) = state(person, arguments.home.as_deref(), &settings, &info)?;
        anyhow::Ok(Participant::start(client, store.map(|store| Box::new(store) as _), settings).await?)
    };
    let (handle, mut events) = tokio::select! {
        ended = &mut ended => return ended,
        entered = entering => entered?,
    };
    let conversation = {
        let meeting = meet(person, &handle, &arguments.meet);
        tokio::select! {
            ended = &mut ended => return ended,
            met = meeting => met?,
        }
    };
    let mut round = Round(0);
    loop {
        let event = tokio::select! {
            asked = &mut ended => {
                asked?;
                // Leaves at once: whoever ends a container does not wait for rounds.
                let _ = handle.stop().await;
                return Ok(());
            }
            event = events.recv() => event.context("the participant has stopped")?,
        };
        match event {
            Event::RoundReport(report) => {
                round = report.round;
                speak(person, &handle, conversation, round).await?;
            }
            Event::Notice(Notice::Text { conversation, from, text, number, .. }) => {
                say(&format!("round {round}  {from} > {}: {text}", person.name()))?;
                handle.change(move |client| client.shown(conversation, number)).await?;
            }
            Event::Notice(Notice::Established { .. }) => {
                say(&format!("{} and {} have each other's keys", person.name(), person.other().name()))?;
            }
            Event::Notice(Notice::Warning(warning)) => say(&format!("{}: {warning}", person.name()))?,
            Event::Trouble { trouble, .. } => say(&format!("{}: {trouble}", person.name()))?,
            Event::ConnectionLost(reason) => say(&format!("{}: {reason}", person.name()))?,
            Event::ConnectionRestored => say(&format!("{}: there is a node again", person.name()))?,
            _ => {}
        }
    }
}

/// The person as it left, or a new one.
fn state(
    person: Person,
    home: Option<&Path>,
    settings: &ConnectionSettings,
    info: &Info,
) -> anyhow::Result<(Client, Option<Store>)> {
    let mut rng: StdRng = rand::make_rng();
    let conversations = Settings { conversations: 1 };
    let new =
        Client::new(person.name(), info.parameters.clone(), conversations, (info.open, now()), &mut rng);
    let Some(home) = home else { return Ok((new?, None)) };
    match Store::open(home) {
        Ok((store, snapshot)) => Ok((Client::restore(&snapshot)?, Some(store))),
        Err(sotto::StoreError::Missing(_)) => {
            let (client, store) = (new?, Store::create(home, settings.address.clone())?);
            store.save(&client.snapshot())?;
            Ok((client, Some(store)))
        }
        Err(error) => bail!(error),
    }
}

/// Says the next line, if it is time and the last one has arrived.
async fn speak(
    person: Person,
    handle: &Handle,
    conversation: ConversationId,
    round: Round,
) -> anyhow::Result<()> {
    // Bob answers in the rounds between.
    let turn = if person == Person::Alice { 0 } else { EVERY / 2 };
    if round.0 % EVERY != turn {
        return Ok(());
    }
    let all = handle.conversations().await?;
    let ready = all.iter().any(|with| with.id == conversation && with.established && with.queued == 0);
    if ready {
        let lines = LINES[usize::from(person == Person::Bob)];
        let line = lines[usize::try_from(round.0 / EVERY).unwrap_or_default() % lines.len()];
        handle.queue_text(conversation, line).await?;
    }
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("nobody reads what is printed")
}
