//! A chat, line by line.

use core::pin::pin;
use std::path::PathBuf;
use std::process::ExitCode;

use sotto_protocol::{ConversationId, Round, TEXTS_MAX};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};

use super::failure::Failure;
use super::print::{Printer, status};
use super::{ChatOptions, state};
use crate::{ConnectionSettings, Engine, Event, Events, Handle, HandleError, Participant};

/// After the end of input, the chat ends after whole multiples of so many rounds, so that the moment does not tell in
/// which round the last text arrived.
const STAY_ROUNDS: u64 = 16;

pub(super) async fn chat(home: Option<PathBuf>, options: ChatOptions) -> Result<ExitCode, Failure> {
    let (store, client) = state::open(home)?;
    let conversation = state::find(&client, &options.contact)?;
    let printer = Printer::new(options.json, options.verbose, &client.conversations());
    let settings = ConnectionSettings::new(store.address().clone());
    let (handle, events) = Participant::<Engine>::start(client, Some(store), settings).await?;
    status(&format!("connected; Ctrl-C leaves the chat with {}", options.contact));

    let mut chat = Chat {
        handle,
        events,
        printer,
        conversation,
        stay: options.stay,
        input: Some(BufReader::new(stdin()).lines()),
        refused: false,
        stays: Stays::default(),
    };
    let talked = chat.talk().await;
    chat.leave().await;
    talked?;
    Ok(if chat.refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
    async fn talk(&mut self) -> Result<(), Failure> {
        let mut interrupted = pin!(interrupted());
        let mut waiting = self.waiting().await?;
        loop {
            let room = waiting < TEXTS_MAX;
            tokio::select! {
                () = &mut interrupted => return Ok(()),
                event = self.events.recv() => match event {
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
                            return Ok(());
                        }
                    }
                    None => return Err(HandleError::Stopped.into()),
                },
                line = next_line(&mut self.input), if room => {
                    match line? {
                        Some(line) => self.say(&line).await?,
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

    async fn say(&mut self, line: &str) -> Result<(), Failure> {
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            return Ok(());
        }
        match self.handle.queue_text(self.conversation, line).await {
            Ok(_) => Ok(()),
            Err(HandleError::Protocol(error)) => {
                self.refused = true;
                status(&format!("not sent: {error}"));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Texts that have not arrived.
    async fn waiting(&self) -> Result<usize, Failure> {
        let conversations = self.handle.conversations().await?;
        let found = conversations.iter().find(|conversation| conversation.id == self.conversation);
        Ok(found.map_or(0, |conversation| conversation.queued))
    }

    /// Leaves at the end of the round, or at once if the person insists.
    async fn leave(&mut self) {
        status("finishing the round, so that the moment you leave tells nothing; Ctrl-C leaves at once");
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

async fn next_line(input: &mut Option<Lines<BufReader<Stdin>>>) -> std::io::Result<Option<String>> {
    match input {
        Some(lines) => lines.next_line().await,
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
