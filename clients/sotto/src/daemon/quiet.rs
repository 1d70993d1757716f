//! What shows to nobody, done on the state itself while no participant runs.

use std::path::Path;

use sotto_protocol::client::Client;

use super::blocked::drop_hidden;
use super::history::{History, Stand};
use super::message::{Account, Reply};
use crate::cli::failure::Failure;
use crate::cli::print::status;
use crate::{Address, StoreError};
use sotto_participant::host::now;

/// Answers what leaves the state as it is.
///
/// # Errors
/// What to tell the person.
pub(crate) fn look(directory: &Path, account: Account, mut client: Client) -> Result<Reply, Failure> {
    let (history, problem) = History::look(directory, client.account_seed());
    let blocked = history.blocked();
    // Only in memory, which does not fail.
    let _ = history.settle_all(&Stand::all(&client, &blocked), None);
    drop_hidden(&mut client, &blocked);
    if account.is_of_history() {
        problem.iter().for_each(|problem| status(problem));
        return account.asked(&client)?.answer(&history);
    }
    account.look(&client, &blocked, &history.ways())
}

/// Does as told, and saves the state.
///
/// # Errors
/// What to tell the person.
pub(crate) fn perform(
    directory: &Path,
    account: Account,
    (client, server): (&mut Client, &Address),
    save: impl FnOnce(&Client) -> Result<(), StoreError>,
) -> Result<Reply, Failure> {
    let (history, problem) = History::open(directory, client.account_seed());
    problem.iter().for_each(|problem| status(problem));
    let settle =
        |client: &mut Client, at| match history.settle_all(&Stand::all(client, &history.blocked()), at) {
            Ok(taken) => taken.iter().for_each(|number| client.drop_unshown(*number)),
            Err(error) => status(&format!("warning: {}", history.unwritten(&error))),
        };
    // What is seen goes from the state, and stands in the history before.
    settle(client, None);
    drop_hidden(client, &history.blocked());
    if account.is_of_history() {
        return account.asked(client)?.answer(&history);
    }
    account.check(client, &history.blocked())?;
    let reply = account.perform(client, server)?;
    save(client)?;
    settle(client, Some(now()));
    Ok(reply.presented(&history))
}
