//! The wire between a client and the round server: gRPC schema, generated code, conversions, size limits and the
//! meaning of refusals. The only crate that sees prost types from the inside.
//!
//! Everything that arrives passes through here once: [`convert`] checks sizes and ranges, [`chunks`] bounds streams,
//! [`status`] says what a refusal means. [`address`] names a server, and [`root`] says what is believed of it.
#![forbid(unsafe_code)]

pub mod address;
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
pub use chunks::{Join, StreamError, split};
pub use convert::{Endorsement, Info, Malformed, fixed};
pub use root::RootKey;
pub use status::{Failure, Refused};
pub use token::Token;
