//! A chat, line by line: a program of the running participant, which stays online when the chat ends.

use core::pin::pin;
use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use sotto_protocol::TEXTS_MAX;
use sotto_wire::Token;
use tokio::io::{BufReader, Stdin, stdin};
use zeroize::Zeroizing;

use super::failure::Failure;
use super::input::{CUT, Line, Lines, TYPED_MAX};
use super::link::{Link, quietly};
use super::options::ChatOptions;
use super::print::{self, beginning, status};
use crate::daemon::message::{Account, Message, Note, Private, Reply, Request, RoundCost, Told};
use crate::daemon::{interrupted, unexpected};

pub(super) async fn chat(home: Option<PathBuf>, options: ChatOptions) -> Result<ExitCode, Failure> {
    // One that is not there is no reason to come online.
    let Reply::Conversations(all) = quietly(home.clone(), Account::Contacts).await? else {
        return Err(unexpected());
    };
    let name = options.contact.clone();
    if !all.iter().any(|conversation| conversation.name == name) {
        return Err(Failure::other(format!(
            "there is no contact or group '{name}'; 'sotto contacts' lists those there are"
        )));
    }
    let mut link = Link::open(home).await?;
    let attach = Request::Attach { conversation: name, verbose: options.verbose };
    link.send(&attach).await?;
    let Message::Reply(reply) = link.next().await? else { return Err(unexpected()) };
    let Reply::Attached(attached) = reply.into_result()? else { return Err(unexpected()) };
    status(&format!("Ctrl-C leaves the chat with {}; you stay online", options.contact));
    status(&attached.pace);
    if !attached.established {
        status(&format!("{} has not answered yet; what you type waits", options.contact));
    }
    let chat = Chat {
        link,
        input: Some(Lines::new(BufReader::new(stdin()))),
        is_typed: std::io::stdin().is_terminal(),
        options,
        refused: false,
        unshown: attached.unshown,
        waiting: attached.waiting,
        saying: None,
        showing: 0,
        said: HashMap::new(),
    };
    chat.talk().await
}

struct Chat {
    link: Link,
    /// None after its end.
    input: Option<Lines<BufReader<Stdin>>>,
    /// At a terminal.
    is_typed: bool,
    options: ChatOptions,
    /// Whether a line was not sent.
    refused: bool,
    /// Texts from before the chat that come yet.
    unshown: usize,
    /// Texts of the conversation that have not arrived.
    waiting: usize,
    /// What is being handed in.
    saying: Option<Zeroizing<String>>,
    /// Texts that were shown, of which the participant has not said that it knows.
    showing: usize,
    /// How the texts begin that were typed here and have not arrived, by number.
    said: HashMap<u32, Zeroizing<String>>,
}

impl Chat {
    /// Sends and prints until everything is said, or the person wants to leave.
    async fn talk(mut self) -> Result<ExitCode, Failure> {
        let mut interrupted = pin!(interrupted());
        while !self.is_done() {
            // One line at a time, each after what came before it.
            let ready = self.saying.is_none() && self.unshown == 0 && self.waiting < TEXTS_MAX;
            tokio::select! {
                () = &mut interrupted => break,
                message = self.link.next() => self.hear(message?).await?,
                line = next_line(&mut self.input), if ready => match line? {
                    Some(line) => self.say(line).await?,
                    None => self.input = None,
                },
            }
        }
        if self.waiting > 0 {
            status(&format!("{} not arrived yet; they go out while you are online", self.waiting));
        }
        Ok(if self.refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn is_done(&self) -> bool {
        let told = self.saying.is_none() && self.unshown == 0 && self.showing == 0;
        let arrived = self.said.is_empty() || !self.options.wait;
        self.input.is_none() && !self.options.stay && told && arrived
    }

    async fn say(&mut self, line: Line) -> Result<(), Failure> {
        let text = match line {
            Line::Text(text) if text.trim().is_empty() => return Ok(()),
            // As behind an invitation on the input of 'sotto accept --chat', at a server that wants none.
            Line::Text(text) if text.trim().parse::<Token>().is_ok() => {
                self.refuse(
                    "this is a registration token; to give it to somebody, write something before it",
                );
                return Ok(());
            }
            Line::Text(text) if self.is_typed && text.len() >= TYPED_MAX => {
                self.refuse(CUT);
                return Ok(());
            }
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
        self.saying = Some(beginning(&text));
        let conversation = self.options.contact.clone();
        let say = Account::Say { conversation, text: Private(text) };
        self.link.send(&Request::Account(say)).await
    }

    fn refuse(&mut self, why: &str) {
        self.refused = true;
        status(&format!("not sent: {why}"));
    }

    async fn hear(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Told(told) => self.told(told).await,
            Message::Reply(Reply::Queued { sequence, waiting }) => {
                self.waiting = waiting;
                if let Some(said) = self.saying.take() {
                    self.said.insert(sequence, said);
                }
                Ok(())
            }
            Message::Reply(Reply::Done) => {
                self.showing = self.showing.saturating_sub(1);
                Ok(())
            }
            Message::Reply(Reply::Failed(failure))
                if failure.is_refusal() && self.saying.take().is_some() =>
            {
                self.refuse(&failure.message);
                Ok(())
            }
            Message::Reply(reply) => Err(reply.into_result().err().unwrap_or_else(unexpected)),
        }
    }

    async fn told(&mut self, told: Told) -> Result<(), Failure> {
        match told {
            Told::Text(text) => {
                // Only what is out of this program was shown.
                print::text(&text, self.options.json)?;
                self.unshown = self.unshown.saturating_sub(1);
                self.showing += 1;
                let shown = Account::Shown { id: text.id, number: text.number };
                self.link.send(&Request::Account(shown)).await?;
            }
            Told::Unread { conversation, texts } => {
                let texts = if texts == 1 { "1 new text".to_owned() } else { format!("{texts} new texts") };
                status(&format!("{conversation}: {texts}"));
            }
            Told::Arrived { sequence, .. } => {
                self.waiting = self.waiting.saturating_sub(1);
                // What was handed in elsewhere, or is a part of a file, is not named here.
                if let Some(text) = self.said.remove(&sequence) {
                    status(&format!("arrived at {}: {}", self.options.contact, *text));
                }
            }
            Told::Note(Note { line, .. }) | Told::Round(RoundCost { line, .. }) => status(&line),
            Told::Files(files) => files.iter().for_each(|file| status(&print::moving(file))),
            // That is for those who asked for it.
            Told::Said(_)
            | Told::Seen { .. }
            | Told::Audited(_)
            | Told::Step { .. }
            | Told::Connection { .. }
            | Told::Standing(_)
            | Told::Forgotten { .. } => {}
        }
        Ok(())
    }
}

/// Shows what came and nobody has seen.
pub(super) async fn read(home: Option<PathBuf>, contact: Option<String>, json: bool) -> Result<(), Failure> {
    let mut any = false;
    loop {
        let unshown = Account::Unshown { conversation: contact.clone() };
        let Reply::Texts(texts) = quietly(home.clone(), unshown).await? else { return Err(unexpected()) };
        if texts.is_empty() {
            break;
        }
        any = true;
        for text in &texts {
            print::text(text, json)?;
        }
        let shown: BTreeMap<_, _> = texts.iter().map(|text| (text.id, text.number)).collect();
        for (id, number) in shown {
            quietly(home.clone(), Account::Shown { id, number }).await?;
        }
    }
    if !any && !json {
        status("nothing new");
    }
    Ok(())
}

async fn next_line(input: &mut Option<Lines<BufReader<Stdin>>>) -> std::io::Result<Option<Line>> {
    match input {
        Some(lines) => lines.next().await,
        None => core::future::pending().await,
    }
}
