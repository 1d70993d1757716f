//! Conversations of which nothing is shown. Nobody else can see that: what comes is read and acknowledged as ever, and then
//! dropped in place of being kept until it was shown.

use std::collections::BTreeSet;

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, Notice, Unshown};

use super::parcel::is_content;
use sotto_participant::Event;

/// Which they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocked(pub(super) BTreeSet<ConversationId>);

impl Blocked {
    pub(crate) fn blocks(&self, conversation: ConversationId) -> bool {
        self.0.contains(&conversation)
    }

    /// Whether a text is not to be shown: of a conversation that is blocked, or of a blocked contact in a group.
    pub(super) fn hides(&self, client: &Client, conversation: ConversationId, from: &str) -> bool {
        if self.0.is_empty() || self.blocks(conversation) {
            return !self.0.is_empty();
        }
        // A contact has none, and of a group nobody but its members can be hidden.
        let members = client.members(conversation);
        if members.is_empty() {
            return false;
        }
        let blocked: BTreeSet<_> = self.0.iter().filter_map(|id| client.contact_identity(*id)).collect();
        members.into_iter().any(|member| member.name == from && blocked.contains(&member.identity))
    }

    pub(super) fn hides_text(&self, client: &Client, text: &Unshown) -> bool {
        self.hides(client, text.conversation, &text.from)
    }

    /// Whether a person is not told of an event, a part of a file among them. Warnings are always told: they can be about the server.
    pub(super) fn hides_event(&self, client: &Client, event: &Event) -> bool {
        match event {
            Event::Notice(Notice::Text { conversation, from, text, .. }) => {
                is_content(text) || self.hides(client, *conversation, from)
            }
            Event::Notice(
                Notice::Established { conversation }
                | Notice::Left { conversation, .. }
                | Notice::NewKeys { conversation },
            ) => self.0.contains(conversation),
            _ => false,
        }
    }
}

/// Forgets texts that nobody is to see; whether there were any.
pub(crate) fn drop_hidden(client: &mut Client, blocked: &Blocked) -> bool {
    let hidden = client.unshown().filter(|text| blocked.hides_text(client, text));
    let hidden: Vec<u64> = hidden.map(|text| text.number).collect();
    hidden.iter().for_each(|number| client.drop_unshown(*number));
    !hidden.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use std::collections::BTreeSet;

    use sotto_protocol::UnixMillis;

    use super::Blocked;
    use crate::testing::client;

    #[test]
    fn what_is_blocked_is_hidden_and_nothing_else_is() {
        let (mut alice, mut bob, now) = (client("alice"), client("bob"), UnixMillis(0));
        let mut rng: rand::rngs::StdRng = rand::make_rng();
        let invitation = bob.invite("alice", now, &mut rng).unwrap();
        let of_bob = alice.accept("bob", &invitation, now, &mut rng).unwrap();
        let members = [("bob", bob.identity()), ("carol", client("carol").identity())];
        let members = members.map(|(name, identity)| (name.to_owned(), identity));
        alice.create_group("desk", &members, &mut rng).unwrap();
        let desk = alice.find("desk").unwrap();
        let hides = |ids: &[_], conversation, from| {
            Blocked(ids.iter().copied().collect::<BTreeSet<_>>()).hides(&alice, conversation, from)
        };
        assert!(hides(&[of_bob], of_bob, "bob"));
        assert!(!hides(&[of_bob], desk, "carol") && !hides(&[], desk, "bob") && !hides(&[], of_bob, "bob"));
        assert!(hides(&[desk], desk, "carol") && !hides(&[desk], of_bob, "bob"));
    }
}
