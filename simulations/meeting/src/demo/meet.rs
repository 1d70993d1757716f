//! How two people become contacts: an invitation goes from hand to hand as a file.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rand::rngs::StdRng;
use sotto_participant::Handle;
use sotto_participant::host::now;
use sotto_protocol::ConversationId;
use tokio::time::sleep;

use super::Person;

const PAUSE: Duration = Duration::from_millis(500);

/// The conversation with the other one, which begins with an invitation if there is none yet.
pub(super) async fn meet(
    person: Person,
    handle: &Handle,
    directory: &Path,
) -> anyhow::Result<ConversationId> {
    let other = person.other().name();
    if let Some(conversation) = handle.ask(move |client| client.find(other)).await? {
        return Ok(conversation);
    }
    let path = directory.join("invitation");
    match person {
        Person::Alice => {
            let mut rng: StdRng = rand::make_rng();
            let invite = move |client: &mut sotto_protocol::client::Client| {
                let invitation = client.invite(other, now(), &mut rng)?;
                anyhow::Ok((invitation.to_string(), client.find(other)))
            };
            let (invitation, conversation) = handle.change(invite).await??;
            // Whoever reads it before bob becomes her contact in his place.
            sotto_files::replace(&path, invitation.as_bytes(), 0o600)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            conversation.context("no contact came of the invitation")
        }
        Person::Bob => {
            let invitation = wait(&path).await;
            let invitation = invitation.parse().context("what lies there is no invitation")?;
            let mut rng: StdRng = rand::make_rng();
            let accepted =
                handle.change(move |client| client.accept(other, &invitation, now(), &mut rng)).await??;
            // It serves once.
            let _ = fs::remove_file(&path);
            Ok(accepted)
        }
    }
}

async fn wait(path: &PathBuf) -> String {
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        sleep(PAUSE).await;
    }
}
