//! The calls of a client to a round server, typed in terms of the protocol: whatever speaks to a server, a chat or a
//! measurement, speaks through here.
//!
//! [`Connection`] reaches a server and checks what it says of itself; [`Session`] makes the calls of one account, each with
//! a deadline and a limit on what it takes in; [`round_spec`] says what a round is to an engine. [`Dial`] is the way out of
//! the machine, behind a seam where tests answer.
//!
//! ```no_run
//! use sotto_session::{Connection, ConnectionSettings, RoundNews};
//! use tokio_stream::StreamExt as _;
//!
//! # async fn rounds() -> Result<(), Box<dyn std::error::Error>> {
//! let address = std::env::args().nth(1).ok_or("no address")?.parse()?;
//! let connection = Connection::open(&ConnectionSettings::new(address)).await?;
//! // The server holds the key in the address, and its parameters are ones to work with.
//! let server = connection.info().await?.parameters;
//! // An account is the seed of its key; a server that has not seen it takes it up now.
//! let session = connection.register(&[7; 32], &server, None, None).await?;
//! let mut news = session.watch().await?;
//! while let Some(news) = news.next().await {
//!     match news? {
//!         RoundNews::Opened { round, .. } => println!("round {round} takes deposits"),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

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

pub use check::{check, engine, verify};
pub use connection::Connection;
pub use dial::{ByteStream, Dial, Dialled, Pending, Tcp};
pub use error::ConnectError;
pub use round_spec::{RoundRefused, round_spec};
pub use session::{Answers, RoundNews, Session};
pub use settings::ConnectionSettings;
pub use sotto_wire::Announced;
