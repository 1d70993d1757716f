//! Requests and answers in parts: they are longer than the content of one message.
//!
//! ```text
//! part of a request  number, u8 | first 8 bytes of the exchange key | bytes 223 i to 223 i + 222     6 parts
//! part of an answer  number, u8 | bytes 231 i to 231 i + 230                                         5 parts
//! ```
//!
//! In turn t, from 0, number `(t mod 8 + b + floor((floor(b / n) 2654435769 mod 2^32) / 2^16)) mod n` of n is said, `b = floor(t / 8)`,
//! where an answer has six of them, the last of which is no part of it. The last part is as long as what is left. Several people who have an invitation may say requests, and say anything:
//! so a part names its request, at most four of them are gathered at a time, of two parts under one number the last one counts,
//! and of a whole that does not hold the oldest part is dropped. Answers are under keys that nobody else has.

use serde::{Deserialize, Serialize};

use super::handshake::{ANSWER_BYTES, REQUEST_BYTES};
use crate::Error;
use crate::error::Malformed;
use crate::message::PAIR_CONTENT;

/// Requests that are gathered at a time. Who has the invitation, too, can keep another one out as long as it likes, by parts of
/// four others or of the same name between any two of that one: it could as well have been first.
const GATHERED_MAX: usize = 4;

const NAME_BYTES: usize = 8;
const REQUEST: Form = Form { whole: REQUEST_BYTES, part: PAIR_CONTENT - 1 - NAME_BYTES };
const ANSWER: Form = Form { whole: ANSWER_BYTES, part: PAIR_CONTENT - 1 };

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// By what parts of one request are known.
pub(super) type Name = [u8; NAME_BYTES];

/// The part of a request, which begins with the exchange key, that is said in a turn.
pub(super) fn part_of_request(request: &[u8], turn: u32) -> Vec<u8> {
    let (number, part) = REQUEST.part(request, in_turn(turn, REQUEST.parts()));
    [&[number], request.get(..NAME_BYTES).unwrap_or_default(), part].concat()
}

/// The part of an answer that is said in a turn. In one of six it is none, and something else is said.
pub(super) fn part_of_answer(answer: &[u8], turn: u32) -> Option<Vec<u8>> {
    let number = in_turn(turn, ANSWER.parts() + 1);
    (number < ANSWER.parts()).then(|| {
        let (number, part) = ANSWER.part(answer, number);
        [&[number], part].concat()
    })
}

/// Which of so many is said in a turn: one after the other in eight turns, from the next one on each time, and after so many
/// times from any. Otherwise a reader that has the same round of every block alone, or of any other number of rounds, would
/// hear some of them for ever.
fn in_turn(turn: u32, of: usize) -> usize {
    let (block, of) = (turn / 8, of as u32);
    let first = block % of + ((block / of).wrapping_mul(0x9e37_79b9) >> 16);
    ((turn % 8 + first) % of) as usize
}

/// How something is cut.
#[derive(Clone, Copy)]
struct Form {
    whole: usize,
    part: usize,
}

impl Form {
    const fn parts(self) -> usize {
        self.whole.div_ceil(self.part)
    }

    /// # Errors
    /// [`Error::Malformed`] if there is no part of this number, or it has another length.
    fn check(self, number: u8, part: &[u8]) -> Result<(), Error> {
        let length = self.whole.saturating_sub(usize::from(number) * self.part).min(self.part);
        if length == 0 || part.len() != length { Err(MALFORMED) } else { Ok(()) }
    }

    fn part(self, whole: &[u8], number: usize) -> (u8, &[u8]) {
        // There are fewer than 256 parts.
        (number as u8, whole.chunks(self.part).nth(number).unwrap_or_default())
    }
}

/// What has come of something that is said in parts: their numbers and bytes, the one heard last behind the others.
#[derive(Default, Serialize, Deserialize)]
struct Gathered(Vec<(u8, Vec<u8>)>);

impl Gathered {
    /// Takes a part of this number and form, and returns the whole if none is missing.
    fn take(&mut self, number: u8, part: &[u8], form: Form) -> Option<Vec<u8>> {
        self.0.retain(|(other, _)| *other != number);
        self.0.push((number, part.to_vec()));
        let mut parts: Vec<&(u8, Vec<u8>)> = self.0.iter().collect();
        parts.sort_unstable_by_key(|(number, _)| *number);
        (parts.len() == form.parts()).then(|| parts.into_iter().flat_map(|(_, part)| part).copied().collect())
    }

    /// Drops the part that was heard the longest time ago.
    fn drop_oldest(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0);
        }
    }
}

/// The requests of which parts have come, the one heard last behind the others.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Requests(Vec<(Name, Gathered)>);

impl Requests {
    /// Takes a part of a request, and returns the request if it is whole. Since it is not said whether that holds, the part
    /// that was heard the longest time ago is dropped: what somebody else has said under this name goes, and what was said
    /// in a row stays.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is no part, or the whole has another name.
    pub(super) fn take(&mut self, content: &[u8]) -> Result<Option<[u8; REQUEST_BYTES]>, Error> {
        let (number, name, part) = split(content)?;
        REQUEST.check(number, part)?;
        let known = self.0.iter().position(|(known, _)| *known == name);
        let mut gathered = known.map_or_else(Gathered::default, |known| self.0.remove(known).1);
        let whole = gathered.take(number, part, REQUEST);
        if whole.is_some() {
            gathered.drop_oldest();
        }
        if self.0.len() >= GATHERED_MAX {
            self.0.remove(0);
        }
        self.0.push((name, gathered));
        let Some(whole) = whole else { return Ok(None) };
        if !whole.starts_with(&name) {
            return Err(MALFORMED);
        }
        whole.try_into().map(Some).map_err(|_| MALFORMED)
    }
}

fn split(content: &[u8]) -> Result<(u8, Name, &[u8]), Error> {
    let (number, rest) = content.split_first().ok_or(MALFORMED)?;
    let (name, part) = rest.split_first_chunk().ok_or(MALFORMED)?;
    Ok((*number, *name, part))
}

/// Of which request this is a part.
///
/// # Errors
/// [`Error::Malformed`] if it is no part of any.
pub(super) fn name_of(content: &[u8]) -> Result<Name, Error> {
    let (number, name, part) = split(content)?;
    REQUEST.check(number, part).map(|()| name)
}

/// An answer of which parts have come.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Answer(Gathered);

impl Answer {
    /// Takes a part, and returns the answer if it is whole. It is then forgotten.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is no part.
    pub(super) fn take(&mut self, content: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let (number, part) = content.split_first().ok_or(MALFORMED)?;
        ANSWER.check(*number, part)?;
        let whole = self.0.take(*number, part, ANSWER);
        if whole.is_some() {
            self.0 = Gathered::default();
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests;
