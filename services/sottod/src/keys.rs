//! Parsed PIR keys of the clients, addressed by the SHA-256 of what was uploaded.

pub(crate) mod files;

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use mpir::{Engine, PublicKeys};
use sotto_protocol::Round;
use sotto_protocol::server::Account;
use sotto_wire::Refused;
use sotto_wire::limits::{UPLOAD_ROUNDS, UPLOADS_MAX};
use tokio::time::Instant;

use files::KeyFiles;

/// Bytes that a parsed set takes in memory per encoded byte, at most: the half that travels as a seed is expanded, and
/// a packed coefficient of 50 bits becomes a word of 64.
const PARSED_PER_ENCODED: usize = 3;

/// What a set takes at least, with what finds it; some engines have keys of a few bytes.
const SET_BYTES: usize = 512;

/// Memory that a server budgets for one client's keys, bytes.
#[must_use]
pub fn key_memory_bytes(engine: &dyn Engine) -> usize {
    engine.public_keys_bytes().saturating_mul(PARSED_PER_ENCODED).max(SET_BYTES)
}

/// The rounds as far as keys care: the oldest that is not over, and the one that takes deposits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) oldest: Round,
    pub(crate) open: Round,
}

/// At most two sets of keys per account, so that nobody can crowd others out with more: the newest, and the one before
/// until the round that was open when the newest came is over, since what was sealed before is retrieved with that. When
/// the budget is used up, the sets of the account that used them longest ago are dropped, and their owner uploads again;
/// but not those of one who retrieved a short while ago, so that uploads alone crowd nobody out who takes part. A set
/// for which there is no room is refused, and its owner goes on with the old one.
pub(crate) struct KeyStore {
    capacity: usize,
    protection: Duration,
    entries: HashMap<Account, Entry>,
    by_age: BTreeMap<u64, Account>,
    uses: u64,
    /// Accounts with a set before the newest, and when that is over; ascending.
    former: VecDeque<(Round, Account)>,
    /// Which stretch of rounds the uploads are counted in, and how many there were.
    uploads: (u64, HashMap<Account, u8>),
    /// Where they are kept, too.
    files: Option<Arc<KeyFiles>>,
}

struct Entry {
    newest: Set,
    /// With the round after whose end it is dropped.
    former: Option<(Round, Set)>,
    used: u64,
    retrieved: Option<Instant>,
}

struct Set {
    digest: [u8; 32],
    keys: PublicKeys,
}

impl KeyStore {
    /// A store for `budget` bytes of memory, but at least for one set. A retrieval protects its keys for `protection`.
    pub(crate) fn new(
        engine: &dyn Engine,
        budget: usize,
        protection: Duration,
        files: Option<Arc<KeyFiles>>,
    ) -> Self {
        let capacity = budget.checked_div(key_memory_bytes(engine)).unwrap_or(1).max(1);
        Self {
            capacity,
            protection,
            entries: HashMap::new(),
            by_age: BTreeMap::new(),
            uses: 0,
            former: VecDeque::new(),
            uploads: (0, HashMap::new()),
            files,
        }
    }

    /// Takes keys in; [`Refused::Busy`] if there is no room, [`Refused::Quota`] if the account brings too many.
    pub(crate) fn insert(
        &mut self,
        account: Account,
        digest: [u8; 32],
        keys: PublicKeys,
        progress: Progress,
        now: Instant,
    ) -> Result<(), Refused> {
        self.drop_former(progress.oldest);
        if self.find(&account, &digest).is_some() {
            return Ok(());
        }
        if *self.uploads_of(account, progress.open) >= UPLOADS_MAX {
            return Err(Refused::Quota);
        }
        // A third set takes the place of the second: of one account they are never more.
        if let Some((_, former)) = self.entries.get_mut(&account).and_then(|entry| entry.former.take()) {
            self.forget(&former);
            self.former.retain(|(_, other)| *other != account);
        }
        if self.len() >= self.capacity {
            let may_go = |other: &&Account| **other != account && self.may_go(other, now);
            let oldest = self.by_age.values().find(may_go).copied();
            self.remove(&oldest.ok_or(Refused::Busy)?);
        }
        *self.uploads_of(account, progress.open) += 1;
        let newest = Set { digest, keys };
        let Some(entry) = self.entries.get_mut(&account) else {
            self.uses += 1;
            self.by_age.insert(self.uses, account);
            let entry = Entry { newest, former: None, used: self.uses, retrieved: None };
            self.entries.insert(account, entry);
            return Ok(());
        };
        let former = core::mem::replace(&mut entry.newest, newest);
        entry.former = Some((progress.open, former));
        self.former.push_back((progress.open, account));
        self.touch(&account);
        Ok(())
    }

    /// The keys an account names, if the server has them.
    pub(crate) fn find(&self, account: &Account, digest: &[u8; 32]) -> Option<PublicKeys> {
        let entry = self.entries.get(account)?;
        let former = entry.former.as_ref().map(|(_, former)| former);
        let set = core::iter::once(&entry.newest).chain(former).find(|set| set.digest == *digest)?;
        Some(set.keys.clone())
    }

    /// An account's keys serve a retrieval that is within its quota.
    pub(crate) fn used(&mut self, account: &Account, now: Instant) {
        self.touch(account);
        if let Some(entry) = self.entries.get_mut(account) {
            entry.retrieved = Some(now);
        }
    }

    /// Drops the sets that no round needs any more, when all rounds before `oldest` are over.
    pub(crate) fn drop_former(&mut self, oldest: Round) {
        while let Some((open, account)) = self.former.front().copied()
            && open < oldest
        {
            self.former.pop_front();
            let entry = self.entries.get_mut(&account);
            if let Some((_, former)) =
                entry.and_then(|entry| entry.former.take_if(|(until, _)| *until <= open))
            {
                self.forget(&former);
            }
        }
    }

    /// How many sets there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.former.len()
    }

    pub(crate) fn has(&self, account: &Account) -> bool {
        self.entries.contains_key(account)
    }

    /// What was replaced is used by nobody any more. What is only dropped for others stays on the disk.
    fn forget(&self, former: &Set) {
        if let Some(files) = &self.files {
            files.forget(&former.digest);
        }
    }

    fn uploads_of(&mut self, account: Account, open: Round) -> &mut u8 {
        let stretch = open.0 / UPLOAD_ROUNDS;
        if self.uploads.0 != stretch {
            self.uploads = (stretch, HashMap::new());
        }
        self.uploads.1.entry(account).or_default()
    }

    fn touch(&mut self, account: &Account) {
        let Some(entry) = self.entries.get_mut(account) else { return };
        self.uses += 1;
        self.by_age.remove(&entry.used);
        self.by_age.insert(self.uses, *account);
        entry.used = self.uses;
    }

    fn may_go(&self, account: &Account, now: Instant) -> bool {
        let retrieved = self.entries.get(account).and_then(|entry| entry.retrieved);
        retrieved.is_none_or(|at| now.saturating_duration_since(at) >= self.protection)
    }

    /// Forgets the keys of an account that is no more, here and on the disk.
    pub(crate) fn forget_account(&mut self, account: &Account) {
        if let Some(Entry { newest, former, .. }) = self.entries.get(account) {
            [Some(newest), former.as_ref().map(|(_, former)| former)]
                .into_iter()
                .flatten()
                .for_each(|set| self.forget(set));
        }
        self.remove(account);
    }

    fn remove(&mut self, account: &Account) {
        if let Some(entry) = self.entries.remove(account) {
            self.by_age.remove(&entry.used);
            if entry.former.is_some() {
                self.former.retain(|(_, other)| other != account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Arc;

    use mpir::{noop, sealpir, voce_hint};
    use sha2::{Digest, Sha256};
    use sotto_protocol::Round;
    use sotto_wire::Refused;
    use tokio::time::Instant;

    use super::files::KeyFiles;
    use super::{Account, Entry, KeyStore, Progress, UPLOAD_ROUNDS, UPLOADS_MAX, key_memory_bytes};

    const PROTECTION: Duration = Duration::from_secs(6);

    /// A store with room for so many sets.
    fn store(sets: usize) -> KeyStore {
        let budget = sets * key_memory_bytes(&*noop()) + 1;
        KeyStore::new(&*noop(), budget, PROTECTION, None)
    }

    /// Two rounds before the open one are not over.
    fn at(open: u64) -> Progress {
        Progress { oldest: Round(open - 2), open: Round(open) }
    }

    fn insert(store: &mut KeyStore, number: u8, digest: u8, now: Instant) -> Result<(), Refused> {
        insert_at(store, number, digest, at(9), now)
    }

    fn insert_at(
        store: &mut KeyStore,
        number: u8,
        digest: u8,
        progress: Progress,
        now: Instant,
    ) -> Result<(), Refused> {
        let keys = noop().public_keys(&[7; 8]).unwrap();
        let taken = store.insert([number; 32], [digest; 32], keys, progress, now);
        let sets = |entry: &Entry| 1 + usize::from(entry.former.is_some());
        assert_eq!(store.entries.values().map(sets).sum::<usize>(), store.len());
        assert_eq!(store.entries.len(), store.by_age.len());
        assert!(store.len() <= store.capacity);
        taken
    }

    fn found(store: &KeyStore, number: u8, digest: u8) -> bool {
        store.find(&[number; 32], &[digest; 32]).is_some()
    }

    #[test]
    fn the_budget_counts_memory_and_not_what_was_sent() {
        let store = KeyStore::new(&*sealpir(), 8 << 30, PROTECTION, None);
        // A parsed set has 59 keys of two halves with 2,048 words.
        let parsed = 59 * 2 * 2048 * size_of::<u64>();
        assert!(store.capacity * parsed < 8 << 30 && parsed > sealpir().public_keys_bytes());
    }

    #[test]
    fn small_sets_are_counted_with_what_finds_them() {
        let budget = 1 << 30;
        let store = KeyStore::new(&*voce_hint(), budget, PROTECTION, None);
        let entry = size_of::<(Account, Entry)>() + size_of::<(u64, Account)>();
        assert!(store.capacity * entry <= budget, "{} sets of {entry} bytes", store.capacity);
    }

    #[test]
    fn the_budget_holds_and_the_longest_unused_keys_go_first() {
        let (mut store, now) = (store(2), Instant::now());
        insert(&mut store, 1, 11, now).unwrap();
        insert(&mut store, 2, 12, now).unwrap();
        assert!(found(&store, 1, 11));
        store.used(&[1; 32], now);
        // Even when nothing is protected any more.
        insert(&mut store, 3, 13, now + PROTECTION).unwrap();
        assert!(store.has(&[1; 32]) && !store.has(&[2; 32]) && store.has(&[3; 32]));
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
        // Nor does a second set of those who take part; they go on with the first.
        assert_eq!(insert(&mut store, 1, 9, now), Err(Refused::Busy));
        assert!(found(&store, 1, 1) && !found(&store, 1, 9));
        insert(&mut store, 1, 9, now + PROTECTION).unwrap();
        assert!(found(&store, 1, 1) && found(&store, 1, 9));
        assert_eq!(store.len(), 3);
    }

    #[test]
    fn the_set_before_serves_until_no_round_from_before_the_upload_is_left_and_no_longer() {
        let (mut store, now) = (store(9), Instant::now());
        insert_at(&mut store, 1, 11, at(9), now).unwrap();
        insert_at(&mut store, 1, 12, at(20), now).unwrap();
        insert_at(&mut store, 2, 13, at(20), now).unwrap();
        for oldest in [18, 19, 20] {
            store.drop_former(Round(oldest));
            assert!(found(&store, 1, 11) && found(&store, 1, 12), "{oldest}");
            assert_eq!(store.len(), 3);
        }
        store.drop_former(Round(21));
        assert!(!found(&store, 1, 11) && found(&store, 1, 12) && found(&store, 2, 13));
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn an_account_has_two_sets_of_keys_at_most_and_only_its_own() {
        let (mut store, now) = (store(9), Instant::now());
        for digest in 11..=13 {
            insert(&mut store, 1, digest, now).unwrap();
        }
        assert!(!found(&store, 1, 11) && found(&store, 1, 12) && found(&store, 1, 13));
        assert!(!found(&store, 2, 13));
        // Either of them once more changes nothing.
        insert(&mut store, 1, 12, now).unwrap();
        insert(&mut store, 1, 13, now).unwrap();
        assert!(found(&store, 1, 12) && found(&store, 1, 13));
        // The place of the set before is not forgotten with an earlier one of the same account.
        store.drop_former(Round(10));
        assert!(!found(&store, 1, 12) && found(&store, 1, 13));
        assert_eq!((store.len(), store.former.len()), (1, 0));
    }

    #[test]
    fn uploads_of_other_sets_are_counted_and_repetitions_are_not() {
        let (mut store, now) = (store(9), Instant::now());
        let stretch = 3 * UPLOAD_ROUNDS;
        for digest in 0..UPLOADS_MAX {
            for _ in 0..100 {
                insert_at(&mut store, 1, digest, at(stretch), now).unwrap();
            }
        }
        assert_eq!(insert_at(&mut store, 1, 99, at(stretch + 1), now), Err(Refused::Quota));
        assert!(
            found(&store, 1, UPLOADS_MAX - 1) && found(&store, 1, UPLOADS_MAX - 2),
            "what is there stays"
        );
        let end = stretch + UPLOAD_ROUNDS - 1;
        assert_eq!(insert_at(&mut store, 1, 99, at(end), now), Err(Refused::Quota));
        insert_at(&mut store, 2, 99, at(end), now).unwrap();
        insert_at(&mut store, 1, 99, at(end + 1), now).unwrap();
    }

    #[test]
    fn keys_that_were_replaced_leave_the_disk_and_those_dropped_for_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let files = Arc::new(KeyFiles::open(directory.path(), 8, 1 << 20, PROTECTION).unwrap());
        let mut store = KeyStore { files: Some(Arc::clone(&files)), ..store(2) };
        let now = Instant::now();
        let bring = |store: &mut KeyStore, number: u8, open: u64| {
            let encoded = [number; 8];
            let digest = Sha256::digest(encoded).into();
            let keys = noop().public_keys(&encoded).unwrap();
            store.insert([number / 10; 32], digest, keys, at(open), now).unwrap();
            if let Some(kept) = files.keep(&digest, encoded.to_vec().into()) {
                kept.blocking_recv().unwrap().unwrap();
            }
            digest
        };
        let (first, second) = (bring(&mut store, 10, 9), bring(&mut store, 11, 9));
        store.drop_former(Round(9));
        assert!(files.has(&first) && files.has(&second));
        store.drop_former(Round(10));
        assert!(!files.has(&first) && files.has(&second));
        // A third set while the second still serves.
        let (third, fourth) = (bring(&mut store, 12, 20), bring(&mut store, 13, 20));
        assert!(!files.has(&second) && files.has(&third) && files.has(&fourth));
        let other = bring(&mut store, 20, 20);
        assert!(!store.has(&[1; 32]) && files.has(&fourth) && files.has(&other));
    }

    #[test]
    fn who_is_dropped_is_dropped_with_both_sets() {
        let (mut store, now) = (store(2), Instant::now());
        insert(&mut store, 1, 11, now).unwrap();
        insert(&mut store, 1, 12, now).unwrap();
        insert(&mut store, 2, 13, now).unwrap();
        assert!(!store.has(&[1; 32]));
        assert_eq!((store.len(), store.former.len()), (1, 0));
    }
}
