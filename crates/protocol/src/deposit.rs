//! What a client hands in each round: a label and a sealed box, 304 bytes.

use core::fmt;

use sha2::{Digest, Sha256};

use crate::Error;
use crate::error::Malformed;

/// Bytes of a label.
pub const LABEL_BYTES: usize = 16;
/// Bytes of a sealed box: the PIR element.
pub const BOX_BYTES: usize = 288;
/// Bytes of a label by which it selects a cell, on a server with slots.
pub const SELECTOR_BYTES: usize = 4;
/// Bytes of a deposit.
pub const DEPOSIT_BYTES: usize = LABEL_BYTES + BOX_BYTES;

/// Most boxes under one label in a round.
pub const COPIES_MAX: usize = 4;

const COPY_DOMAIN: &[u8] = b"sotto/deposit/v1/copy\0";

/// Under which name a box is stored: pseudorandom to all but its sender and its readers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub [u8; LABEL_BYTES]);

impl Label {
    /// By what it selects a cell, on a server with slots.
    pub(crate) fn selector(&self) -> [u8; SELECTOR_BYTES] {
        core::array::from_fn(|at| self.0[at])
    }

    /// The same label in another cell.
    pub(crate) fn aimed(mut self, selector: [u8; SELECTOR_BYTES]) -> Self {
        self.0[..SELECTOR_BYTES].copy_from_slice(&selector);
        self
    }

    /// The same in a cell where nobody looks: by the bytes of which a server with slots is sent nothing.
    pub(crate) fn aimed_elsewhere(self) -> Self {
        self.aimed(core::array::from_fn(|at| self.0[LABEL_BYTES - SELECTOR_BYTES + at]))
    }
}

// A label seen beside an account or a contact is metadata, so it does not print itself.
impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Label(..)")
    }
}

/// A sealed message, or cover that looks like one.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBox(pub [u8; BOX_BYTES]);

impl fmt::Debug for SealedBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedBox(..)")
    }
}

/// A label and its box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// Where readers look for it.
    pub label: Label,
    /// What they find.
    pub sealed: SealedBox,
}

impl Deposit {
    /// Label, then box.
    #[must_use]
    pub fn encode(&self) -> [u8; DEPOSIT_BYTES] {
        let mut bytes = [0; DEPOSIT_BYTES];
        let (label, sealed) = bytes.split_at_mut(LABEL_BYTES);
        label.copy_from_slice(&self.label.0);
        sealed.copy_from_slice(&self.sealed.0);
        bytes
    }

    /// Reads what [`Deposit::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless there are exactly 304 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = Error::Malformed(Malformed::Deposit);
        let (label, sealed) = bytes.split_at_checked(LABEL_BYTES).ok_or_else(|| malformed.clone())?;
        Ok(Self {
            label: Label(label.try_into().map_err(|_| malformed.clone())?),
            sealed: SealedBox(sealed.try_into().map_err(|_| malformed)?),
        })
    }
}

/// Puts a sealed round's deposits in the order in which they are numbered: by label, and under one label by a hash of
/// seed and deposit. Equal deposits become one, and of the boxes under one label the first [`COPIES_MAX`] stay.
///
/// Nobody knows the seed while deposits are taken, so nobody chooses which of several boxes stay, nor which are first
/// and last; and nobody can make some buckets larger than chance makes them.
pub fn arrange(deposits: &mut Vec<Deposit>, round_seed: &[u8; 32]) {
    deposits.sort_unstable_by(|a, b| (a.label, &a.sealed.0).cmp(&(b.label, &b.sealed.0)));
    deposits.dedup();
    let rank = |deposit: &Deposit| -> [u8; 32] {
        let digest = Sha256::new_with_prefix(COPY_DOMAIN).chain_update(round_seed);
        digest.chain_update(deposit.label.0).chain_update(deposit.sealed.0).finalize().into()
    };
    for copies in deposits.chunk_by_mut(|a, b| a.label == b.label) {
        copies.sort_by_cached_key(rank);
    }
    let (mut copies, mut last) = (0, None);
    deposits.retain(|deposit| {
        copies = if last == Some(deposit.label) { copies + 1 } else { 1 };
        last = Some(deposit.label);
        copies <= COPIES_MAX
    });
}

#[cfg(test)]
mod tests {
    use super::{BOX_BYTES, COPIES_MAX, Deposit, Label, SealedBox, arrange};

    fn deposit(label: u8, content: u8) -> Deposit {
        Deposit { label: Label([label; 16]), sealed: SealedBox([content; BOX_BYTES]) }
    }

    /// A selector that is sent must follow from bytes that are not, where it is not to be found.
    #[test]
    fn elsewhere_is_where_the_end_of_the_label_says() {
        let label = Label(core::array::from_fn(|at| at as u8));
        assert_eq!((label.selector(), label.aimed([9; 4]).selector()), ([0, 1, 2, 3], [9; 4]));
        let elsewhere = label.aimed_elsewhere();
        assert_eq!((elsewhere.selector(), &elsewhere.0[4..]), ([12, 13, 14, 15], &label.0[4..]));
    }

    /// Whoever could choose the order of boxes under one label would keep one of them from ever being read.
    #[test]
    fn no_content_of_a_box_secures_it_a_place_under_a_label() {
        let (mut kept, mut first) = ([0; 10], [0; 10]);
        for seed in 0..250 {
            let mut deposits: Vec<Deposit> = (0..10).map(|content| deposit(7, content)).collect();
            deposits.extend([deposit(9, 1), deposit(3, 2), deposit(9, 1)]);
            let mut backwards: Vec<Deposit> = deposits.iter().rev().cloned().collect();
            arrange(&mut deposits, &[seed; 32]);
            arrange(&mut backwards, &[seed; 32]);
            assert_eq!(deposits, backwards);
            let labels: Vec<u8> = deposits.iter().map(|deposit| deposit.label.0[0]).collect();
            assert_eq!(labels, [3, 7, 7, 7, 7, 9]);
            first[usize::from(deposits[1].sealed.0[0])] += 1;
            for deposit in &deposits[1..=COPIES_MAX] {
                kept[usize::from(deposit.sealed.0[0])] += 1;
            }
        }
        assert!(kept.iter().all(|kept| (60..140).contains(kept)), "{kept:?}");
        assert!(first.iter().all(|first| (8..50).contains(first)), "{first:?}");
    }

    /// The order, for other implementations.
    #[test]
    fn the_order_of_equal_labels_does_not_change_unnoticed() {
        let mut deposits: Vec<Deposit> = (0..8).map(|content| deposit(7, content)).collect();
        arrange(&mut deposits, &[5; 32]);
        let kept: Vec<u8> = deposits.iter().map(|deposit| deposit.sealed.0[0]).collect();
        assert_eq!(kept, [4, 5, 3, 2]);
    }
}
