//! Making an invitation.

use super::model::{Model, Page, View};
use super::update::{Act, Purpose};
use crate::daemon::message::{Account, Private};
use crate::qr::Qr;

pub(super) fn make(contact: String) -> Act {
    Act::Ask(Account::Invite { contact: contact.clone() }, Purpose::Invite(contact))
}

pub(super) fn made(model: &mut Model, contact: String, invitation: Private) {
    let title = format!(
        "Invitation: give it to {contact} where nobody else reads it; there: /accept {}. Esc closes this; it is not \
         shown again; {}.",
        if model.me.is_empty() { "YOUR-NAME" } else { &model.me },
        model.pace()
    );
    model.wanted = Some(contact);
    let qr = Qr::of(&invitation.0);
    model.view = View::Page(Page { title, text: invitation.0, bare: true, qr, top: 0 });
}
