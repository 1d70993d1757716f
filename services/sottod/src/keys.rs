//! Parsed PIR keys of the clients, addressed by the SHA-256 of what was uploaded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pir_core::Scheme;
use sotto_protocol::server::Account;

/// At most one set of keys per account, so that nobody can crowd others out with more; when the budget is used up, the
/// set longest unused is dropped, and its owner uploads it again.
pub(crate) struct KeyStore<S: Scheme> {
    capacity: usize,
    entries: HashMap<Account, Entry<S>>,
    by_age: BTreeMap<u64, Account>,
    uses: u64,
}

struct Entry<S: Scheme> {
    digest: [u8; 32],
    keys: Arc<S::PublicKeys>,
    used: u64,
}

impl<S: Scheme> KeyStore<S> {
    /// A store for `budget` bytes of encoded keys, but at least for one set.
    pub(crate) fn new(budget: usize) -> Self {
        let capacity = budget.checked_div(S::public_keys_bytes()).unwrap_or(1).max(1);
        Self { capacity, entries: HashMap::new(), by_age: BTreeMap::new(), uses: 0 }
    }

    pub(crate) fn insert(&mut self, account: Account, digest: [u8; 32], keys: Arc<S::PublicKeys>) {
        self.remove(&account);
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_age.insert(self.uses, account);
        self.entries.insert(account, Entry { digest, keys, used: self.uses });
    }

    /// The keys an account names, if they are the ones it uploaded last.
    pub(crate) fn find(&mut self, account: &Account, digest: &[u8; 32]) -> Option<Arc<S::PublicKeys>> {
        let entry = self.entries.get_mut(account).filter(|entry| entry.digest == *digest)?;
        self.uses += 1;
        self.by_age.remove(&entry.used);
        self.by_age.insert(self.uses, *account);
        entry.used = self.uses;
        Some(Arc::clone(&entry.keys))
    }

    pub(crate) fn has(&self, account: &Account) -> bool {
        self.entries.contains_key(account)
    }

    fn remove(&mut self, account: &Account) {
        if let Some(entry) = self.entries.remove(account) {
            self.by_age.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pir_core::{NoOp, Scheme};

    use super::KeyStore;

    #[test]
    fn the_budget_holds_and_the_longest_unused_keys_go_first() {
        let keys = || Arc::new(NoOp::decode_public_keys(&[7; 8]).unwrap());
        let mut store = KeyStore::<NoOp>::new(2 * NoOp::public_keys_bytes() + 1);
        store.insert([1; 32], [11; 32], keys());
        store.insert([2; 32], [12; 32], keys());
        assert!(store.find(&[1; 32], &[11; 32]).is_some());
        store.insert([3; 32], [13; 32], keys());
        assert!(store.has(&[1; 32]) && !store.has(&[2; 32]) && store.has(&[3; 32]));
        assert_eq!(store.entries.len(), store.by_age.len());
    }

    #[test]
    fn an_account_has_one_set_of_keys_and_only_its_own() {
        let keys = || Arc::new(NoOp::decode_public_keys(&[7; 8]).unwrap());
        let mut store = KeyStore::<NoOp>::new(1 << 20);
        store.insert([1; 32], [11; 32], keys());
        store.insert([1; 32], [12; 32], keys());
        assert!(store.find(&[1; 32], &[11; 32]).is_none());
        assert!(store.find(&[2; 32], &[12; 32]).is_none());
        assert!(store.find(&[1; 32], &[12; 32]).is_some());
        assert_eq!((store.entries.len(), store.by_age.len()), (1, 1));
    }
}
