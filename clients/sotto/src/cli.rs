//! The command line.
//!
//! Results go to standard output, everything else to standard error, an error in one line that says what to do. Exit
//! codes: 0 done; 1 failed; 2 wrong usage; 3 the server cannot be reached; 4 the state directory is missing, in use or
//! damaged; 5 the server is not to be used (another key, version, engine, or parameters).

mod account;
mod audit;
mod chat;
mod command;
pub(crate) mod contacts;
mod devices;
mod export;
pub(crate) mod failure;
pub(crate) mod group;
mod history;
mod info;
mod input;
pub(crate) mod link;
mod listen;
mod options;
mod passphrase;
pub(crate) mod print;
mod rows;
mod run;
pub(crate) mod send;
pub(crate) mod state;
mod wipe;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use command::{Cli, Command};
use failure::Failure;
use options::{DevicesCommand, GroupCommand};

/// The command line, for whoever writes about it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.command.speaks_json();
    keep_memory_off_the_disk();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("cannot start: {error}")).report(json),
    };
    let done = runtime.block_on(perform(cli));
    state::forget();
    // A reader of standard input may be waiting for a line that never comes.
    runtime.shutdown_background();
    done.unwrap_or_else(|failure| failure.report(json))
}

/// No core dump shows what this program knows, and no program of the same user that comes later opens its memory. A system that
/// cannot do that is used as it is.
fn keep_memory_off_the_disk() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

async fn perform(cli: Cli) -> Result<ExitCode, Failure> {
    let home = cli.home;
    match cli.command {
        Command::Init(options) => account::init(home, options).await?,
        Command::Info(options) => info::info(options).await?,
        Command::Close { name } => account::close(home, &name).await?,
        Command::Passphrase { remove } => passphrase::set(home, remove).await?,
        Command::Export { file, passphrase_file } => {
            export::export(home, &file, passphrase_file.as_deref()).await?;
        }
        Command::Restore { file, passphrase_file } => {
            export::restore(home, &file, passphrase_file.as_deref())?;
        }
        Command::Run(options) => run::run(home, options).await?,
        Command::Pair { at, qr } => devices::pair(home, at, qr).await?,
        Command::Attach { code, name } => devices::attach(home, code.is_some(), &name).await?,
        Command::Devices { json, command: None } => devices::all(home, json).await?,
        Command::Devices { command: Some(DevicesCommand::Revoke { name }), .. } => {
            devices::revoke(home, name).await?;
        }
        Command::Wipe { yes } => wipe::wipe(home, yes).await?,
        Command::Stop => run::stop(home).await?,
        Command::Status { json } => run::status_of(home, json).await?,
        Command::Invite(options) => return contacts::invite(home, options).await,
        Command::Accept(options) => return contacts::accept(home, options).await,
        Command::Verify { contact, json } => contacts::verify(home, contact, json).await?,
        Command::Invitations { json } => contacts::invitations(home, json).await?,
        Command::Withdraw { contact } => contacts::withdraw(home, contact).await?,
        Command::Contacts { json } => contacts::contacts(home, json).await?,
        Command::Forget { name } => contacts::forget(home, name).await?,
        Command::Block { name } => contacts::block(home, name, true).await?,
        Command::Unblock { name } => contacts::block(home, name, false).await?,
        Command::Rename { name, to } => contacts::rename(home, name, to).await?,
        Command::Chat(options) => return chat::chat(home, options).await,
        Command::Screen => crate::screen::run(home).await?,
        Command::Send { contact, file: Some(path), json, .. } => {
            send::send_file(home, contact, &path, json).await?;
        }
        Command::Send { contact, text, reply_to, json, .. } => {
            send::send(home, contact, text, reply_to, json).await?;
        }
        Command::Listen(options) => listen::listen(home, options).await?,
        Command::History(options) => history::history(home, options).await?,
        Command::Read { contact, json } => chat::read(home, contact, json).await?,
        Command::Audit(options) => return audit::audit(home, options).await,
        Command::VerifyProof(options) => return audit::verify(home, options).await,
        Command::Identity => contacts::identity(home).await?,
        Command::Completions { shell } => print::completions(shell, &mut Cli::command())?,
        Command::Group { command } => match command {
            GroupCommand::Create { name, members } => group::create(home, name, members).await?,
            GroupCommand::Join => group::join(home).await?,
            GroupCommand::Leave { name } => group::leave(home, name).await?,
            GroupCommand::Remove { name, member } => group::remove(home, name, member).await?,
            GroupCommand::Keep { name, member } => group::keep(home, name, member).await?,
        },
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
