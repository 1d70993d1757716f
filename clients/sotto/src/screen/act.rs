//! What the screen does: it hears the participant and the keys, draws, and asks what is to be asked.

use core::pin::{Pin, pin};
use core::time::Duration;
use std::collections::VecDeque;
use std::env;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use jiff::ZonedDateTime;
use jiff::tz::TimeZone;
use ratatui::crossterm::event::Event;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::StreamExt as _;
use zeroize::Zeroizing;

use super::draw::draw;
use super::model::{Model, Now};
use super::terminal::Terminal;
use super::update::{Act, Input, Purpose, arrange, offers, update};
use crate::cli::failure::Failure;
use crate::cli::link::Link;
use crate::cli::print::status;
use crate::cli::send::of_file;
use crate::cli::state;
use crate::daemon::message::{Account, Message, Reply, Request};
use crate::daemon::{interrupted, unexpected};

/// How often time that passes is drawn.
const TICK: Duration = Duration::from_secs(1);
/// How often a participant that has ended is looked for; nobody but the person starts another one.
const LOOK_AGAIN_TICKS: u32 = 2;
const LOOKS_FOR: Duration = Duration::from_secs(1);
/// How long a participant is waited for that is to take or to note something, in which nothing is drawn.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// What is heard before it is drawn.
const BATCH: usize = 256;

/// Shows everything until the person leaves.
///
/// # Errors
/// If there is no terminal, or the participant cannot be reached or started.
pub(crate) async fn run(home: Option<PathBuf>) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "a screen needs a terminal; 'sotto chat' and 'sotto listen --json' do without",
        ));
    }
    let mut ended = pin!(interrupted());
    let mut screen = Screen::new(home);
    screen.come().await?;
    // Before the terminal is taken over, so that no signal ends this without giving it back.
    tokio::select! {
        biased;
        () = ended.as_mut() => return Ok(()),
        () = core::future::ready(()) => {}
    }
    let terminal = Terminal::take()?;
    let done = screen.show(terminal, ended.as_mut()).await;
    // On the terminal as it was before.
    for alarm in &screen.model.alarms {
        status(&alarm.line);
    }
    done
}

struct Screen {
    home: Option<PathBuf>,
    model: Model,
    /// None when the participant has ended.
    link: Option<Link>,
    /// What was asked and not answered yet.
    asked: VecDeque<Purpose>,
    /// What is to be done.
    acts: VecDeque<Act>,
}

/// Why the screen stops to show.
enum Leaves {
    /// The person leaves.
    Quit,
    /// To come online, and show again.
    Online,
}

impl Screen {
    fn new(home: Option<PathBuf>) -> Self {
        let colors = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut model = Model::new((80, 24), colors, now());
        model.zone = TimeZone::system();
        Self { home, model, link: None, asked: VecDeque::new(), acts: VecDeque::new() }
    }

    /// Reaches the participant, and starts it if none runs: on the terminal as it is, where that can be told.
    async fn come(&mut self) -> Result<(), Failure> {
        let directory = state::directory(self.home.clone())?;
        let link = match Link::reach(&directory).await? {
            Some(link) => link,
            None => {
                status(
                    "you are not online: starting 'sotto run', which connects and sends keys to the server first",
                );
                Link::open(self.home.clone()).await?
            }
        };
        self.listen(link).await
    }

    async fn listen(&mut self, mut link: Link) -> Result<(), Failure> {
        link.send(&Request::Watch).await?;
        let Message::Reply(reply) = link.next().await? else { return Err(unexpected()) };
        let Reply::Listening(listening) = reply.into_result()? else { return Err(unexpected()) };
        self.link = Some(link);
        self.happens(Input::Attached(listening));
        Ok(())
    }

    fn happens(&mut self, input: Input) {
        self.acts.extend(update(&mut self.model, input, now()));
    }

    /// Shows until the person leaves, or is told to.
    async fn show(
        &mut self,
        mut terminal: Terminal,
        mut ended: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Failure> {
        loop {
            match self.draw_and_hear(&mut terminal, ended.as_mut()).await? {
                Leaves::Quit => return Ok(()),
                Leaves::Online => {
                    // What that says is said on the terminal as it was before.
                    drop(terminal);
                    let came = self.come().await;
                    terminal = Terminal::take()?;
                    if let Err(failure) = came {
                        self.happens(Input::Gone(failure.message));
                    }
                }
            }
        }
    }

    async fn draw_and_hear(
        &mut self,
        terminal: &mut Terminal,
        mut ended: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Leaves, Failure> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut alone = 0;
        loop {
            if let Some(leaves) = self.act(terminal).await? {
                return Ok(leaves);
            }
            // Also when nobody has told it.
            let size = terminal.inner.size()?;
            if (size.width, size.height) != self.model.size {
                self.happens(Input::Resize(size.width, size.height));
            }
            arrange(&mut self.model);
            if let Some(Act::Ask(account, purpose)) = offers(&mut self.model) {
                self.ask(account, purpose).await;
                self.noted().await;
                arrange(&mut self.model);
            }
            let mut drawn = None;
            terminal.inner.draw(|frame| drawn = draw(&self.model, frame))?;
            if let Some(drawn) = drawn {
                self.happens(Input::Drawn(drawn));
                // What was unread is not any more.
                if !self.acts.is_empty() {
                    continue;
                }
            }
            tokio::select! {
                () = &mut ended => return Ok(Leaves::Quit),
                key = terminal.keys.next() => match key {
                    Some(event) => self.typed(event?),
                    // The terminal is gone.
                    None => return Ok(Leaves::Quit),
                },
                message = heard(&mut self.link) => self.hear(message).await,
                _ = ticks.tick() => {
                    self.happens(Input::Tick);
                    alone = if self.link.is_none() { alone + 1 } else { 0 };
                    if alone >= LOOK_AGAIN_TICKS {
                        alone = 0;
                        self.look_again().await;
                    }
                }
            }
        }
    }

    fn typed(&mut self, event: Event) {
        match event {
            Event::Key(key) => self.happens(Input::Key(key)),
            Event::Paste(text) => self.happens(Input::Paste(Zeroizing::new(text))),
            Event::Resize(width, height) => self.happens(Input::Resize(width, height)),
            _ => {}
        }
    }

    /// Takes what the participant says, and what it has said meanwhile, before anything is drawn.
    async fn hear(&mut self, first: Result<Message, Failure>) {
        let mut message = first;
        for left in (0..BATCH).rev() {
            match message {
                Ok(Message::Told(told)) => self.happens(Input::Told(told)),
                Ok(Message::Reply(reply)) => {
                    if let Some(purpose) = self.asked.pop_front() {
                        self.happens(Input::Replied(purpose, reply.into_result()));
                    }
                }
                Err(failure) => return self.lose(&failure),
            }
            if left == 0 {
                return;
            }
            message = match timeout(Duration::ZERO, heard(&mut self.link)).await {
                Ok(next) => next,
                Err(_) => return,
            };
        }
    }

    fn lose(&mut self, failure: &Failure) {
        self.link = None;
        for purpose in core::mem::take(&mut self.asked) {
            let unknown =
                Failure::other("'sotto run' ended before it answered; look whether it waits to arrive");
            self.happens(Input::Replied(purpose, Err(unknown)));
        }
        self.happens(Input::Gone(failure.message.clone()));
    }

    /// Another program may have come online, or the participant come again under other parameters of the server.
    async fn look_again(&mut self) {
        let Ok(directory) = state::directory(self.home.clone()) else { return };
        // One on another machine may not answer at all, and nothing is drawn meanwhile.
        let Ok(reached) = timeout(LOOKS_FOR, Link::reach(&directory)).await else { return };
        match reached {
            Ok(Some(link)) => {
                if let Err(failure) = self.listen(link).await {
                    self.lose(&failure);
                }
            }
            Ok(None) => {}
            Err(failure) => self.happens(Input::Gone(failure.message)),
        }
    }

    /// Does what is to be done.
    async fn act(&mut self, terminal: &mut Terminal) -> Result<Option<Leaves>, Failure> {
        while let Some(act) = self.acts.pop_front() {
            match act {
                Act::Quit => return Ok(Some(Leaves::Quit)),
                Act::Online => return Ok(Some(Leaves::Online)),
                Act::Redraw => terminal.inner.clear()?,
                Act::SendFile(conversation, path) => {
                    let purpose = Purpose::SendFile(conversation.clone());
                    match of_file(conversation, &path) {
                        Ok(account) => self.acts.push_back(Act::Ask(account, purpose)),
                        Err(failure) => self.happens(Input::Replied(purpose, Err(failure))),
                    }
                }
                Act::Ask(account, purpose) => self.ask(account, purpose).await,
            }
        }
        Ok(None)
    }

    async fn ask(&mut self, account: Account, purpose: Purpose) {
        let Some(link) = &mut self.link else { return };
        self.asked.push_back(purpose);
        // A part of a request may have left when there is no more time: then nothing can follow on this connection.
        let sent = timeout(ANSWERS_WITHIN, link.send(&Request::Account(account))).await;
        let stands =
            || Failure::other("'sotto run' takes nothing in: it stands still, or the machine is too busy");
        if let Err(failure) = sent.unwrap_or_else(|_| Err(stands())) {
            self.lose(&failure);
        }
    }

    /// Waits until it is noted that what is drawn next may have been seen. As long as a participant does not answer, the rest is drawn.
    async fn noted(&mut self) {
        let answered = async {
            while self.asked.iter().any(|purpose| matches!(purpose, Purpose::Offer(..))) {
                let message = heard(&mut self.link).await;
                self.hear(message).await;
            }
        };
        let _ = timeout(ANSWERS_WITHIN, answered).await;
    }
}

async fn heard(link: &mut Option<Link>) -> Result<Message, Failure> {
    match link {
        Some(link) => link.next().await,
        None => core::future::pending().await,
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), local: ZonedDateTime::now().datetime() }
}
