//! One call of a kind per account and round; the same bytes again are the same call.

use std::collections::HashMap;

use super::{Accepted, Account, Refusal};

/// How often one account may make one call in one round, the first time included: lost answers may be asked for again.
pub const ATTEMPTS_MAX: u8 = 4;

/// Of how many rounds an account may ask for a unit's buckets, out of [`UNITS_WINDOW`]: who checks answers because he is asked to
/// does so in one round of eight in the mean, and in more than that hardly ever.
pub const UNITS_MAX: u8 = 16;
/// Rounds `64 i` to `64 i + 63`, by the round that is open.
pub const UNITS_WINDOW: u64 = 64;

/// What accounts had in the window of rounds that runs now.
#[derive(Debug, Default)]
pub(super) struct Window {
    number: u64,
    counts: HashMap<Account, u8>,
}

impl Window {
    pub(super) fn begin(&mut self, number: u64) {
        if number != self.number {
            *self = Self { number, counts: HashMap::new() };
        }
    }

    pub(super) fn has_room(&self, account: &Account) -> bool {
        self.counts.get(account).is_none_or(|count| *count < UNITS_MAX)
    }

    pub(super) fn count(&mut self, account: Account) {
        let count = self.counts.entry(account).or_default();
        *count = count.saturating_add(1);
    }
}

#[derive(Debug, Default)]
pub(super) struct Quota {
    calls: HashMap<Account, Call>,
}

#[derive(Debug)]
struct Call {
    digest: [u8; 32],
    attempts: u8,
}

impl Quota {
    pub(super) fn take(&mut self, account: Account, digest: [u8; 32]) -> Result<Accepted, Refusal> {
        let Some(call) = self.calls.get_mut(&account) else {
            self.calls.insert(account, Call { digest, attempts: 1 });
            return Ok(Accepted::New);
        };
        if call.digest != digest || call.attempts >= ATTEMPTS_MAX {
            return Err(Refusal::Quota);
        }
        call.attempts += 1;
        Ok(Accepted::Repeated)
    }

    /// As if the account had never made the call.
    pub(super) fn give_back(&mut self, account: &Account) {
        self.calls.remove(account);
    }

    pub(super) fn digest(&self, account: &Account) -> Option<[u8; 32]> {
        self.calls.get(account).map(|call| call.digest)
    }

    /// Whether the account cannot make this call again.
    pub(super) fn is_spent(&self, account: &Account) -> bool {
        self.calls.get(account).is_some_and(|call| call.attempts >= ATTEMPTS_MAX)
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = Account> + '_ {
        self.calls.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}
