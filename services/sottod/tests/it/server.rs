//! The server as its callers and its operator see it.

mod calls;
mod changes;
mod durable;
mod lifecycle;
mod operations;
mod tls;
mod tokens;
