//! What stands in the log, one behind the other, in the encoding of postcard: numbers of variable length, texts with theirs before
//! them, and of each choice its number. Another choice, or another field, is another version of what the log is for
//! (`sotto v1 history`).

use serde::{Deserialize, Serialize};
use sotto_protocol::ConversationId;
use zeroize::Zeroizing;

use crate::daemon::message::Private;

/// Something that happened.
#[derive(Serialize, Deserialize)]
pub(super) enum Record {
    /// A text was said, or came.
    Text(Past),
    /// What became of a text that was said, and the number that it has now.
    Fate { place: u64, sequence: u32, fate: Fate, at_ms: u64 },
    /// So many texts are kept.
    Keep(u32),
    /// Nothing of a conversation is shown, or it is shown again.
    Blocked { id: ConversationId, blocked: bool },
    /// A part of a file came.
    Piece(Piece),
    /// A file that came is in this place, and its parts are not needed any more.
    Saved { id: ConversationId, from: String, file: String, path: String },
    /// A file is to be sent.
    Sending(Sending),
    /// All parts of it before this one were handed in; if it is behind the last, all of it.
    Handed { id: ConversationId, file: String, next: u16 },
}

/// A part of a file that came.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) id: ConversationId,
    pub(super) from: String,
    pub(super) file: String,
    pub(super) number: u16,
    /// How many there are.
    pub(super) parts: u16,
    pub(super) content: Vec<u8>,
}

/// A file on its way.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Sending {
    pub(super) id: ConversationId,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) next: u16,
}

/// A text of the past.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Past {
    /// Rises with each text, and is not used again.
    pub(super) place: u64,
    pub(super) id: ConversationId,
    /// When it was said or came, in milliseconds since 1970; 0 if nobody took note.
    pub(super) at_ms: u64,
    pub(super) by: By,
    pub(super) text: Private,
}

/// Whose text it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum By {
    Me {
        /// Its number in the conversation.
        sequence: u32,
        fate: Fate,
        /// When that became so; 0 if nobody took note.
        at_ms: u64,
    },
    Other {
        from: String,
        /// Among all texts of the account.
        number: u64,
        /// The sender's number for it.
        sequence: u32,
    },
}

/// What became of a text that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fate {
    Waits,
    Arrived,
    /// It was taken back before all of it was sent.
    NotSent,
}

/// [`Record::Text`] of what is not given away for it.
#[derive(Serialize)]
enum Written<'a> {
    Text(&'a Past),
}

impl Past {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        encode(&Written::Text(self))
    }
}

impl Record {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        encode(self)
    }

    /// What [`Record::encode`] made; None of anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Some(record),
            _ => None,
        }
    }
}

fn encode(record: &impl Serialize) -> Zeroizing<Vec<u8>> {
    const PROOF: &str = "a record has neither sequences of unknown length nor types unknown to the format";
    // Measured first, so that no half-written copy is left behind in memory that has been given back.
    let size = postcard::experimental::serialized_size(record).expect(PROOF);
    let mut bytes = Zeroizing::new(vec![0; size]);
    postcard::to_slice(record, &mut bytes).expect("the size was measured");
    bytes
}

/// Any bytes as a record, for what is fuzzed: what is read is written as a record that reads the same.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some(record) = Record::decode(bytes) {
        let written = record.encode();
        assert!(Record::decode(&written).is_some_and(|again| again.encode() == written));
    }
}

/// One that is valid.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn valid() -> Vec<u8> {
    let by = By::Other { from: "bob".to_owned(), number: 7, sequence: 3 };
    let text = Private::new("a text");
    Record::Text(Past { place: 1, id: ConversationId(1), at_ms: 5, by, text }).encode().to_vec()
}
