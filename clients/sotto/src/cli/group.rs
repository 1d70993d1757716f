//! Groups.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use sotto_protocol::GroupCard;

use super::failure::Failure;
use super::input::read_secret;
use super::link::{online, quietly};
use super::print::{result, status};
use crate::daemon::message::{Account, Reply};
use crate::daemon::{parse, unexpected};

/// What holds in a group from its card on.
pub(crate) const RULES: &str = "whoever has the card reads what is said here. Nobody is added later; its maker alone removes somebody, or the \
                     next on the card where the maker has left; who has left or was removed does not come back";

pub(super) async fn create(home: Option<PathBuf>, name: String, members: Vec<String>) -> Result<(), Failure> {
    let Reply::Card(card) = online(home, Account::CreateGroup { name, members }).await? else {
        return Err(unexpected());
    };
    result(&card.0)?;
    if io::stdout().is_terminal() {
        status("give this to the members, where nobody else reads it; there: 'sotto group join'");
        status(RULES);
    }
    Ok(())
}

pub(super) async fn join(home: Option<PathBuf>) -> Result<(), Failure> {
    let card = read_secret("group card", "this is not a group card")?;
    // What is none is no reason to come online.
    parse::<GroupCard>(&card)?;
    let Reply::Joined { group } = online(home, Account::JoinGroup { card }).await? else {
        return Err(unexpected());
    };
    status(&format!("you are in {group} now; next: 'sotto chat {group}'"));
    status(RULES);
    Ok(())
}

pub(super) async fn leave(home: Option<PathBuf>, name: String) -> Result<(), Failure> {
    let Reply::Conversations(all) = quietly(home.clone(), Account::Contacts).await? else {
        return Err(unexpected());
    };
    let queued = all.iter().find(|group| group.name == name).map_or(0, |group| group.queued);
    let line = format!("the others learn it in your next turns in {name}, while you are online");
    online(home, Account::LeaveGroup { name }).await?;
    status(&line);
    if queued > 0 {
        status(&format!("what had not reached everybody, {queued} of your texts, goes to nobody any more"));
    }
    Ok(())
}

pub(super) async fn remove(home: Option<PathBuf>, group: String, member: String) -> Result<(), Failure> {
    let line = format!("{member} is removed from {group}; the others learn it in your next turns with them");
    online(home, Account::RemoveMember { group, member }).await?;
    status(&line);
    status("what is said before the group has new keys, the one removed can still read");
    Ok(())
}

pub(super) async fn keep(home: Option<PathBuf>, group: String, member: String) -> Result<(), Failure> {
    let line = format!("{member} stays in {group}; nobody was told of the removal");
    let Reply::Kept { texts } = online(home, Account::KeepMember { group, member }).await? else {
        return Err(unexpected());
    };
    status(&line);
    if texts > 0 {
        status(&format!("{texts} texts that waited were not sent: say them again if all may read them"));
    }
    Ok(())
}
