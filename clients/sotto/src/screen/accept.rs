//! Accepting an invitation.

use zeroize::Zeroizing;

use super::composer::Composer;
use super::model::{Model, Secret, View};
use super::update::{Act, Purpose};
use crate::cli::failure::Failure;
use crate::daemon::message::{Account, Private};
use crate::meeting;

/// Asks for the invitation, which is never shown.
pub(super) fn ask(model: &mut Model, contact: String) {
    // Before there is a contact who waits for them.
    model.notice(model.pace());
    model.view = View::Secret(Secret::Invitation { contact }, Composer::default());
}

/// Takes what was pasted; a terminal may have broken it into lines.
pub(super) fn take(contact: String, pasted: &str) -> Result<Act, Failure> {
    let invitation = Private(Zeroizing::new(pasted.split_whitespace().collect()));
    // What is none is told at once.
    meeting::split(&invitation)?;
    let account = Account::Accept { contact: contact.clone(), invitation };
    Ok(Act::Ask(account, Purpose::Accept(contact)))
}

pub(super) fn accepted(model: &mut Model, contact: String, held: Option<String>) {
    match held {
        Some(held) => model.warn(format!(
            "this invitation leads to {held}: whoever gave it to you as another's passed it on. Nothing can be said to \
             {contact}; as long as you keep it, nobody sees that you know"
        )),
        None => model.notice(format!("{contact} is a contact now")),
    }
    model.wanted = Some(contact);
}
