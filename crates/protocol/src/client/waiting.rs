//! Texts that were handed in and have not arrived: who keeps what was said finds out by them what it has missed.

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Client;
use crate::Error;
use crate::conversation::ConversationId;

/// A text that was handed in and has not arrived as a whole.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Waiting {
    /// Its number in its conversation. It changes if the contact is found to have had more from a copy of this client.
    pub sequence: u32,
    /// The text.
    pub text: String,
    /// Whether all of it was sent at least once.
    pub sent: bool,
}

impl core::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Waiting").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// How what was said in a conversation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The texts of which the number is at most this have arrived, unless they wait.
    pub arrived: u32,
    /// What has not, in the order in which it was said.
    pub waiting: Vec<Waiting>,
}

impl Client {
    /// How what was said in a conversation stands.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn outgoing_texts(&self, id: ConversationId) -> Result<Outgoing, Error> {
        let outbox = self.state.conversation(id)?.talk.outbox();
        let waiting = outbox.waiting_texts().map(|(sequence, text)| Waiting {
            sequence,
            text,
            sent: sequence <= outbox.sent(),
        });
        Ok(Outgoing { arrived: outbox.acknowledged(), waiting: waiting.collect() })
    }
}

#[cfg(test)]
mod tests {
    use crate::client::world::{Fate, World};

    #[test]
    fn what_waits_is_told_whole_until_it_has_arrived() {
        let mut world = World::new(5, &["alice", "bob"], 2, 8);
        world.befriend(0, 1);
        let id = world.id(0, "bob");
        let long = "a text of several boxes, ".repeat(30);
        let texts = ["one", &long, "three"];
        let numbers: Vec<u32> =
            texts.iter().map(|text| world.clients[0].queue_text(id, text).unwrap().sequence).collect();
        let waits = |world: &World| {
            let outgoing = world.clients[0].outgoing_texts(id).unwrap();
            outgoing.waiting.iter().map(|it| (it.sequence, it.text.clone(), it.sent)).collect::<Vec<_>>()
        };
        let all: Vec<_> =
            numbers.iter().zip(texts).map(|(number, text)| (*number, text.to_owned(), false)).collect();
        assert_eq!(waits(&world), all);
        let mut partly = false;
        for _ in 0..200 {
            world.step(&[Fate::default(); 2]);
            let now = waits(&world);
            let left = all.len() - now.len();
            assert!(now.iter().zip(&all[left..]).all(|(one, other)| one.0 == other.0 && one.1 == other.1));
            partly |= left == 1 && now[0].2;
            let arrived = world.clients[0].outgoing_texts(id).unwrap().arrived;
            assert!(all[..left].iter().all(|(number, ..)| *number <= arrived));
            assert!(all[left..].iter().all(|(number, ..)| *number > arrived));
        }
        assert!(partly && waits(&world).is_empty());
        assert!(world.clients[0].outgoing_texts(crate::ConversationId(9)).is_err());
    }
}
