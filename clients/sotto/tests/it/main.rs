//! People, programs and servers as they are: real sockets, real processes, real time.
//!
//! What needs no more than simulated time stands in `simulations/worlds`, a process of its own: it takes the whole machine, and here that
//! would make people late.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "inside tests, failing loudly is the point")]

#[cfg(target_os = "linux")]
mod again;
#[cfg(unix)]
mod aside;
mod audit;
#[cfg(unix)]
mod calls;
mod chat;
mod command_line;
mod costs;
#[cfg(unix)]
mod devices;
mod engine;
mod guide;
#[cfg(unix)]
mod history;
mod invariants;
#[cfg(unix)]
mod kills;
#[cfg(unix)]
mod listening;
#[cfg(target_os = "linux")]
mod missed;
#[cfg(unix)]
mod newcomer;
#[cfg(unix)]
mod passphrase;
#[cfg(unix)]
mod presence;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod programs;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(unix)]
mod slots;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod unseen;
mod versions;
