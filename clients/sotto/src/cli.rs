//! The command line.
//!
//! Results go to standard output, everything else to standard error, an error in one line that says what to do. Exit
//! codes: 0 done; 1 failed; 2 wrong usage; 3 the server cannot be reached; 4 the state directory is missing, in use or
//! damaged; 5 the server is not to be used (another key, version, engine, or parameters).

mod account;
mod chat;
mod failure;
mod group;
mod input;
mod print;
mod state;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::{Address, demo};
use failure::Failure;

/// Metadata-private chat: the server does not learn who talks with whom, how often, or when.
///
/// Start with 'sotto init', then 'sotto invite' on one side and 'sotto accept' on the other, then 'sotto chat'.
/// 'sotto demo' shows everything on this machine without any of that.
#[derive(Debug, Parser)]
#[command(name = "sotto", version, after_help = EXIT_CODES)]
struct Cli {
    /// State directory [default: $SOTTO_HOME, $XDG_DATA_HOME/sotto, or ~/.local/share/sotto]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 server not reached, 4 state missing, in use \
                          or damaged, 5 server not to be used (other key, version, engine or parameters)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Make an account at a server
    #[command(
        after_help = "Example:\n  sotto init --server sotto://chat.example.org:7370/KEY --name alice\n  sotto init --server ADDRESS --name alice < token     (if the server asks for a registration token)"
    )]
    Init(InitOptions),
    /// Make a contact and print the invitation for that person
    ///
    /// Whoever holds the invitation can take that person's place: hand it over where nobody else reads it.
    #[command(after_help = "Example:\n  sotto invite bob > invitation-for-bob")]
    Invite {
        /// Your name for the contact
        contact: String,
    },
    /// Make a contact of the person whose invitation is on standard input
    #[command(
        after_help = "Examples:\n  sotto accept alice              (then paste the invitation)\n  sotto accept alice < invitation"
    )]
    Accept {
        /// Your name for the contact
        contact: String,
        /// Only there to explain why it is refused.
        #[arg(hide = true)]
        invitation: Option<String>,
    },
    /// List contacts and groups
    #[command(after_help = "Example:\n  sotto contacts --json")]
    Contacts {
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Talk with a contact or a group, line by line
    ///
    /// Every line of standard input is sent as a text; what arrives is printed as 'name: text'. After the end of input
    /// the chat goes on until every text has arrived, and then to the next multiple of 16 rounds since it began, so that
    /// the moment it ends does not tell when the last text arrived; with --stay it goes on until Ctrl-C. While it runs
    /// you take part in every round, also when you say nothing, and receive from all your contacts.
    #[command(after_help = "Examples:\n  sotto chat bob\n  echo 'The documents are ready.' | sotto chat bob")]
    Chat(ChatOptions),
    /// Print your identity, by which others put you into groups
    #[command(after_help = "Example:\n  sotto identity")]
    Identity,
    /// Make, join or leave groups
    Group {
        #[command(subcommand)]
        command: GroupCommand,
    },
    /// Show a server, six people and a crowd on this machine, and check that every text arrives
    #[command(after_help = "Example:\n  sotto demo --users 2000 --rounds 5")]
    Demo(demo::Options),
}

/// What an account is made of.
#[derive(Debug, Args)]
struct InitOptions {
    /// Address of the server, as its operator gives it
    #[arg(long, value_name = "ADDRESS")]
    server: Address,
    /// Your name, as the groups you make show it
    #[arg(long)]
    name: String,
    /// Room for contacts and groups. You speak in one of them per round in turn, existing or not, so that their number
    /// does not show. More room means longer waits: each has its turn once in N rounds, so that N times the length of a
    /// round passes between two turns. It cannot be changed later
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    conversations: u8,
}

/// How to chat.
#[derive(Debug, Args)]
struct ChatOptions {
    /// The contact or group
    contact: String,
    /// Print one JSON object per arrival
    #[arg(long)]
    json: bool,
    /// Stay after the end of input, until Ctrl-C
    #[arg(long)]
    stay: bool,
    /// Tell what every round costs
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// Make a group and print its card for the other members
    ///
    /// Members are contacts whose identity is known, or given with their identity. Whoever holds the card can read the
    /// group: hand it over where nobody else reads it.
    #[command(
        after_help = "Examples:\n  sotto group create desk bob carol > card-of-desk\n  sotto group create desk bob carol=IDENTITY"
    )]
    Create {
        /// Name of the group
        name: String,
        /// A contact's name, or NAME=IDENTITY with what 'sotto identity' prints at that person's
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
    },
    /// Join the group whose card is on standard input
    #[command(after_help = "Example:\n  sotto group join < card-of-desk")]
    Join,
    /// Leave a group; the next chat tells the others
    #[command(after_help = "Example:\n  sotto group leave desk")]
    Leave {
        /// Name of the group
        name: String,
    },
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("cannot start: {error}")).report(),
    };
    let done = runtime.block_on(run(cli));
    // A reader of standard input may be waiting for a line that never comes.
    runtime.shutdown_background();
    done.unwrap_or_else(|failure| failure.report())
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let home = cli.home;
    match cli.command {
        Command::Init(options) => account::init(home, options).await?,
        Command::Invite { contact } => account::invite(home, &contact)?,
        Command::Accept { contact, invitation } => account::accept(home, &contact, invitation.is_some())?,
        Command::Contacts { json } => account::contacts(home, json)?,
        Command::Chat(options) => return chat::chat(home, options).await,
        Command::Identity => account::identity(home)?,
        Command::Group { command } => match command {
            GroupCommand::Create { name, members } => group::create(home, &name, &members)?,
            GroupCommand::Join => group::join(home)?,
            GroupCommand::Leave { name } => group::leave(home, &name)?,
        },
        Command::Demo(options) => {
            return demo::run(options).await.map_err(|error| Failure::other(format!("{error:#}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
