//! Parsed PIR keys of the clients, addressed by the SHA-256 of what was uploaded.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pir_core::Scheme;
use sotto_protocol::server::Account;
use sotto_wire::Refused;
use tokio::time::Instant;

/// Bytes that a parsed set takes in memory per encoded byte, at most: the half that travels as a seed is expanded, and
/// a packed coefficient of 50 bits becomes a word of 64.
const PARSED_PER_ENCODED: usize = 3;

/// Memory that a server budgets for one client's keys, bytes.
#[must_use]
pub fn key_memory_bytes<S: Scheme>() -> usize {
    S::public_keys_bytes().saturating_mul(PARSED_PER_ENCODED)
}

/// At most one set of keys per account, so that nobody can crowd others out with more. When the budget is used up, the
/// set longest unused is dropped, and its owner uploads it again; but not one that was used for a retrieval a short
/// while ago, so that uploads alone crowd nobody out who takes part.
pub(crate) struct KeyStore<S: Scheme> {
    capacity: usize,
    protection: Duration,
    entries: HashMap<Account, Entry<S>>,
    by_age: BTreeMap<u64, Account>,
    uses: u64,
}

struct Entry<S: Scheme> {
    digest: [u8; 32],
    keys: Arc<S::PublicKeys>,
    used: u64,
    retrieved: Option<Instant>,
}

impl<S: Scheme> KeyStore<S> {
    /// A store for `budget` bytes of memory, but at least for one set. A retrieval protects its keys for `protection`.
    pub(crate) fn new(budget: usize, protection: Duration) -> Self {
        let capacity = budget.checked_div(key_memory_bytes::<S>()).unwrap_or(1).max(1);
        Self { capacity, protection, entries: HashMap::new(), by_age: BTreeMap::new(), uses: 0 }
    }

    /// Takes keys in; [`Refused::Busy`] if there is no room.
    pub(crate) fn insert(
        &mut self,
        account: Account,
        digest: [u8; 32],
        keys: Arc<S::PublicKeys>,
        now: Instant,
    ) -> Result<(), Refused> {
        // Of one account new keys take the place of the old ones, and their protection.
        let retrieved = self.entries.get(&account).and_then(|entry| entry.retrieved);
        self.remove(&account);
        if self.entries.len() >= self.capacity {
            let oldest = self.by_age.values().find(|account| self.may_go(account, now)).copied();
            self.remove(&oldest.ok_or(Refused::Busy)?);
        }
        self.uses += 1;
        self.by_age.insert(self.uses, account);
        self.entries.insert(account, Entry { digest, keys, used: self.uses, retrieved });
        Ok(())
    }

    /// The keys an account names, if they are the ones it uploaded last.
    pub(crate) fn find(&self, account: &Account, digest: &[u8; 32]) -> Option<Arc<S::PublicKeys>> {
        let entry = self.entries.get(account).filter(|entry| entry.digest == *digest)?;
        Some(Arc::clone(&entry.keys))
    }

    /// An account's keys serve a retrieval that is within its quota.
    pub(crate) fn used(&mut self, account: &Account, now: Instant) {
        let Some(entry) = self.entries.get_mut(account) else { return };
        self.uses += 1;
        self.by_age.remove(&entry.used);
        self.by_age.insert(self.uses, *account);
        entry.used = self.uses;
        entry.retrieved = Some(now);
    }

    /// How many sets there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn has(&self, account: &Account) -> bool {
        self.entries.contains_key(account)
    }

    fn may_go(&self, account: &Account, now: Instant) -> bool {
        let retrieved = self.entries.get(account).and_then(|entry| entry.retrieved);
        retrieved.is_none_or(|at| now.saturating_duration_since(at) >= self.protection)
    }

    fn remove(&mut self, account: &Account) {
        if let Some(entry) = self.entries.remove(account) {
            self.by_age.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Arc;

    use pir_core::{NoOp, Scheme, SealPir};
    use sotto_wire::Refused;
    use tokio::time::Instant;

    use super::{KeyStore, PARSED_PER_ENCODED};

    const PROTECTION: Duration = Duration::from_secs(6);

    /// A store with room for so many sets.
    fn store(sets: usize) -> KeyStore<NoOp> {
        KeyStore::new(sets * PARSED_PER_ENCODED * NoOp::public_keys_bytes() + 1, PROTECTION)
    }

    fn insert(store: &mut KeyStore<NoOp>, number: u8, digest: u8, now: Instant) -> Result<(), Refused> {
        let keys = Arc::new(NoOp::decode_public_keys(&[7; 8]).unwrap());
        store.insert([number; 32], [digest; 32], keys, now)
    }

    #[test]
    fn the_budget_counts_memory_and_not_what_was_sent() {
        let store = KeyStore::<SealPir>::new(8 << 30, PROTECTION);
        // A parsed set has 59 keys of two halves with 2,048 words.
        let parsed = 59 * 2 * 2048 * size_of::<u64>();
        assert!(store.capacity * parsed < 8 << 30 && parsed > SealPir::public_keys_bytes());
    }

    #[test]
    fn the_budget_holds_and_the_longest_unused_keys_go_first() {
        let (mut store, now) = (store(2), Instant::now());
        insert(&mut store, 1, 11, now).unwrap();
        insert(&mut store, 2, 12, now).unwrap();
        assert!(store.find(&[1; 32], &[11; 32]).is_some());
        store.used(&[1; 32], now);
        // Even when nothing is protected any more.
        insert(&mut store, 3, 13, now + PROTECTION).unwrap();
        assert!(store.has(&[1; 32]) && !store.has(&[2; 32]) && store.has(&[3; 32]));
        assert_eq!(store.entries.len(), store.by_age.len());
    }

    #[test]
    fn a_flood_of_uploads_crowds_out_nobody_who_retrieves() {
        let (mut store, now) = (store(3), Instant::now());
        for number in [1, 2] {
            insert(&mut store, number, number, now).unwrap();
            store.used(&[number; 32], now);
        }
        for number in 10..100 {
            insert(&mut store, number, number, now).unwrap();
        }
        assert!(store.has(&[1; 32]) && store.has(&[2; 32]) && store.has(&[99; 32]));
        store.used(&[99; 32], now);
        assert_eq!(insert(&mut store, 100, 100, now), Err(Refused::Busy));
        // Replacing one's own keys needs no room, and the place is as safe as before.
        insert(&mut store, 1, 9, now).unwrap();
        assert_eq!(insert(&mut store, 100, 100, now), Err(Refused::Busy));
        insert(&mut store, 100, 100, now + PROTECTION).unwrap();
        assert_eq!((store.entries.len(), store.by_age.len()), (3, 3));
    }

    #[test]
    fn an_account_has_one_set_of_keys_and_only_its_own() {
        let (mut store, now) = (store(9), Instant::now());
        insert(&mut store, 1, 11, now).unwrap();
        insert(&mut store, 1, 12, now).unwrap();
        assert!(store.find(&[1; 32], &[11; 32]).is_none());
        assert!(store.find(&[2; 32], &[12; 32]).is_none());
        assert!(store.find(&[1; 32], &[12; 32]).is_some());
        assert_eq!((store.entries.len(), store.by_age.len()), (1, 1));
    }
}
