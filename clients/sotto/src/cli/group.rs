//! Groups.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use sotto_protocol::GroupCard;
use sotto_protocol::client::Client;
use zeroize::Zeroizing;

use super::account::{decode_identity, read_secret, stale};
use super::failure::Failure;
use super::state;
use crate::participant::now;

pub(super) fn create(home: Option<PathBuf>, name: &str, members: &[String]) -> Result<(), Failure> {
    let (store, mut client) = state::open(home)?;
    let members =
        members.iter().map(|member| parse_member(&client, member)).collect::<Result<Vec<_>, _>>()?;
    let card = client.create_group(name, &members, now(), &mut state::rng())?;
    store.save(&client.snapshot())?;
    writeln!(io::stdout(), "{}", *Zeroizing::new(card.to_string()))?;
    if io::stdout().is_terminal() {
        writeln!(
            io::stderr(),
            "give this to the members, where nobody else reads it; there: 'sotto group join'"
        )?;
    }
    Ok(())
}

pub(super) fn join(home: Option<PathBuf>) -> Result<(), Failure> {
    let (store, mut client) = state::open(home)?;
    let card: GroupCard = read_secret("group card", "this is not a group card")?;
    client.join_group(&card, now()).map_err(stale)?;
    store.save(&client.snapshot())?;
    writeln!(io::stderr(), "you are in {0} now; next: 'sotto chat {0}'", card.name())?;
    Ok(())
}

pub(super) fn leave(home: Option<PathBuf>, name: &str) -> Result<(), Failure> {
    let (store, mut client) = state::open(home)?;
    let group = state::find(&client, name)?;
    client.leave_group(group)?;
    store.save(&client.snapshot())?;
    writeln!(io::stderr(), "the others learn it in your next chat's turn in {name}")?;
    Ok(())
}

/// `NAME` of a contact, or `NAME=IDENTITY`.
fn parse_member(client: &Client, member: &str) -> Result<(String, [u8; 32]), Failure> {
    if let Some((name, identity)) = member.split_once('=') {
        let identity = decode_identity(identity).ok_or_else(|| {
            Failure::usage(format!("the identity of {name} is not valid; 'sotto identity' there prints it"))
        })?;
        return Ok((name.to_owned(), identity));
    }
    let identity = client.contact_identity(state::find(client, member)?).ok_or_else(|| {
        Failure::other(format!(
            "the identity of {member} has not come yet; chat until {member} is established, or give {member}=IDENTITY"
        ))
    })?;
    Ok((member.to_owned(), identity))
}
