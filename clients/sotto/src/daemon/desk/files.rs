//! Files that are on their way.

use std::sync::Arc;

use data_encoding::BASE64_NOPAD;
use sotto_protocol::{Client, ConversationId};
use tokio::task::spawn_blocking;

use super::{Desk, Of};
use crate::cli::failure::Failure;
use crate::daemon::account::{as_said, find};
use crate::daemon::history::files::{SENDING_MAX, hand_in, has_room, room};
use crate::daemon::journal::Entry;
use crate::daemon::message::{Account, Note, Private, Reply, Said, Severity};
use crate::daemon::notes::sending;
use crate::daemon::parcel::Parcel;

impl Desk {
    /// Hands in parts of files that are on their way, as far as there is room for them.
    pub(in crate::daemon) async fn feed(&self) {
        for (id, parcel, next) in self.history.sending() {
            let of_it = parcel.clone();
            match self.handle.ask(move |client| has_room(client, id, &of_it, next)).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return,
            }
            let of_it = parcel.clone();
            let Ok(handed) = self.handle.change(move |client| hand_in(client, id, &of_it, next)).await else {
                return;
            };
            let entry = match &handed {
                Err(error) => {
                    let line = format!("warning: the file {} was not sent: {error}", parcel.name());
                    Some(Entry::Lasting(Note::new(Severity::Warning, line)))
                }
                // Its end is said for the whole.
                Ok(next) if *next > parcel.parts() => self.end_of(id, parcel.clone()).await.map(Entry::Said),
                Ok(_) => Some(Entry::Changed),
            };
            // What cannot be sent is given up.
            let next = handed.unwrap_or(u16::MAX);
            let history = Arc::clone(&self.history);
            let written = spawn_blocking(move || history.handed(id, &parcel, next));
            self.complain(written.await.unwrap_or(Ok(())));
            self.settle(Of::Id(id)).await;
            self.write(entry);
        }
    }

    /// The end of a file that was handed in.
    async fn end_of(&self, id: ConversationId, parcel: Parcel) -> Option<Said> {
        let end = move |client: &Client| {
            let text = parcel.text(parcel.parts());
            let waiting = client.outgoing_texts(id).ok()?.waiting;
            let end = waiting.iter().rev().find(|waiting| waiting.text == *text)?;
            Some(as_said(client, id, end.sequence, &text))
        };
        let said = self.handle.ask(end).await.ok()??;
        Some(self.history.present_said(said, false))
    }

    /// Takes a file that is to be sent.
    pub(super) async fn send_file(
        &self,
        conversation: String,
        name: String,
        content: &Private,
    ) -> Result<Reply, Failure> {
        let content = BASE64_NOPAD
            .decode(content.0.trim_end_matches('=').as_bytes())
            .map_err(|_| Failure::usage("the content of a file is base64, and this is not"))?;
        let parcel = Parcel::new(&name, content)
            .ok_or_else(|| Failure::usage("a file has 1 byte to 64 KiB, and a name of at most 255 bytes"))?;
        if self.history.files_sent() >= SENDING_MAX {
            return Err(Failure::other(format!(
                "{SENDING_MAX} files are on their way already; send this one when one of them has arrived"
            )));
        }
        let (of_it, blocked) = (parcel.clone(), self.history.blocked());
        let look = move |client: &Client| {
            let id = find(client, &conversation)?;
            let say = Account::SayTo { id, text: Private::new("") };
            say.check(client, &blocked)?;
            // Some of it may wait, of which all was handed in.
            let waits = room(client, id, &of_it, 0).is_ok_and(|(_, waiting)| waiting > 0);
            Ok::<_, Failure>((id, waits, sending(client, id, &of_it)))
        };
        let (id, waits, reply) = self.handle.ask(look).await??;
        // Parts of two that are the same cannot be told from each other.
        if waits || self.history.sends(id, &parcel) {
            return Err(Failure::other(format!(
                "the file {name} is on its way already, as it is; send it again when it has arrived"
            ))
            .coded("file-on-its-way"));
        }
        let history = Arc::clone(&self.history);
        let written = spawn_blocking(move || history.send(id, &parcel)).await.unwrap_or(Ok(()));
        written.map_err(|error| Failure::state(self.history.unwritten(&error)))?;
        self.feed().await;
        Ok(reply)
    }
}
