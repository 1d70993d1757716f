//! A chat, line by line.

use core::pin::pin;
use std::path::PathBuf;
use std::process::ExitCode;

use sotto_protocol::{ConversationId, TEXTS_MAX};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};

use super::failure::Failure;
use super::print::{Printer, status};
use super::{ChatOptions, state};
use crate::{ConnectionSettings, Engine, Event, Events, Handle, HandleError, Participant};

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
}

impl Chat {
    /// Sends and prints until everything is said and has arrived, or the person wants to leave.
    async fn talk(&mut self) -> Result<(), Failure> {
        let mut interrupted = pin!(interrupted());
        let mut waiting = self.waiting().await?;
        loop {
            if self.input.is_none() && !self.stay && waiting == 0 {
                return Ok(());
            }
            let room = waiting < TEXTS_MAX;
            tokio::select! {
                () = &mut interrupted => return Ok(()),
                event = self.events.recv() => match event {
                    Some(event) => {
                        self.printer.event(&event)?;
                        if matches!(event, Event::Notice(_)) {
                            waiting = self.waiting().await?;
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
                    if self.input.is_none() && !self.stay && waiting > 0 {
                        status(&format!("waiting until all has arrived ({waiting} to go); Ctrl-C leaves that for the next chat"));
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
