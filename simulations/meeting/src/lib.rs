//! Clients that meet a server which somebody else runs, and go on until they are asked to end: for drills on clusters.
//!
//! [`ledger`] is `sotto-sim ledger`: accounts (`account.rs`) that deposit in every round and retrieve all of it again, a node that
//! is listened to beside them (`node.rs`), a page for each round (`page.rs`) in a book (`book.rs`), the manifests of all nodes
//! (`manifests.rs`), and what is told of it (`tell.rs`). [`demo`] is `sotto-sim demo`: a person who meets another (`meet.rs`) and
//! talks (`chat.rs`). Both find the server by its address, and wait for it, in `target.rs`.
#![forbid(unsafe_code)]

pub mod demo;
pub mod ledger;
mod target;
