//! What several measurements of Sotto's parts measure with, and how they tell what they found.
//!
//! What is measured has a name: [`engine`] has those of the engines, [`code`] those of the batch codes. [`asking`] is what a
//! client that measures does in a round of a real server, and [`proxy`] is the network between the two. [`cpu`] has the clocks,
//! and [`machine`] says on what machine they ran. [`table`] has numbers for people and for programs, and [`progress`] shows how
//! far a measurement is.
#![forbid(unsafe_code)]

pub mod asking;
pub mod code;
pub mod cpu;
pub mod engine;
pub mod machine;
pub mod progress;
pub mod proxy;
pub mod table;
