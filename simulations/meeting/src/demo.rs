//! `sotto-sim demo`: one of two people who talk with each other over a server that runs.

mod chat;
mod meet;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::target::Target;

/// One of two people who become contacts, by an invitation that goes from one to the other as a file, and talk.
///
/// Prints what arrives, until it is asked to end. With --home, a person who comes again goes on where it left.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Who: alice invites, bob accepts.
    #[arg(long = "as", value_enum, value_name = "NAME")]
    person: Person,
    /// The directory in which the invitation is handed over, which nobody else reads.
    #[arg(long, value_name = "DIR")]
    meet: PathBuf,
    /// Where the person's state is kept [default: nowhere].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Person {
    Alice,
    Bob,
}

impl Person {
    const fn name(self) -> &'static str {
        match self {
            Self::Alice => "alice",
            Self::Bob => "bob",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Alice => Self::Bob,
            Self::Bob => Self::Alice,
        }
    }
}

/// The command, until somebody asks it to end.
///
/// # Errors
/// If the server is none to work with, the two cannot meet, or what a person has cannot be kept.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(chat::run(arguments));
    runtime.shutdown_background();
    done
}
