//! Who has a slot, one account after the other.

/// A slot, and how many accounts have given it back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure {
    /// The slot's number.
    pub slot: u32,
    /// How many accounts had it before.
    pub number: u32,
}

impl Tenure {
    /// Of a slot that nobody had before.
    #[must_use]
    pub const fn first(slot: u32) -> Self {
        Self { slot, number: 0 }
    }

    /// That of the account that gets the slot next.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { slot: self.slot, number: self.number.saturating_add(1) }
    }
}
