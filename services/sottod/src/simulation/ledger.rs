//! What was promised to anybody, and whether it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use mpir::noop;
use sotto_log::testing::History;
use sotto_log::{Phase, SealedRound, State};
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::manifest::{MANIFEST_BYTES, Manifest, SignedManifest};
use sotto_protocol::table::LOT_SLOTS;
use sotto_protocol::{Deposit, Label, Round, ServerParameters};

use super::world::{ROOT, World};
use crate::round_database::RoundDatabase;

type Encoded = [u8; DEPOSIT_BYTES];

/// All that anybody did or was told, over all lives of a server.
pub(super) struct Ledger {
    world: Arc<World>,
    parameters: ServerParameters,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Deposits that clients sent, for which round.
    sent: BTreeMap<Encoded, Round>,
    acknowledged: BTreeMap<Encoded, Round>,
    /// Rounds that were opened, and in which life clients heard of it.
    opened: BTreeMap<Round, Option<usize>>,
    sealed: BTreeMap<Round, SealedRound>,
    published: BTreeMap<Round, SignedManifest>,
    /// What was to be published and may have been.
    unsure: BTreeMap<Round, SignedManifest>,
    retired: BTreeSet<Round>,
    /// Slots that accounts were given.
    slots: BTreeMap<u32, [u8; 32]>,
    /// Slots of accounts that were to be closed, and that nobody was given since.
    given_back: BTreeSet<u32>,
    /// How many of these were given to others.
    had_again: usize,
    /// How many accounts were closed.
    closed: usize,
    /// Accounts that were let in.
    admitted: BTreeSet<[u8; 32]>,
    /// Whether every node has had the time to hear of all of them.
    all_must_know: bool,
}

/// What a history had in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) acknowledged: usize,
    pub(super) published: usize,
    pub(super) admitted: usize,
    pub(super) slots: usize,
    pub(super) closed: usize,
    /// Slots of closed accounts that others were given.
    pub(super) had_again: usize,
}

impl Ledger {
    pub(super) fn new(world: Arc<World>, parameters: ServerParameters) -> Self {
        Self { world, parameters, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.world.violated(what());
        }
    }

    pub(super) fn sent(&self, round: Round, deposit: &Deposit) {
        self.lock().sent.insert(deposit.encode(), round);
    }

    /// A server has acknowledged a deposit, whether its sender hears of it or not.
    pub(super) fn acknowledged(&self, round: Round, deposit: &Deposit) {
        self.lock().acknowledged.insert(deposit.encode(), round);
    }

    /// Labels and boxes that must be in a round.
    pub(super) fn deposits(&self, round: Round) -> Vec<Deposit> {
        let inner = self.lock();
        let of_round = inner.acknowledged.iter().filter(|(_, named)| **named == round);
        of_round.map(|(deposit, _)| Deposit::decode(deposit).unwrap()).collect()
    }

    /// An account was given a slot.
    pub(super) fn given(&self, slot: u32, account: [u8; 32]) {
        let before = {
            let inner = &mut *self.lock();
            inner.had_again += usize::from(inner.given_back.remove(&slot));
            inner.slots.insert(slot, account)
        };
        self.check(before.is_none_or(|before| before == account), || {
            format!("slot {slot} was given to two accounts")
        });
    }

    /// A server has let an account in, and with slots said which is its own.
    pub(super) fn admitted(&self, account: [u8; 32], slot: Option<u32>) {
        self.lock().admitted.insert(account);
        if let Some(slot) = slot {
            self.given(slot, account);
        }
    }

    /// An account is to be closed, and may be from now on: its slot may be given to somebody else.
    pub(super) fn closing(&self, account: [u8; 32], slot: Option<u32>) {
        let inner = &mut *self.lock();
        inner.admitted.remove(&account);
        if let Some(slot) = slot {
            inner.slots.remove(&slot);
            inner.given_back.insert(slot);
        }
    }

    /// An account was closed.
    pub(super) fn closed(&self) {
        self.lock().closed += 1;
    }

    /// From now on whatever a node finds in its log has all accounts that were let in, and the lots of all slots that were given.
    pub(super) fn all_must_know(&self) {
        self.lock().all_must_know = true;
    }

    /// What stands in the log now.
    pub(super) fn stands(&self, state: &State) {
        let (unknown, unbegun) = {
            let inner = self.lock();
            let admitted = inner.admitted.iter().filter(|_| inner.all_must_know);
            let slots = inner.slots.keys().filter(|_| inner.all_must_know);
            let unknown = admitted.filter(|account| !state.knows(account)).count();
            (unknown, slots.filter(|slot| **slot / LOT_SLOTS >= state.lots()).count())
        };
        self.check(unknown == 0, || format!("{unknown} accounts that were let in are unknown"));
        self.check(unbegun == 0, || format!("{unbegun} slots are of lots that can be given once more"));
        let newest = self.lock().opened.last_key_value().map(|(newest, _)| *newest);
        for (round, _) in state.rounds().filter(|(round, _)| Some(*round) > newest) {
            self.lock().opened.insert(round, None);
        }
        let published = self.lock().published.last_key_value().map(|(newest, _)| *newest);
        for (round, manifest) in state.manifests().iter().filter(|(round, _)| Some(*round) > published) {
            self.published(*round, manifest);
        }
    }

    /// A client has heard that a round is open.
    pub(super) fn heard_of_open(&self, round: Round) {
        let life = self.world.life();
        let heard = self.lock().opened.get(&round).copied();
        self.check(heard.is_some(), || format!("round {round} was announced before it was in the log"));
        let heard = heard.flatten().unwrap_or(life);
        self.check(heard == life, || format!("round {round} was announced in lives {heard} and {life}"));
        self.lock().opened.insert(round, Some(life));
    }

    pub(super) fn publishing(&self, round: Round, manifest: &SignedManifest) {
        self.lock().unsure.insert(round, manifest.clone());
    }

    /// A manifest counts from now on.
    pub(super) fn published(&self, round: Round, manifest: &SignedManifest) {
        let known = self.lock().published.insert(round, manifest.clone());
        self.check(known.is_none_or(|known| known == *manifest), || {
            format!("round {round} was published under two manifests")
        });
    }

    /// A client has seen a manifest; returns it decoded.
    pub(super) fn saw_manifest(&self, signed: &SignedManifest) -> Option<Manifest> {
        let Ok(manifest) = signed.verify(&self.parameters.manifest_key) else {
            self.world.violated("a manifest is not signed");
            return None;
        };
        let round = manifest.round;
        let published = self.lock().published.get(&round).cloned();
        self.check(published.is_some(), || format!("manifest {round} was seen before it was in the log"));
        self.published(round, signed);
        Some(manifest)
    }

    pub(super) fn retired(&self, round: Round) {
        self.lock().retired.insert(round);
    }

    pub(super) fn knows_content_of(&self, round: Round) -> bool {
        self.lock().sealed.contains_key(&round)
    }

    /// A sealed round was read from the log.
    pub(super) fn read(&self, mut sealed: SealedRound) {
        sealed.deposits.sort_by_key(Deposit::encode);
        let round = sealed.round;
        let inner = self.lock();
        let mut wrong = Vec::new();
        if let Some(known) = inner.sealed.get(&round)
            && *known != sealed
        {
            wrong.push(format!("round {round} is not what it was"));
        }
        let contents: BTreeSet<Encoded> = sealed.deposits.iter().map(Deposit::encode).collect();
        if contents.len() != sealed.deposits.len() {
            wrong.push(format!("a deposit is twice in round {round}"));
        }
        if contents.iter().any(|deposit| inner.sent.get(deposit) != Some(&round)) {
            wrong.push(format!("a deposit in round {round} was not sent for it"));
        }
        let lost = |(deposit, named): &(&Encoded, &Round)| **named == round && !contents.contains(*deposit);
        if inner.acknowledged.iter().any(|entry| lost(&entry)) {
            wrong.push(format!("an acknowledged deposit is not in round {round}"));
        }
        drop(inner);
        wrong.into_iter().for_each(|what| self.world.violated(what));
        self.lock().sealed.insert(round, sealed);
    }

    /// What a start finds in the log.
    pub(super) fn found(&self, history: &History) {
        let inner = self.lock();
        let newest = inner.opened.last_key_value().map(|(newest, _)| *newest);
        let found: BTreeMap<Round, SignedManifest> = history.manifests.iter().cloned().collect();
        let lost = inner.published.iter().find(|(round, manifest)| found.get(round) != Some(manifest));
        let lost = lost.map(|(round, _)| *round);
        let phases: BTreeMap<Round, Phase> = history.rounds.iter().copied().collect();
        let gone = |round: &&Round| !phases.contains_key(round) && !inner.retired.contains(round);
        let gone = inner.opened.keys().find(gone).copied();
        let strange = found.iter().find(|(round, manifest)| {
            !inner.published.contains_key(round) && inner.unsure.get(round) != Some(manifest)
        });
        let strange = strange.map(|(round, _)| *round);
        drop(inner);
        self.check(history.newest >= newest, || format!("the log has forgotten that {newest:?} was opened"));
        self.check(lost.is_none(), || format!("the manifest of {lost:?} is lost or another one"));
        self.check(gone.is_none(), || format!("round {gone:?} is gone"));
        self.check(strange.is_none(), || format!("the manifest of {strange:?} comes from nowhere"));
        for (round, manifest) in &found {
            self.published(*round, manifest);
        }
    }

    /// The last judgement, when the last server has sealed and read all rounds before it.
    pub(super) fn judge(&self, key: &[u8; 32]) -> Figures {
        let inner = self.lock();
        let mut wrong = Vec::new();
        let mut places: BTreeMap<Encoded, Vec<Round>> = BTreeMap::new();
        for (round, sealed) in &inner.sealed {
            sealed
                .deposits
                .iter()
                .for_each(|deposit| places.entry(deposit.encode()).or_default().push(*round));
        }
        for (deposit, round) in &inner.acknowledged {
            let places = places.get(deposit).map(Vec::as_slice).unwrap_or_default();
            if *places != [*round] {
                wrong.push(format!("a deposit acknowledged for round {round} is in {places:?}"));
            }
        }
        let mut previous = [0; 32];
        for (round, signed) in &inner.published {
            let manifest = signed.verify(key).unwrap();
            if manifest.round != *round || manifest.previous != previous {
                wrong.push(format!("the chain is broken at round {round}"));
            }
            previous = manifest.digest();
            let Some(sealed) = inner.sealed.get(round) else {
                wrong.push(format!("round {round} was published and never read"));
                continue;
            };
            if self.rebuilt(sealed, manifest.previous) != signed.bytes {
                wrong.push(format!("round {round} is another when it is built again"));
            }
        }
        let figures = Figures {
            acknowledged: inner.acknowledged.len(),
            published: inner.published.len(),
            admitted: inner.admitted.len(),
            slots: inner.slots.len(),
            closed: inner.closed,
            had_again: inner.had_again,
        };
        drop(inner);
        wrong.into_iter().for_each(|what| self.world.violated(what));
        figures
    }

    /// The manifest of a round that is built from the same deposits in another order.
    fn rebuilt(&self, sealed: &SealedRound, previous: [u8; 32]) -> [u8; MANIFEST_BYTES] {
        let mut sealed = sealed.clone();
        sealed.deposits.sort_by_key(|Deposit { label: Label(label), .. }| core::cmp::Reverse(*label));
        let database = RoundDatabase::build(sealed, &*noop(), &ROOT, &self.parameters).unwrap();
        Manifest { previous, ..database.manifest }.encode()
    }
}
