//! Requests that stand: what a client has asked in an epoch and asks again in its other rounds, in memory alone.
//!
//! Whoever names a request by its digest gets what it would get for the bytes. A request that is not here any more, since
//! there was no room, or the process is another one, is asked for again and kept again; so nothing here has to last.

use std::collections::HashMap;

use bytes::Bytes;
use sotto_protocol::Round;
use sotto_protocol::server::Account;
use tokio::sync::OwnedSemaphorePermit;

use crate::memory::Memory;

/// Of each account: that of the epoch that runs, and that of the one before, whose last rounds can still be retrieved.
const PER_ACCOUNT: usize = 2;

/// Requests that stand, bounded in bytes.
pub(crate) struct StandingRequests {
    memory: Memory,
    kept: HashMap<Account, Vec<Kept>>,
    /// Up to which round they were looked through for those that nobody asks for any more.
    swept: Round,
}

struct Kept {
    digest: [u8; 32],
    /// Of the epoch.
    last: Round,
    request: Bytes,
    _room: OwnedSemaphorePermit,
}

impl StandingRequests {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { memory: Memory::new(bytes), kept: HashMap::new(), swept: Round(0) }
    }

    /// Keeps a request up to the last round of its epoch, if there is room; `oldest` is the oldest round that can be retrieved.
    pub(crate) fn keep(
        &mut self,
        account: Account,
        digest: [u8; 32],
        request: &Bytes,
        last: Round,
        oldest: Round,
    ) {
        self.sweep(oldest);
        let of_account = self.kept.entry(account).or_default();
        if of_account.iter().any(|kept| kept.digest == digest) {
            return;
        }
        // What makes room for it does so whether it gets it or not: an account has no more than its part.
        if of_account.len() >= PER_ACCOUNT {
            of_account.remove(0);
        }
        match self.memory.take(request.len()) {
            Ok(room) => of_account.push(Kept { digest, last, request: request.clone(), _room: room }),
            Err(_) if of_account.is_empty() => drop(self.kept.remove(&account)),
            Err(_) => {}
        }
    }

    /// What an account has asked before, by its digest.
    pub(crate) fn find(&self, account: &Account, digest: &[u8; 32]) -> Option<Bytes> {
        let kept = self.kept.get(account)?.iter().find(|kept| kept.digest == *digest)?;
        Some(kept.request.clone())
    }

    /// The account is no more.
    pub(crate) fn forget_account(&mut self, account: &Account) {
        self.kept.remove(account);
    }

    /// Drops those of which no round can be retrieved any more.
    pub(crate) fn sweep(&mut self, oldest: Round) {
        if oldest <= self.swept {
            return;
        }
        self.swept = oldest;
        self.kept.retain(|_, of_account| {
            of_account.retain(|kept| kept.last >= oldest);
            !of_account.is_empty()
        });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.kept.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sotto_protocol::Round;

    use super::StandingRequests;

    const fn account(number: u8) -> [u8; 32] {
        [number; 32]
    }

    #[test]
    fn an_account_has_two_and_nobody_has_anothers() {
        let mut standing = StandingRequests::new(1 << 20);
        for digest in 1..=3_u8 {
            let request = Bytes::from(vec![digest; 100]);
            standing.keep(account(1), [digest; 32], &request, Round(7 + 8 * u64::from(digest)), Round(1));
            // The same again is no other one.
            standing.keep(account(1), [digest; 32], &request, Round(7 + 8 * u64::from(digest)), Round(1));
        }
        assert_eq!(standing.len(), 2);
        assert_eq!(standing.find(&account(1), &[1; 32]), None);
        for digest in [2, 3] {
            assert_eq!(standing.find(&account(1), &[digest; 32]), Some(Bytes::from(vec![digest; 100])));
            assert_eq!(standing.find(&account(2), &[digest; 32]), None);
        }
    }

    #[test]
    fn what_nobody_asks_for_any_more_makes_room() {
        let mut standing = StandingRequests::new(10 << 10);
        let request = Bytes::from(vec![0; 4 << 10]);
        for number in 1..=3 {
            standing.keep(account(number), [number; 32], &request, Round(15), Round(8));
        }
        let kept = |standing: &StandingRequests, number: u8| standing.find(&account(number), &[number; 32]);
        assert!(kept(&standing, 1).is_some() && kept(&standing, 2).is_some());
        assert_eq!(kept(&standing, 3), None, "there is no room for a third");
        standing.sweep(Round(15));
        assert_eq!(standing.len(), 2, "the last round of the epoch can still be retrieved");
        standing.keep(account(3), [3; 32], &request, Round(23), Round(16));
        assert_eq!(standing.len(), 1);
        assert!(kept(&standing, 3).is_some());
        standing.forget_account(&account(3));
        assert_eq!(standing.len(), 0);
        // Whoever brings one after the other takes nobody's place but its own.
        for digest in 10..20 {
            standing.keep(account(3), [digest; 32], &request, Round(23), Round(16));
        }
        assert_eq!(standing.len(), 2);
        standing.keep(account(4), [4; 32], &Bytes::from(vec![0; 1 << 10]), Round(23), Round(16));
        assert!(kept(&standing, 4).is_some());
    }
}
