//! Texts that came and that nobody has seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sotto_protocol::ConversationId;
use sotto_protocol::client::{Client, Notice};

/// A text that nobody has seen.
#[derive(Clone)]
pub(crate) struct Unshown {
    pub(crate) number: u64,
    pub(crate) conversation: ConversationId,
    pub(crate) from: String,
    pub(crate) text: String,
    pub(crate) sequence: u32,
}

static TEXTS: Mutex<BTreeMap<u64, Unshown>> = Mutex::new(BTreeMap::new());

pub(super) fn arrived(notice: &Notice) {
    let Notice::Text { conversation, from, text, sequence } = notice else { return };
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = texts.last_key_value().map_or(1, |(last, _)| last + 1);
    let unshown = Unshown {
        number,
        conversation: *conversation,
        from: from.clone(),
        text: text.clone(),
        sequence: *sequence,
    };
    texts.insert(number, unshown);
}

/// All of them, by number.
pub(crate) fn unshown(_: &Client) -> Vec<Unshown> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
}

/// A person has seen the texts of a conversation up to this number.
pub(crate) fn shown(_: &mut Client, id: ConversationId, number: u64) {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    texts.retain(|_, text| text.conversation != id || text.number > number);
}
