//! What needs the history beside the account's state.

use super::super::blocked::Blocked;
use super::super::desk::Of;
use super::super::history::{History, KEEP_MAX, Stand};
use super::super::message::{Account, Reply};
use super::find;
use crate::cli::failure::Failure;
use sotto_protocol::client::Client;
use sotto_protocol::{ConversationId, Error, error::Unknown};

/// Something that is asked of the history, with what it takes of the state to answer.
pub(crate) enum Asked {
    Page { stand: Stand, before: Option<u64>, most: u32 },
    Keep(u32),
    Keeps,
    Block { id: ConversationId, blocked: bool },
}

impl Account {
    /// Whether [`Account::asked`] says what to do.
    pub(crate) fn is_of_history(&self) -> bool {
        matches!(
            self,
            Self::Past { .. } | Self::PastOf { .. } | Self::Keep { .. } | Self::Keeps | Self::Block { .. }
        )
    }

    /// What is asked of the history, if something is.
    ///
    /// # Errors
    /// What to tell the person.
    pub(crate) fn asked(self, client: &Client) -> Result<Asked, Failure> {
        let page = |id: ConversationId, before, most| {
            let stand =
                Stand::of(client, id, &Blocked::default()).ok_or(Error::Unknown(Unknown::Conversation))?;
            Ok(Asked::Page { stand, before, most })
        };
        match self {
            Self::PastOf { id, before, most } => page(id, before, most),
            Self::Past { conversation, before, most } => page(find(client, &conversation)?, before, most),
            Self::Keep { texts } => Ok(Asked::Keep(texts)),
            Self::Keeps => Ok(Asked::Keeps),
            Self::Block { name, blocked } => Ok(Asked::Block { id: find(client, &name)?, blocked }),
            _ => Err(Failure::other("this is not asked of the history")),
        }
    }

    /// Of what the history may differ when this is done.
    pub(in crate::daemon) fn touches(&self) -> Of {
        match self {
            Self::Say { conversation, .. } => Of::Named(conversation.clone()),
            Self::SayTo { id, .. } | Self::Offer { id, .. } | Self::Shown { id, .. } => Of::Id(*id),
            _ => Of::All,
        }
    }
}

impl Asked {
    /// # Errors
    /// What to tell the person.
    pub(crate) fn answer(self, history: &History) -> Result<Reply, Failure> {
        match self {
            Self::Page { stand, before, most } => {
                let (texts, more) = history.page(&stand, before, most);
                Ok(Reply::Past { texts, more })
            }
            Self::Keep(texts) if texts > KEEP_MAX => {
                Err(Failure::usage(format!("at most {KEEP_MAX} texts can be kept")))
            }
            Self::Keep(texts) => {
                history.keep(texts).map_err(|error| Failure::state(history.unwritten(&error)))?;
                Self::Keeps.answer(history)
            }
            Self::Block { id, blocked } => {
                let written = history.set_blocked(id, blocked);
                written.map_err(|error| Failure::state(history.unwritten(&error)))?;
                Ok(Reply::Done)
            }
            Self::Keeps => {
                let (most, texts) = history.keeps();
                Ok(Reply::Keeps { most, texts })
            }
        }
    }
}

impl Reply {
    /// With what the history knows of it.
    pub(crate) fn presented(self, history: &History) -> Self {
        match self {
            Self::Texts(texts) => Self::Texts(texts.into_iter().map(|text| history.present(text)).collect()),
            reply => reply,
        }
    }
}
