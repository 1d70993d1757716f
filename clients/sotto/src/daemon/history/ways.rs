//! How far files are that come and go.

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, Waiting};

use super::History;
use super::files::Going;
use crate::daemon::message::Moving;
use crate::daemon::notes::{content_of, left};
use crate::daemon::parcel::{self, Part, Says};

/// What the history knows of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    going: Vec<(ConversationId, Leaves)>,
    coming: Vec<(ConversationId, Moving)>,
}

/// A file of which not all was handed in.
#[derive(Clone, Debug)]
struct Leaves {
    file: String,
    name: String,
    /// The first part that was not handed in.
    next: u16,
    parts: u16,
    /// Bytes of the texts by which all of it is sent.
    lengths: Vec<usize>,
}

/// A file with parts that have not arrived.
struct Waits {
    file: String,
    name: Option<String>,
    /// The first of them.
    first: u16,
    parts: u16,
    /// Messages until its last that waits.
    messages: u64,
}

impl History {
    pub(crate) fn ways(&self) -> Ways {
        let kept = self.kept();
        let going = kept.sending.iter().map(|Going { sending, file }| {
            let lengths = parcel::lengths(sending.content.len(), sending.name.len()).collect();
            let (file, name, next) = (file.clone(), sending.name.clone(), sending.next);
            (sending.id, Leaves { file, name, next, parts: parcel::parts(sending.content.len()), lengths })
        });
        let coming = kept.pieces.iter().filter(|coming| coming.is_alive).map(|coming| {
            let there = u16::try_from(coming.parts.len()).unwrap_or(u16::MAX);
            let from = Some(coming.from.clone());
            (coming.id, Moving { name: None, from, there, parts: coming.all, seconds: None })
        });
        Ways { going: going.collect(), coming: coming.collect() }
    }
}

impl Ways {
    /// Of one conversation: those that go in the order in which they do, and those that come.
    pub(crate) fn of(&self, client: &Client, id: ConversationId) -> Vec<Moving> {
        let waiting = client.outgoing_texts(id).map_or_else(|_| Vec::new(), |outgoing| outgoing.waiting);
        let each = content_of(client, id);
        let messages = |length: usize| length.div_ceil(each) as u64;
        let (mut waits, mut ahead) = waits(&waiting, messages);
        let mut moving = Vec::new();
        for (_, leaves) in self.going.iter().filter(|(of, _)| *of == id) {
            let first =
                waits.iter().position(|waits| waits.file == leaves.file).map(|at| waits.remove(at).first);
            let next = usize::from(leaves.next);
            ahead += leaves.lengths.iter().skip(next).map(|length| messages(*length)).sum::<u64>();
            moving.push(Moving {
                name: Some(leaves.name.clone()),
                from: None,
                there: first.unwrap_or(leaves.next).min(leaves.parts),
                parts: leaves.parts,
                seconds: Some(left(client, ahead).1),
            });
        }
        // What was handed in as a whole goes first.
        let whole = waits.into_iter().map(|waits| Moving {
            name: waits.name,
            from: None,
            there: waits.first,
            parts: waits.parts,
            seconds: Some(left(client, waits.messages).1),
        });
        let coming = self.coming.iter().filter(|(of, _)| *of == id).map(|(_, moving)| moving.clone());
        whole.chain(moving).chain(coming).collect()
    }
}

/// Files among texts that wait, and messages of all these texts. What was sent has only to arrive.
fn waits(waiting: &[Waiting], messages: impl Fn(usize) -> u64) -> (Vec<Waits>, u64) {
    let (mut waits, mut all) = (Vec::<Waits>::new(), 0);
    for text in waiting {
        all += if text.sent { 0 } else { messages(text.text.len()) };
        let Some(Part { file, number, parts, says }) = parcel::read(&text.text) else { continue };
        let name = match says {
            Says::End { name, .. } => Some(name),
            Says::Content(_) => None,
        };
        match waits.iter_mut().find(|waits| waits.file == file) {
            Some(known) => (known.name, known.messages) = (name.or_else(|| known.name.take()), all),
            None => waits.push(Waits { file, name, first: number, parts, messages: all }),
        }
    }
    (waits, all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use sotto_protocol::UnixMillis;
    use sotto_protocol::client::{Unshown, Waiting};

    use super::super::files::hand_in;
    use super::super::{History, Stand};
    use super::waits;
    use crate::daemon::message::Moving;
    use crate::daemon::notes::{content_of, left};
    use crate::daemon::parcel::Parcel;
    use crate::testing::client;

    /// What is said is never more than has arrived, and never less time than it takes.
    #[test]
    fn of_what_waits_the_first_part_is_the_one_that_has_not_arrived() {
        let parcel = Parcel::new("map.png", vec![7; 5000]).unwrap();
        let text = |number: u16, sent| Waiting { sequence: 0, text: parcel.text(number).to_string(), sent };
        let other = Waiting { sequence: 0, text: "x".repeat(500), sent: false };
        let waiting = [text(2, true), other, text(3, false), text(4, false)];
        let (found, all) = waits(&waiting, |length| length.div_ceil(232) as u64);
        let [file] = &found[..] else { panic!() };
        assert_eq!((file.first, file.parts, file.name.as_deref()), (2, 4, Some("map.png")));
        let messages = |number: u16| parcel.text(number).len().div_ceil(232) as u64;
        assert_eq!((file.messages, all), (3 + messages(3) + messages(4), file.messages));
        // A text behind it does not hold it up.
        let behind = Waiting { sequence: 0, text: "x".to_owned(), sent: false };
        let (found, more) = waits(&[text(4, false), behind], |length| length.div_ceil(232) as u64);
        assert_eq!((found[0].messages, more), (messages(4), messages(4) + 1));
    }

    #[test]
    fn files_that_go_are_told_with_what_goes_before_them() {
        let home = tempfile::tempdir().unwrap();
        let (history, _) = History::open(home.path(), &[9; 32]);
        let mut alice = client("alice");
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        alice.invite("bob", UnixMillis(0), &mut rng).unwrap();
        let id = alice.find("bob").unwrap();
        let [one, two] = ["one", "two"].map(|name| Parcel::new(name, vec![7; 5000]).unwrap());
        for parcel in [&one, &two] {
            history.send(id, parcel).unwrap();
        }
        let each = content_of(&alice, id);
        let [first, second] = [&one, &two].map(|parcel| parcel.messages(each));
        let going = |name: &str, messages| Moving {
            name: Some(name.to_owned()),
            from: None,
            there: 0,
            parts: 4,
            seconds: Some(left(&alice, messages).1),
        };
        let expected = [going("one", first), going("two", first + second)];
        assert_eq!(history.ways().of(&alice, id), expected);
        // Handing parts in makes none of them arrive.
        let mut next = 0;
        while next <= one.parts() {
            next = hand_in(&mut alice, id, &one, next).unwrap().max(next);
            history.handed(id, &one, next).unwrap();
            if next <= one.parts() {
                alice.queue_text(id, &one.text(next)).unwrap();
                next += 1;
                history.handed(id, &one, next).unwrap();
            }
            assert_eq!(history.ways().of(&alice, id), expected, "{next}");
        }
        assert!(history.ways().of(&alice, alice.find("bob").unwrap()).len() == 2);
    }

    #[test]
    fn of_a_file_that_comes_its_parts_are_counted_until_it_ends_or_nobody_sends_it_any_more() {
        let home = tempfile::tempdir().unwrap();
        let (history, _) = History::open(home.path(), &[9; 32]);
        let mut alice = client("alice");
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        alice.invite("bob", UnixMillis(0), &mut rng).unwrap();
        let id = alice.find("bob").unwrap();
        let parcel = Parcel::new("map.png", vec![7; 5000]).unwrap();
        let comes = |history: &History, number: u16| {
            let (from, text) = ("bob".to_owned(), parcel.text(number).to_string());
            let text =
                Unshown { number: number.into(), conversation: id, from, text, sequence: number.into() };
            history.settle(&Stand::with(id, vec![text]), None).unwrap();
            let come = history.ways().of(&alice, id);
            come.into_iter().map(|it| (it.from.unwrap(), it.there, it.parts)).collect::<Vec<_>>()
        };
        for number in 0..2 {
            assert_eq!(comes(&history, number), [("bob".to_owned(), number + 1, 4)]);
        }
        drop(history);
        let (history, _) = History::open(home.path(), &[9; 32]);
        assert!(history.ways().of(&alice, id).is_empty(), "perhaps nobody sends it any more");
        assert_eq!(comes(&history, 3), [("bob".to_owned(), 3, 4)]);
        // Its end without the part that is missing.
        assert!(comes(&history, 4).is_empty());
        assert_eq!(comes(&history, 2), [("bob".to_owned(), 4, 4)]);
        assert!(comes(&history, 4).is_empty());
    }
}
