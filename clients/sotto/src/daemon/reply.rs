//! Replies: texts that name another text. The name stands in the text's own bytes, and so a reply is sent like any text of its
//! length.
//!
//! ```text
//! reply     = U+0002 ">" | whose | number, decimal | "." | check | U+0003 | what is said
//! whose     = "m", the writer's own; "y", of a conversation of two, the other's; member's number in the group, decimal, and ":"
//! check     = 4 characters of base 32, the first 20 bits of SHA-256("sotto v1 quoted" | 0 | the named text without its own reply)
//! ```
//!
//! Whoever has no text of that number, or another one, shows what is said as a reply to something earlier. What only begins
//! like a reply is a text as it is.

use sha2::{Digest as _, Sha256};
use sotto_protocol::ConversationId;
use sotto_protocol::base32::BASE32;
use sotto_protocol::client::Client;

const DOMAIN: &[u8] = b"sotto v1 quoted\0";
const CHECK_CHARACTERS: usize = 4;
const BEGIN: &str = "\u{2}>";
const END: char = '\u{3}';

/// A text, by what its reader can tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) whose: Whose,
    /// Its writer's number for it.
    pub(crate) sequence: u32,
    pub(crate) check: String,
}

/// Whose text it is, as the writer of the reply says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Mine,
    Yours,
    Member(u8),
}

/// Whose text it is for who reads the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// This person's.
    Me,
    Other(String),
}

impl Writer {
    /// None of this person's.
    pub(crate) fn name(self) -> Option<String> {
        match self {
            Self::Me => None,
            Self::Other(name) => Some(name),
        }
    }
}

/// Who is in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Of the contact or group.
    name: String,
    /// Of the members of a group, by number.
    members: Vec<String>,
    /// This person's number.
    me: Option<u8>,
}

impl Roster {
    pub(crate) fn of(client: &Client, id: ConversationId) -> Self {
        let named = client.conversations().into_iter().find(|conversation| conversation.id == id);
        let (all, mine) = (client.members(id), client.identity());
        Self {
            name: named.map_or_else(|| "?".to_owned(), |conversation| conversation.name),
            me: all.iter().find(|member| member.identity == mine).map(|member| member.number),
            members: all.into_iter().map(|member| member.name).collect(),
        }
    }
}

impl Roster {
    pub(crate) fn is_group(&self) -> bool {
        !self.members.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn group(members: &[&str], me: u8) -> Self {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        Self { name: "group".to_owned(), members, me: Some(me) }
    }
}

impl Reference {
    /// To a text, with or without its own reply.
    pub(crate) fn to(whose: Whose, sequence: u32, text: &str) -> Self {
        Self { whose, sequence, check: check(text) }
    }

    /// What is sent.
    pub(crate) fn write(&self, said: &str) -> String {
        let whose = match self.whose {
            Whose::Mine => "m".to_owned(),
            Whose::Yours => "y".to_owned(),
            Whose::Member(number) => format!("{number}:"),
        };
        format!("{BEGIN}{whose}{}.{}{END}{said}", self.sequence, self.check)
    }

    /// Whose text it is, if one who is in a conversation has written this there.
    pub(crate) fn writer(&self, roster: &Roster, by: &Writer) -> Writer {
        match (self.whose, by) {
            (Whose::Mine, by) => by.clone(),
            (Whose::Yours, Writer::Me) => Writer::Other(roster.name.clone()),
            (Whose::Yours, Writer::Other(_)) => Writer::Me,
            (Whose::Member(number), _) if roster.me == Some(number) => Writer::Me,
            (Whose::Member(number), _) => {
                let named = roster.members.get(usize::from(number));
                Writer::Other(named.cloned().unwrap_or_else(|| "?".to_owned()))
            }
        }
    }

    /// Whether this is the text that it names, by what it says.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.check == check(text)
    }
}

/// Takes a text apart.
pub(crate) fn read(text: &str) -> (Option<Reference>, &str) {
    match parse(text) {
        Some((reference, said)) => (Some(reference), said),
        None => (None, text),
    }
}

fn parse(text: &str) -> Option<(Reference, &str)> {
    let (name, said) = text.strip_prefix(BEGIN)?.split_once(END)?;
    let (number, check) = name.rsplit_once('.')?;
    let (whose, number) = if let Some(number) = number.strip_prefix('m') {
        (Whose::Mine, number)
    } else if let Some(number) = number.strip_prefix('y') {
        (Whose::Yours, number)
    } else {
        let (member, number) = number.split_once(':')?;
        (Whose::Member(canonical(member)?), number)
    };
    let is_check = check.len() == CHECK_CHARACTERS && check.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let sequence = canonical(number)?;
    is_check.then(|| (Reference { whose, sequence, check: check.to_owned() }, said))
}

/// The longest beginning of a text that has at most so many bytes.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// A number as it prints.
pub(super) fn canonical<T: core::str::FromStr + core::fmt::Display>(text: &str) -> Option<T> {
    text.parse::<T>().ok().filter(|number| number.to_string() == text)
}

fn check(text: &str) -> String {
    let digest = Sha256::new_with_prefix(DOMAIN).chain_update(read(text).1).finalize();
    BASE32.encode(&digest).chars().take(CHECK_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::{Reference, Roster, Whose, Writer, read};
    use crate::testing::client;
    use sotto_protocol::UnixMillis;

    #[test]
    fn a_reply_is_read_as_it_was_written_and_nothing_else_is_one() {
        for whose in [Whose::Mine, Whose::Yours, Whose::Member(0), Whose::Member(16)] {
            let reference = Reference::to(whose, 4_000_000_000, "what was said");
            let text = reference.write("what is said to it\u{3}");
            assert_eq!(read(&text), (Some(reference.clone()), "what is said to it\u{3}"));
            // A reply to a reply names what it says, not what it replies to.
            assert!(reference.fits(&Reference::to(Whose::Mine, 1, "x").write("what was said")));
            assert!(!reference.fits("what was said?"));
        }
        for none in [
            "",
            "m5.abcd",
            "\u{2}>m5.abcd",
            "\u{2}>m05.abcd\u{3}x",
            "\u{2}>m5.abc\u{3}x",
            "\u{2}>m5.ab\u{2}d\u{3}x",
            "\u{2}>5.abcd\u{3}x",
            "\u{2}>300:5.abcd\u{3}x",
            "\u{2}>m99999999999.abcd\u{3}x",
            "\u{2}>m5abcd\u{3}x",
        ] {
            assert_eq!(read(none), (None, none));
        }
    }

    #[test]
    fn who_wrote_what_is_named_follows_from_who_names_it() {
        let (mut alice, now) = (client("alice"), UnixMillis(0));
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        alice.invite("bob", now, &mut rng).unwrap();
        let id = alice.find("bob").unwrap();
        let (me, bob) = (Writer::Me, Writer::Other("bob".to_owned()));
        let roster = Roster::of(&alice, id);
        let by = |whose, by: &Writer| Reference::to(whose, 1, "").writer(&roster, by);
        assert_eq!(by(Whose::Mine, &me), me);
        assert_eq!(by(Whose::Mine, &bob), bob);
        assert_eq!(by(Whose::Yours, &me), bob);
        assert_eq!(by(Whose::Yours, &bob), me);
        let nobody = Writer::Other("?".to_owned());
        assert_eq!(by(Whose::Member(0), &bob), nobody);
        let members = [("carol".to_owned(), client("carol").identity())];
        let mut alice = client("alice");
        alice.create_group("desk", &members, &mut rng).unwrap();
        let id = alice.find("desk").unwrap();
        let roster = Roster::of(&alice, id);
        let by = |whose| Reference::to(whose, 1, "").writer(&roster, &Writer::Me);
        let named: Vec<_> = (0..2).map(|number| by(Whose::Member(number))).collect();
        assert!(
            named.contains(&Writer::Me) && named.contains(&Writer::Other("carol".to_owned())),
            "{named:?}"
        );
        assert_eq!(by(Whose::Member(2)), nobody);
    }
}
