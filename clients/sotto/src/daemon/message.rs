//! What programs and the running participant say to each other over the local socket. Both begin with a [`Greeting`];
//! then every [`Request`] has one [`Reply`], in order, and to an attached program [`Told`] comes in between.

mod request;
mod standing;
mod text;
mod told;

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::cli::failure::Failure;

pub(crate) use request::{Account, Device, Request};
pub(crate) use standing::{
    Attached, Conversation, Invitation, Keys, Kind, Listening, Member, Moving, Standing, Status,
};
pub(crate) use text::{File, Past, PastMark, Quote, Said, Text};
pub(crate) use told::{Audited, Found, Note, RoundCost, Severity, Step, Told};

/// Version of the local protocol: programs and the participant must be of the same.
pub(crate) const VERSION: u16 = 6;

/// The first frame of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The side's [`VERSION`].
    pub(crate) sotto: u16,
    /// Number of the side's process, for the person who has to end it.
    pub(crate) process: u32,
}

impl Greeting {
    /// How long either side waits for it. A process that was stopped takes connections, and says nothing.
    pub(crate) const WITHIN: Duration = Duration::from_secs(10);

    pub(crate) fn ours() -> Self {
        Self { sotto: VERSION, process: std::process::id() }
    }
}

/// A text, an invitation, or a card: wiped when it is gone, and not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Private(pub(crate) Zeroizing<String>);

impl Private {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Private(..)")
    }
}

impl Serialize for Private {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Private {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

/// What becomes of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Done,
    Leaving,
    Status(Status),
    Conversations(Vec<Conversation>),
    Invitations(Vec<Invitation>),
    Identity(String),
    /// In words.
    Pace(String),
    /// In the order in which both sides see them.
    Words(Vec<String>),
    /// With the server's address.
    Invitation(Private),
    Card(Private),
    Accepted {
        /// To whom the invitation leads, if that is somebody known already.
        held: Option<String>,
    },
    Joined {
        /// Name of the group.
        group: String,
    },
    /// A member stays.
    Kept {
        /// Texts of the group that were not sent, and will not be.
        texts: usize,
    },
    Queued {
        /// The text's number in its conversation.
        sequence: u32,
        /// Texts of the conversation that have not arrived, this one among them.
        waiting: usize,
    },
    Texts(Vec<Text>),
    Offered {
        /// Numbers of texts that may have been seen already.
        again: Vec<u64>,
    },
    Past {
        /// In order.
        texts: Vec<Past>,
        /// Whether there are older ones.
        more: bool,
    },
    Sending {
        /// Messages that it takes.
        messages: u64,
        /// How long that is at least, in rounds and by their length.
        rounds: u64,
        seconds: u64,
    },
    Keeps {
        /// The most that are kept.
        most: u32,
        /// Those that there are.
        texts: usize,
    },
    Attached(Attached),
    Listening(Listening),
    /// For one device, and for so many minutes.
    Code {
        code: Private,
        minutes: u64,
    },
    Devices(Vec<super::devices::Device>),
    Auditing {
        /// What to expect.
        pace: String,
    },
    /// It could not be done.
    Failed(Failure),
}

/// What the participant sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Reply(Reply),
    Told(Told),
}
