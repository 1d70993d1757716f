//! What a client hands in each round: a label and a sealed box, 304 bytes.

use core::fmt;

use crate::Error;

/// Bytes of a label.
pub const LABEL_BYTES: usize = 16;
/// Bytes of a sealed box: the PIR element.
pub const BOX_BYTES: usize = 288;
/// Bytes of a deposit.
pub const DEPOSIT_BYTES: usize = LABEL_BYTES + BOX_BYTES;

/// Under which name a box is stored: pseudorandom to all but its sender and its readers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub [u8; LABEL_BYTES]);

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
        let malformed = Error::Malformed("deposit");
        let (label, sealed) = bytes.split_at_checked(LABEL_BYTES).ok_or_else(|| malformed.clone())?;
        Ok(Self {
            label: Label(label.try_into().map_err(|_| malformed.clone())?),
            sealed: SealedBox(sealed.try_into().map_err(|_| malformed)?),
        })
    }
}
