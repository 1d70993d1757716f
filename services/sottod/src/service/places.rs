//! How much an account, and all of them, have under way of each kind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sotto_protocol::server::Account;
use sotto_wire::Refused;
use tokio::sync::OwnedSemaphorePermit;

use super::{Service, lock};

/// What an account may have under way of each kind at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Upload,
    Query,
    /// A mapping or a hint.
    Download,
    /// A unit's contents, to check an answer.
    Check,
}

impl Kind {
    /// One, or mapping and hint, and one more while the server has not noticed yet that a caller has gone; a check can be
    /// made another time.
    fn per_account(self) -> u8 {
        match self {
            Self::Upload | Self::Query => 2,
            Self::Download => 3,
            Self::Check => 1,
        }
    }
}

/// How many calls of each kind of each account are under way.
pub(super) type Busy = HashMap<(Account, Kind), u8>;

impl Service {
    /// A place among the account's own calls and among all of the kind.
    pub(super) fn admit(&self, kind: Kind, account: Account) -> Result<Admission, Refused> {
        let places = match kind {
            Kind::Upload => &self.uploads,
            Kind::Query => &self.queries,
            Kind::Download | Kind::Check => &self.mappings,
        };
        let permit = Arc::clone(places).try_acquire_owned().map_err(|_| Refused::Busy)?;
        let mut busy = lock(&self.busy);
        let calls = busy.entry((account, kind)).or_default();
        if *calls >= kind.per_account() {
            return Err(Refused::Busy);
        }
        *calls += 1;
        drop(busy);
        Ok(Admission { caller: (account, kind), busy: Arc::clone(&self.busy), permit, memory: None })
    }

    /// Whether no call holds a place.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let crate::config::Limits { queries, retrievals, uploads, mappings, .. } = self.limits;
        let places = [
            (&self.queries, queries),
            (&self.retrievals, retrievals),
            (&self.uploads, uploads),
            (&self.mappings, mappings),
        ];
        let free = |(kind, most): &(&Arc<tokio::sync::Semaphore>, usize)| kind.available_permits() == *most;
        lock(&self.busy).is_empty() && places.iter().all(free)
    }
}

/// A call under way; ends with it.
pub(super) struct Admission {
    caller: (Account, Kind),
    busy: Arc<Mutex<Busy>>,
    pub(super) permit: OwnedSemaphorePermit,
    /// Memory that the call takes as long as it is under way.
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut busy = lock(&self.busy);
        if let Some(calls) = busy.get_mut(&self.caller) {
            *calls = calls.saturating_sub(1);
            if *calls == 0 {
                busy.remove(&self.caller);
            }
        }
    }
}
