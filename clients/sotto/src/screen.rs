//! The screen: a program of the running participant that shows all conversations at once.
//!
//! What happens becomes an `update::Input`, which `update` makes of the `model` what it is then; `draw` puts it on
//! the terminal, and says what is seen there; what is to be done beyond that, `act` does.

mod accept;
mod act;
mod backend;
mod command;
mod composer;
mod draw;
mod invite;
mod layout;
mod model;
mod past;
mod search;
#[doc(hidden)]
pub mod stage;
mod terminal;
#[cfg(test)]
mod tests;
mod thread;
mod update;
mod wrap;

pub(crate) use act::run;
