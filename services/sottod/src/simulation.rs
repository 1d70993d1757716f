//! Proof by fault: the whole server but for its sockets and threads, with clients, in one thread under a simulated
//! clock, on a simulated disk and network that fail as a seed says.
//!
//! ```text
//! world      time, the trace, what went wrong
//! host       the server's clock, which is wrong, and its randomness
//! network    calls that are lost, late, repeated, given up and cut
//! witness    a round log that tells the ledger what it is asked for
//! ledger     what was promised to anybody, and whether it holds
//! server     one life of a server, from its start to its end or crash
//! member     clients that keep to the protocol, with different habits
//! hostile    one that does not
//! scenario   a seed's world, and its whole history over several lives
//! group      several nodes with one log: machines that crash, and a network that is cut
//! ```
//!
//! The server's code is that of production from the generated gRPC service down to the files. What makes a run depend on
//! anything but its seed has a seam: [`Host`](crate::host::Host), [`Compute::inline`](crate::compute::Compute::inline),
//! [`DurableLog::start_inline`](sotto_log::DurableLog::start_inline), [`Disk`](sotto_log::Disk), and tokio's paused
//! clock.

mod group;
mod host;
mod hostile;
mod ledger;
mod member;
mod network;
mod scenario;
mod server;
mod tests;
mod witness;
mod world;
