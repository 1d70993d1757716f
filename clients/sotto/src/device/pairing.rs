//! What a device that comes for the first time says, and what it hears.

use serde::{Deserialize, Serialize};

use crate::daemon::message::Private;

/// The only frame of a device that is not known.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    /// The secret of the code, in base32.
    pub(crate) secret: Private,
    /// How the participant lists the device.
    pub(crate) name: String,
}

/// The only answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Paired {
    /// It is known from now on.
    Welcome {
        /// Whose account it is.
        of: String,
    },
    /// The secret is none, or no more.
    WrongCode,
    /// Another device has that name.
    NameTaken,
    /// The name cannot be shown.
    NameRefused,
    /// There are too many devices.
    Full,
    /// The participant could not keep it.
    NotKept,
}
