//! The server as its callers and its operator see it.

mod backup;
mod calls;
mod changes;
mod cluster;
mod durable;
mod lifecycle;
mod operations;
mod slots;
mod tls;
mod tokens;
