//! A chat, line by line.

use core::pin::pin;
use std::path::PathBuf;
use std::process::ExitCode;

use sotto_protocol::{ConversationId, Round, RoundMode, ServerParameters, TEXTS_MAX};
use tokio::io::{BufReader, Stdin, stdin};

use super::failure::Failure;
use super::input::{Line, Lines};
use super::print::{Printer, status};
use super::{ChatOptions, state};
use crate::{ConnectError, ConnectionSettings, Engine, Event, Events, Handle, HandleError, Participant};

/// After the end of input, the chat ends after whole multiples of so many rounds, so that the moment does not tell in
/// which round the last text arrived.
const STAY_ROUNDS: u64 = 16;

pub(super) async fn chat(home: Option<PathBuf>, options: ChatOptions) -> Result<ExitCode, Failure> {
    let (store, client) = state::open(home)?;
    let conversation = state::find(&client, &options.contact)?;
    let conversations = client.conversations();
    let established = conversations.iter().any(|other| other.id == conversation && other.established);
    let printer = Printer::new(options.json, options.verbose, &conversations);
    let pace = pace(client.server(), client.settings().conversations, &options.contact);
    let settings = ConnectionSettings::new(store.address().clone());
    let (handle, events) = Participant::<Engine>::start(client, Some(store), settings).await?;
    status(&format!("connected; Ctrl-C leaves the chat with {}", options.contact));
    status(&pace);
    if !established {
        status(&format!("{} has not answered yet; what you type waits", options.contact));
    }

    let mut chat = Chat {
        handle,
        events,
        printer,
        conversation,
        stay: options.stay,
        input: Some(Lines::new(BufReader::new(stdin()))),
        refused: false,
        stays: Stays::default(),
    };
    let talked = chat.talk().await;
    match &talked {
        Ok(End::Said) => chat.leave().await,
        Ok(End::Interrupted) => {
            status("finishing the round, so that the moment you leave tells nothing; Ctrl-C leaves at once");
            chat.leave().await;
        }
        Err(Broken { at_once: false, .. }) => chat.leave().await,
        // There are no rounds to finish with somebody else's server. Whether it was running still makes no difference.
        Err(Broken { at_once: true, .. }) => drop(chat.handle.stop().await),
    }
    talked.map_err(|broken| broken.failure)?;
    Ok(if chat.refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a person can expect of the server's rounds.
fn pace(server: &ServerParameters, places: u8, contact: &str) -> String {
    let least = match server.mode {
        RoundMode::Deadline => "",
        RoundMode::ClosedLoop => "at least ",
    };
    let seconds = f64::from(server.round_ms) / 1000.0;
    let turns = match places {
        1 => "in every round".to_owned(),
        places => format!("once in {places} rounds"),
    };
    // Where not everything is polled in a round, a text is found in one of several turns. A turn takes a round to come,
    // and one to be retrieved; the next one is up to two cycles away.
    let polls = (2 * u32::from(places)).div_ceil(server.retrieve.max(1).into());
    let rounds = u32::from(places) * polls + 2;
    let about = (f64::from(rounds) * seconds).ceil();
    format!(
        "rounds of {least}{seconds} s; your turn with {contact} comes {turns}, so a text takes about {about} to {} s",
        2.0 * about
    )
}

/// Why a chat ends that was not broken off.
enum End {
    /// Everything has arrived.
    Said,
    /// The person wants to leave.
    Interrupted,
}

/// Why a chat breaks off.
struct Broken {
    failure: Failure,
    /// Whether there is no round to finish.
    at_once: bool,
}

impl<E: Into<Failure>> From<E> for Broken {
    fn from(error: E) -> Self {
        Self { failure: error.into(), at_once: false }
    }
}

struct Chat {
    handle: Handle,
    events: Events,
    printer: Printer,
    conversation: ConversationId,
    stay: bool,
    /// None after its end.
    input: Option<Lines<BufReader<Stdin>>>,
    /// Whether a line was not sent.
    refused: bool,
    stays: Stays,
}

/// Counts the rounds taken part in.
#[derive(Default)]
struct Stays {
    first: Option<Round>,
    whole: u64,
}

impl Stays {
    /// Whether a whole multiple of [`STAY_ROUNDS`] is over with this round. Rounds of which nothing was heard count, too.
    fn is_over(&mut self, round: Round) -> bool {
        let first = *self.first.get_or_insert(round);
        let whole = (round.0.saturating_sub(first.0) + 1) / STAY_ROUNDS;
        let over = whole > self.whole;
        self.whole = self.whole.max(whole);
        over
    }
}

impl Chat {
    /// Sends and prints until everything is said and has arrived, or the person wants to leave.
    async fn talk(&mut self) -> Result<End, Broken> {
        let mut interrupted = pin!(interrupted());
        let mut waiting = self.waiting().await?;
        loop {
            let room = waiting < TEXTS_MAX;
            tokio::select! {
                () = &mut interrupted => return Ok(End::Interrupted),
                event = self.events.recv() => match event {
                    Some(Event::ConnectionLost(error @ ConnectError::WrongKey)) => {
                        return Err(Broken { failure: error.into(), at_once: true });
                    }
                    Some(event) => {
                        self.printer.event(&event)?;
                        if matches!(event, Event::Notice(_)) {
                            waiting = self.waiting().await?;
                        }
                        if let Event::RoundReport(report) = &event
                            && self.stays.is_over(report.round)
                            && self.input.is_none()
                            && !self.stay
                            && waiting == 0
                        {
                            return Ok(End::Said);
                        }
                    }
                    None => return Err(HandleError::Stopped.into()),
                },
                line = next_line(&mut self.input), if room => {
                    match line? {
                        Some(line) => self.say(line).await?,
                        None => self.input = None,
                    }
                    waiting = self.waiting().await?;
                    if self.input.is_none() && !self.stay {
                        status(&format!(
                            "{waiting} to arrive; the chat ends after a multiple of {STAY_ROUNDS} rounds when all has \
                             arrived, so that the moment tells little; Ctrl-C ends it now"
                        ));
                    }
                }
            }
        }
    }

    async fn say(&mut self, line: Line) -> Result<(), Failure> {
        let text = match line {
            Line::Text(text) if text.trim().is_empty() => return Ok(()),
            Line::Text(text) => text,
            Line::NotText => {
                self.refuse("the line is not UTF-8 text");
                return Ok(());
            }
            Line::TooLong => {
                self.refuse("a text has at most 16 KiB");
                return Ok(());
            }
        };
        match self.handle.queue_text(self.conversation, &text).await {
            Ok(message) => self.printer.said(message, &text),
            Err(HandleError::Protocol(error)) => self.refuse(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn refuse(&mut self, why: &str) {
        self.refused = true;
        status(&format!("not sent: {why}"));
    }

    /// Texts that have not arrived.
    async fn waiting(&self) -> Result<usize, Failure> {
        let conversations = self.handle.conversations().await?;
        let found = conversations.iter().find(|conversation| conversation.id == self.conversation);
        Ok(found.map_or(0, |conversation| conversation.queued))
    }

    /// Leaves at the end of the round, or at once if the person insists.
    async fn leave(&mut self) {
        let mut interrupted = pin!(interrupted());
        let mut finished = pin!(self.handle.finish());
        let mut open = true;
        loop {
            tokio::select! {
                _ = &mut finished => break,
                () = &mut interrupted => {
                    // Whether it was running still makes no difference.
                    let _ = self.handle.stop().await;
                    break;
                }
                event = self.events.recv(), if open => match event {
                    // Standard output may be why the chat ends.
                    Some(event) => drop(self.printer.event(&event)),
                    None => open = false,
                },
            }
        }
        while let Ok(event) = self.events.try_recv() {
            drop(self.printer.event(&event));
        }
    }
}

async fn next_line(input: &mut Option<Lines<BufReader<Stdin>>>) -> std::io::Result<Option<Line>> {
    match input {
        Some(lines) => lines.next().await,
        None => core::future::pending().await,
    }
}

/// Ctrl-C, or being told to end.
async fn interrupted() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            core::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => core::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    core::future::pending().await
}

#[cfg(test)]
mod tests {
    use sotto_protocol::Round;

    use super::{STAY_ROUNDS, Stays};

    #[test]
    fn the_chat_ends_only_after_whole_multiples_of_rounds() {
        let mut stays = Stays::default();
        let over: Vec<u64> = (0..3 * STAY_ROUNDS).filter(|round| stays.is_over(Round(100 + round))).collect();
        assert_eq!(over, [1, 2, 3].map(|whole| whole * STAY_ROUNDS - 1));
        // Over a gap, at the first round after the multiple.
        assert!(stays.is_over(Round(100 + 4 * STAY_ROUNDS + 3)));
        assert!(!stays.is_over(Round(100 + 4 * STAY_ROUNDS + 4)));
    }
}
