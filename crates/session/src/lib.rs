//! The calls of a client to a round server, typed in terms of the protocol: whatever speaks to a server, a chat or a
//! measurement, speaks through here.
//!
//! [`Connection`] reaches a server and checks what it says of itself; [`Session`] makes the calls of one account, each with
//! a deadline and a limit on what it takes in; [`round_spec`] says what a round is to an engine. [`Dial`] is the way out of
//! the machine, behind a seam where tests answer.
#![forbid(unsafe_code)]

mod announced;
mod check;
mod connection;
mod dial;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod round_spec;
mod session;
mod settings;
mod transport;

pub use announced::Announced;
pub use check::{check, engine, verify};
pub use connection::Connection;
pub use dial::{ByteStream, Dial, Dialled, Pending, Tcp};
pub use error::ConnectError;
pub use round_spec::{RoundRefused, round_spec};
pub use session::{Answers, RoundNews, Session};
pub use settings::ConnectionSettings;
