//! A conversation in the memory of the screen: what was said, and how far it was seen.

use std::collections::VecDeque;

use jiff::civil::DateTime;
use zeroize::Zeroizing;

use super::composer::Composer;
use super::wrap::{cut, name, shown, wrap};
use crate::cli::print::filed;
use crate::daemon::message::{self, File, Private, Quote, Standing, Text};
use crate::daemon::reply::Reference;

/// A text.
pub(super) struct Said {
    pub(super) by: By,
    pub(super) text: Zeroizing<String>,
    /// When it came or was written; None if nobody took note.
    pub(super) at: Option<DateTime>,
    /// What it replies to.
    pub(super) quote: Option<Quote>,
    /// The file of which it is the name.
    pub(super) file: Option<File>,
    /// Whether it may have been seen before it came here.
    pub(super) again: bool,
}

impl Said {
    /// Whether this is the same text as another: by its number, and by what it says.
    fn is(&self, other: &Self) -> bool {
        let same = match (&self.by, &other.by) {
            (By::Other { name, number, .. }, By::Other { name: of, number: another, .. }) => {
                number == another && name == of
            }
            (By::Me(one), By::Me(other)) => one.sequence().is_some() && one.sequence() == other.sequence(),
            _ => false,
        };
        same && self.text == other.text
    }
}

/// Whose text it is.
pub(super) enum By {
    /// One that came, with its number among all texts of the account.
    Other {
        name: String,
        number: u64,
        /// The sender's number for it.
        sequence: u32,
    },
    Me(Fate),
}

/// What became of a text of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is being handed in.
    Handing,
    /// It was handed in, under this number.
    Queued(u32),
    /// It has arrived, under this number.
    Arrived(u32),
    /// The participant has not taken it, or it was given up before it was sent.
    Refused,
}

impl Fate {
    fn sequence(self) -> Option<u32> {
        match self {
            Self::Queued(sequence) | Self::Arrived(sequence) => Some(sequence),
            Self::Handing | Self::Refused => None,
        }
    }
}

/// What is shown of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Handing,
    Queued,
    Sent,
    Arrived,
    Refused,
}

/// The number of the first text that comes to a screen. Those that were said before have numbers below.
const FIRST: u64 = 1 << 32;

/// A row of a conversation: of which text, by a number that rises from text to text, and which of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) text: u64,
    pub(super) row: usize,
}

/// What a row shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Another day begins.
    Day(DateTime),
    /// What is below came while nobody looked.
    New,
    /// What is below may have been seen: a program that had it is gone, and did not say whether it showed it.
    Again,
    /// What the text replies to.
    Quote(String),
    /// A part of the text; whether it is the first.
    Part(String, bool),
}

/// How far what was said before a screen came was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// All from this place on is there; None if nothing was asked for yet.
    pub(super) place: Option<u64>,
    /// Whether there may be older texts.
    pub(super) more: bool,
    /// Whether they are being asked for.
    pub(super) asked: bool,
}

pub(super) struct Thread {
    pub(super) standing: Standing,
    texts: VecDeque<Said>,
    /// Number of the first text that is kept.
    first: u64,
    /// All before it was drawn.
    pub(super) seen: Place,
    /// Up to this number it is noted of texts of others that they are drawn, and up to this one that was asked for.
    offered: u64,
    asked: u64,
    /// Texts of others behind that.
    unseen: usize,
    /// The top row; None as long as the end is shown.
    pub(super) top: Option<Place>,
    /// The first text that nobody had seen when the conversation was opened.
    pub(super) new: Option<u64>,
    pub(super) composer: Composer,
    /// How far what was said before is here.
    pub(super) before: Before,
    bytes: usize,
    /// Columns of texts when they were shown last.
    width: usize,
}

impl Thread {
    pub(super) fn new(standing: Standing) -> Self {
        Self {
            standing,
            texts: VecDeque::new(),
            first: FIRST,
            seen: Place { text: FIRST, row: 0 },
            offered: 0,
            asked: 0,
            unseen: 0,
            top: None,
            new: None,
            composer: Composer::default(),
            before: Before { place: None, more: true, asked: false },
            bytes: 0,
            width: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.standing.conversation.name
    }

    /// Texts of others that were not drawn.
    pub(super) fn unseen(&self) -> usize {
        self.unseen
    }

    /// How many texts are kept, and how many bytes these are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.texts.len(), self.bytes)
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number behind the last text.
    pub(super) fn end(&self) -> u64 {
        self.first + self.texts.len() as u64
    }

    pub(super) fn get(&self, text: u64) -> Option<&Said> {
        self.texts.get(usize::try_from(text.checked_sub(self.first)?).ok()?)
    }

    /// Takes a text that came. One that is there already, because it comes again after a connection was lost, is not taken
    /// twice; then, if it was drawn before, this gives its number.
    pub(super) fn take(&mut self, text: Text, at: Option<DateTime>) -> Option<u64> {
        let there = self.texts.iter().enumerate().rev().find_map(|(place, said)| match &said.by {
            By::Other { name, number, .. } if *number <= text.number => {
                Some((place, *number == text.number && *name == text.from && *said.text == *text.text.0))
            }
            _ => None,
        });
        if let Some((place, true)) = there {
            return (self.first + (place as u64) < self.seen.text).then_some(text.number);
        }
        self.unseen += 1;
        let by = By::Other { name: text.from, number: text.number, sequence: text.sequence };
        self.push(Said { by, text: text.text.0, at, quote: text.quote, file: text.file, again: text.again });
        None
    }

    /// Takes a text of one's own, which is being handed in; its place.
    pub(super) fn say(&mut self, text: Zeroizing<String>, at: DateTime, quote: Option<Quote>) -> u64 {
        self.push(Said { by: By::Me(Fate::Handing), text, at: Some(at), quote, file: None, again: false });
        self.end() - 1
    }

    /// Takes a text of one's own that any program has handed in, if it is not there: what was handed in here is.
    pub(super) fn take_said(&mut self, said: message::Said, at: Option<DateTime>) {
        let by = By::Me(Fate::Queued(said.sequence));
        let said = Said { by, text: said.text.0, at, quote: said.quote, file: said.file, again: false };
        if !self.texts.iter().rev().any(|here| here.is(&said)) {
            self.push(said);
        }
    }

    fn push(&mut self, said: Said) {
        self.bytes += said.text.len();
        self.texts.push_back(said);
    }

    /// Takes texts that were said before all that are here, in order, but for those that are here already. All of them were seen.
    pub(super) fn take_before(&mut self, texts: Vec<Said>) {
        // Pages follow each other without a gap, so that only what came since can be in one.
        let since = usize::try_from(FIRST.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let is_here = |said: &Said| self.texts.iter().skip(since).any(|here| here.is(said));
        let mut new: Vec<Said> = texts.into_iter().filter(|said| !is_here(said)).collect();
        while let Some(said) = new.pop() {
            self.bytes += said.text.len();
            self.first -= 1;
            self.texts.push_front(said);
        }
    }

    /// The text of somebody else that came so many before the last, and how a reply names it.
    pub(super) fn referred(&self, back: usize) -> Option<(Reference, Quote)> {
        let mut others = self.texts.iter().rev().filter(|said| matches!(said.by, By::Other { .. }));
        let said = others.nth(back)?;
        let By::Other { name, sequence, .. } = &said.by else { return None };
        let whose = self.standing.conversation.whose(Some(name))?;
        let quote = Quote { from: Some(name.clone()), text: Some(Private(said.text.clone())), sought: None };
        Some((Reference::to(whose, *sequence, &said.text), quote))
    }

    /// What became of a text of one's own that was handed in.
    pub(super) fn settle(&mut self, text: u64, fate: Fate) {
        let place = text.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(Said { by: By::Me(own), .. }) = place.and_then(|place| self.texts.get_mut(place)) {
            *own = fate;
        }
    }

    /// One's own text of this number has arrived.
    pub(super) fn arrived(&mut self, sequence: u32) {
        for said in self.texts.iter_mut().rev() {
            if let By::Me(fate @ Fate::Queued(_)) = &mut said.by
                && *fate == Fate::Queued(sequence)
            {
                *fate = Fate::Arrived(sequence);
                return;
            }
        }
    }

    /// What is shown beside a text.
    pub(super) fn mark(&self, said: &Said) -> Mark {
        match said.by {
            By::Other { .. } => Mark::None,
            By::Me(Fate::Handing) => Mark::Handing,
            By::Me(Fate::Queued(sequence)) if sequence <= self.standing.sent => Mark::Sent,
            By::Me(Fate::Queued(_)) => Mark::Queued,
            By::Me(Fate::Arrived(_)) => Mark::Arrived,
            By::Me(Fate::Refused) => Mark::Refused,
        }
    }

    /// The number of the last text of others that is drawn next in so many rows, if it was not before, and that is to be noted.
    pub(super) fn offer(&mut self, rows: usize, width: usize) -> Option<u64> {
        let to = self.below(self.top_row(rows, width), rows, width);
        let end = if to.row > 0 { to.text + 1 } else { to.text };
        let numbers = (self.seen.text..end).filter_map(|text| match self.get(text)?.by {
            By::Other { number, .. } => Some(number),
            By::Me(_) => None,
        });
        let last = numbers.max();
        let last = last.filter(|last| *last > self.asked)?;
        self.asked = last;
        Some(last)
    }

    /// It is noted up to this number, and these may have been seen before; or it could not be.
    pub(super) fn noted(&mut self, number: Option<u64>, again: &[u64]) {
        self.offered = self.offered.max(number.unwrap_or_default());
        self.asked = self.offered;
        for said in &mut self.texts {
            said.again |= matches!(&said.by, By::Other { number, .. } if again.contains(number));
        }
    }

    /// Whether a text may be drawn: one that was not before has to be noted first.
    pub(super) fn may_draw(&self, text: u64) -> bool {
        let number = self.get(text).and_then(|said| match said.by {
            By::Other { number, .. } => Some(number),
            By::Me(_) => None,
        });
        text < self.seen.text || number.is_none_or(|number| number <= self.offered)
    }

    /// Another program has shown the texts of others up to this number.
    pub(super) fn seen_elsewhere(&mut self, number: u64) {
        let is_of_it = |text: &u64| {
            self.get(*text)
                .is_some_and(|said| matches!(said.by, By::Other { number: of_it, .. } if of_it <= number))
        };
        let last = (self.seen.text.max(self.first)..self.end()).rev().find(is_of_it);
        if let Some(last) = last {
            self.saw(Place { text: last + 1, row: 0 });
        }
    }

    /// Everything before this place was drawn. Gives the number of the last text of others that was drawn as a whole, if
    /// there is one more than before.
    pub(super) fn saw(&mut self, to: Place) -> Option<u64> {
        let mut last = None;
        for text in self.seen.text..to.text.min(self.end()) {
            if let Some(Said { by: By::Other { number, .. }, .. }) = self.get(text) {
                last = Some(*number);
                self.unseen = self.unseen.saturating_sub(1);
            }
        }
        self.seen = self.seen.max(to);
        last
    }

    /// Forgets the oldest text if it was seen.
    pub(super) fn forget_oldest(&mut self) -> bool {
        if self.first >= self.seen.text {
            return false;
        }
        let Some(oldest) = self.texts.pop_front() else { return false };
        self.bytes -= oldest.text.len();
        self.first += 1;
        // What follows what was kept before is not there any more.
        self.before.more = false;
        if self.top.is_some_and(|top| top.text < self.first) {
            self.top = Some(Place { text: self.first, row: 0 });
        }
        true
    }

    /// The rows of a text at a width. They follow from it and the one before it.
    pub(super) fn rows(&self, text: u64, width: usize) -> Vec<Row> {
        let Some(said) = self.get(text) else { return Vec::new() };
        let mut rows = Vec::new();
        let before = text.checked_sub(1).and_then(|before| self.get(before)?.at);
        if let (Some(at), Some(before)) = (said.at, before)
            && at.date() != before.date()
        {
            rows.push(Row::Day(at));
        }
        if self.new == Some(text) {
            rows.push(Row::New);
        }
        if said.again {
            rows.push(Row::Again);
        }
        rows.extend(said.quote.as_ref().map(|quote| Row::Quote(quoted(quote, width))));
        if let Some(file) = &said.file {
            let came = matches!(said.by, By::Other { .. });
            rows.extend(wrap(filed(Some(file), came).trim_start(), width).into_iter().map(Row::Quote));
        }
        let parts = wrap(&said.text, width).into_iter().enumerate();
        rows.extend(parts.map(|(place, part)| Row::Part(part, place == 0)));
        rows
    }

    /// The place so many rows above, or the first.
    pub(super) fn above(&self, place: Place, rows: usize, width: usize) -> Place {
        let (mut text, mut left) = (place.text.min(self.end()), rows);
        let mut row = if text == place.text { place.row } else { 0 };
        loop {
            if row >= left {
                return Place { text, row: row - left };
            }
            left -= row;
            if text <= self.first {
                return Place { text: self.first, row: 0 };
            }
            text -= 1;
            row = self.rows(text, width).len();
        }
    }

    /// The place so many rows below, or the end.
    pub(super) fn below(&self, place: Place, rows: usize, width: usize) -> Place {
        let (mut text, mut row) = (place.text.max(self.first), place.row + rows);
        while text < self.end() {
            let length = self.rows(text, width).len();
            if row < length {
                return Place { text, row };
            }
            row -= length;
            text += 1;
        }
        Place { text: self.end(), row: 0 }
    }

    /// The top row of what is shown in so many rows.
    pub(super) fn top_row(&self, rows: usize, width: usize) -> Place {
        let end = Place { text: self.end(), row: 0 };
        let last = self.above(end, rows, width);
        self.top.map_or(last, |top| top.min(last).max(Place { text: self.first, row: 0 }))
    }

    /// Shows the end, as far as nothing is passed over that was not seen.
    pub(super) fn follow(&mut self, rows: usize, width: usize) {
        let last = self.above(Place { text: self.end(), row: 0 }, rows, width);
        match self.top {
            Some(top) if top >= last && self.seen >= last => self.top = None,
            None if self.unseen > 0 && self.seen < last => self.top = Some(self.seen),
            _ => {}
        }
    }

    /// The first text of others that was not drawn.
    pub(super) fn first_unseen(&self) -> Option<u64> {
        let is_other = |text: &u64| self.get(*text).is_some_and(|said| matches!(said.by, By::Other { .. }));
        (self.seen.text.max(self.first)..self.end()).find(is_other).filter(|_| self.unseen > 0)
    }

    /// Texts are shown in so many columns from now on.
    pub(super) fn set_width(&mut self, width: usize) {
        if core::mem::replace(&mut self.width, width) != width {
            self.reflow();
        }
    }

    /// What counts in rows of another width holds no more: what is half seen is seen again.
    fn reflow(&mut self) {
        self.seen.row = 0;
        if let Some(top) = &mut self.top {
            top.row = 0;
        }
    }
}

/// What a text replies to, in one row.
fn quoted(quote: &Quote, width: usize) -> String {
    let who = quote.from.as_deref().map_or_else(|| "you".to_owned(), |from| name(from, width / 2));
    let said = match &quote.text {
        Some(text) => format!("{who}: {}", shown(&text.0).replace('\n', " ")),
        None => format!("something earlier of {who}"),
    };
    cut(&said, width)
}
