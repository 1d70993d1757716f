//! The wire between a client and the round server: gRPC schema, generated code, conversions, size limits and the
//! meaning of refusals. The only crate that sees prost types from the inside.
//!
//! Everything that arrives passes through here once: [`convert`] checks sizes and ranges, [`chunks`] bounds streams,
//! [`status`] says what a refusal means. [`address`] names a server, and [`root`] says what is believed of it.
//!
//! What a person copies is parsed once, and carries the key under which the server is believed:
//!
//! ```
//! use sotto_wire::{Address, AddressError, Transport};
//!
//! let key = "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq";
//! let address: Address = format!("sotto://chat.example.org:7370/{key}").parse()?;
//! assert_eq!(address.transport(), Transport::Tls);
//! assert_eq!(address.authority(), "chat.example.org:7370");
//! assert_eq!(address.root_key().0[..4], [0, 1, 2, 3]);
//! assert_eq!(address.root_key().to_string(), key);
//!
//! // Nothing leaves the machine without encryption.
//! let plain = format!("sotto+plain://chat.example.org:7370/{key}").parse::<Address>();
//! assert_eq!(plain, Err(AddressError::NotLoopback));
//! # Ok::<_, AddressError>(())
//! ```
#![forbid(unsafe_code)]

pub mod address;
mod announced;
pub mod chunks;
pub mod convert;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod register;
pub mod root;
pub mod status;
pub mod token;

/// Code generated from `proto/sotto.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::wildcard_imports,
    reason = "generated code; the schema is documented in its own file"
)]
pub mod proto {
    tonic::include_proto!("sotto.v1");
}

pub use address::{Address, AddressError, Host, Transport};
pub use announced::Announced;
pub use chunks::{Join, StreamError, split};
pub use convert::{Endorsement, Info, Malformed, fixed};
pub use root::RootKey;
pub use status::{Failure, Refused};
pub use token::Token;
