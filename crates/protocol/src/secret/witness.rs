//! For tests: every secret that a thread makes, and of what.

use core::cell::RefCell;

/// Where a secret came from that follows from no other one.
pub(crate) const RANDOM: &str = "random";
/// The same of one that was handed in as bytes, from a key exchange, a string or a message.
pub(crate) const GIVEN: &str = "given";

/// A secret that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Of whom and when, as the test said before.
    pub(crate) owner: usize,
    pub(crate) round: u64,
    pub(crate) doing: &'static str,
    /// The domain, [`RANDOM`] or [`GIVEN`].
    pub(crate) domain: String,
    pub(crate) fields: Vec<u8>,
    /// From which it was expanded.
    pub(crate) parent: Option<[u8; 32]>,
    pub(crate) bytes: Vec<u8>,
}

thread_local! {
    static MADE: RefCell<Option<(Made, Vec<Made>)>> = const { RefCell::new(None) };
}

/// From now on secrets of this thread are noted, as made by `owner` in `round`, `doing` something.
pub(crate) fn acts(owner: usize, round: u64, doing: &'static str) {
    MADE.with_borrow_mut(|made| {
        let (_, all) = made.take().unzip();
        let empty = Vec::new;
        let (domain, fields, bytes) = (String::new(), empty(), empty());
        let now = Made { owner, round, doing, domain, fields, parent: None, bytes };
        *made = Some((now, all.unwrap_or_default()));
    });
}

/// What was noted since it was last asked.
pub(crate) fn take() -> Vec<Made> {
    MADE.with_borrow_mut(|made| made.as_mut().map(|(_, all)| core::mem::take(all)).unwrap_or_default())
}

pub(super) fn note(domain: &str, fields: &[&[u8]], parent: Option<&[u8; 32]>, bytes: &[u8]) {
    MADE.with_borrow_mut(|made| {
        if let Some((now, all)) = made {
            let (fields, parent, bytes) = (fields.concat(), parent.copied(), bytes.to_vec());
            all.push(Made { domain: domain.to_owned(), fields, parent, bytes, ..now.clone() });
        }
    });
}
