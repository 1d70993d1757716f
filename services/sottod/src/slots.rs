//! Slots of accounts: who gets which, and by what its holder shows that it is its own.
//!
//! Nothing is stored of who has which slot. The log counts *lots* of 32 slots; those of a lot are handed out in an order that
//! this process draws and forgets, so that whoever reads the disk knows of an account at most from which lot its slot may be.
//! An account shows its slot with 16 bytes of HMAC-SHA-256 over a domain, the account and the number, under the slot key.
//! What is left of a lot when the process ends is not handed out any more. Nor is what an account was given that never heard the
//! answer: nobody knows it then, and the account gets another one.
//!
//! A slot is *had* by one account after the other, in *tenures*. When an account is closed, its slot waits in the memory of the
//! process that leads for one whole epoch of rounds at least, so that nothing is left of it in any round that can be retrieved,
//! and until there are 32 such: then the log says that these are vacant, and their next tenures go to newcomers, 32 at a time
//! as a lot does. So no entry of the log names one account and its slot; what an older copy of it tells is in docs/SECURITY.md.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use sotto_log::Tenure;
use sotto_protocol::server::Account;
use sotto_protocol::table::LOT_SLOTS;
use sotto_protocol::{OwnSlot, Round};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::host::{Host, NoRandomness};

const DOMAIN: &[u8] = b"sotto v1 slot credential";
const LATER_DOMAIN: &[u8] = b"sotto v1 slot credential of a later tenure";

/// When slots that were given back are somebody else's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy {
    /// Where an epoch of so many rounds begins.
    pub(crate) epoch_rounds: u64,
    /// So many at a time, at least.
    pub(crate) slots: usize,
}

impl Default for Vacancy {
    /// Almost three days of rounds of a minute, and a lot.
    fn default() -> Self {
        Self { epoch_rounds: 4096, slots: LOT_SLOTS as usize }
    }
}

/// The key of the credentials of one server's slots.
pub(crate) struct SlotKey(Zeroizing<[u8; 32]>);

impl SlotKey {
    pub(crate) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self(seed)
    }

    /// What an account is given with its slot: of a later tenure than the first, its number and 12 bytes.
    pub(crate) fn credential(&self, account: &Account, tenure: Tenure) -> OwnSlot {
        let domain = if tenure.number == 0 { DOMAIN } else { LATER_DOMAIN };
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("a key of HMAC has any size");
        let mac = mac.chain_update(domain).chain_update(account).chain_update(tenure.slot.to_le_bytes());
        let number = tenure.number.to_le_bytes();
        let mac = if tenure.number == 0 { mac } else { mac.chain_update(number) };
        let tag = mac.finalize().into_bytes();
        let credential = match tenure.number {
            0 => core::array::from_fn(|at| tag[at]),
            _ => core::array::from_fn(|at| if at < 4 { number[at] } else { tag[at - 4] }),
        };
        OwnSlot { number: tenure.slot, credential }
    }

    /// The tenure that this is, if it is one of the account's own.
    pub(crate) fn tenure(&self, account: &Account, shown: &OwnSlot) -> Option<Tenure> {
        let later = u32::from_le_bytes(core::array::from_fn(|at| shown.credential[at]));
        [0, later]
            .into_iter()
            .map(|number| Tenure { slot: shown.number, number })
            .find(|tenure| self.credential(account, *tenure).credential.ct_eq(&shown.credential).into())
    }
}

/// Of the slots that there are, one in so many may be given to accounts that are known: they had one before, and whoever could ask for
/// another one at will would take up the table.
const SLOTS_PER_OTHER: u32 = 16;

/// The slots that a process hands out.
#[derive(Default)]
pub(crate) struct SlotPool {
    /// Lots that have been begun, by this process or before.
    lots: u32,
    /// No more are begun.
    most: u32,
    vacancy: Vacancy,
    /// What is left of the newest, in the order in which it is handed out.
    left: Vec<Tenure>,
    /// Vacant ones that were begun as a lot is, and may not be stored as such: of each slot one.
    begun: BTreeMap<u32, u32>,
    /// What was shown to a server that was brought back from a backup, and is not stored yet.
    shown: BTreeMap<u32, u32>,
    /// Slots whose accounts have not shown them yet: whoever did not hear the answer gets the same again.
    unheard: BTreeMap<Account, Unheard>,
    /// Known accounts that were given another slot, each once.
    others: BTreeSet<Account>,
    /// Slots of accounts that were closed, each with the number of the tenure and the epoch in which that was.
    closed: BTreeMap<u32, (u32, u64)>,
    /// Those of them that are being written down as vacant, and nobody's meanwhile.
    vacating: BTreeMap<u32, u32>,
    /// The round in which the log came to say so: who had a slot before may have laid a box there.
    vacated_in: Option<Round>,
    /// That of the newest round.
    epoch: u64,
}

struct Unheard {
    tenure: Tenure,
    /// With its lot, so that nobody else is given this slot, whoever leads.
    is_stored: bool,
}

impl SlotPool {
    /// Goes on behind so many lots, up to at most so many.
    pub(crate) fn behind(lots: u32, most: u32, vacancy: Vacancy) -> Self {
        Self { lots, most, vacancy, ..Self::default() }
    }

    /// Goes on behind so many lots, as others may have begun them, or that which is not stored: what was given of it is nobody's. What
    /// was closed before may be somebody's again, and stays empty if it is not. Other processes may have made slots vacant in the round
    /// that is open.
    pub(crate) fn go_on_behind(&mut self, lots: u32, open: Round) {
        self.lots = lots.max(self.lots);
        self.left.clear();
        self.begun.clear();
        self.closed.clear();
        self.vacating.clear();
        self.shown.clear();
        self.vacated_in = Some(open);
        let others = &mut self.others;
        self.unheard.retain(|account, unheard| {
            if !unheard.is_stored {
                others.remove(account);
            }
            unheard.is_stored
        });
    }

    /// Lots that have been begun: those of the table.
    pub(crate) fn lots(&self) -> u32 {
        self.lots
    }

    /// Those that were vacant and were begun, and that are so still as far as the log says.
    pub(crate) fn begun(&mut self, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
        unstored(&mut self.begun, is_free)
    }

    /// The same of what was shown: whose it is stands in no entry with it.
    pub(crate) fn shown(&mut self, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
        unstored(&mut self.shown, is_free)
    }

    /// The slot that an account was given by this process and has not shown since.
    pub(crate) fn unheard(&self, account: &Account) -> Option<Tenure> {
        self.unheard.get(account).map(|unheard| unheard.tenure)
    }

    /// Whether an account is to hear of a slot whose lot may be somebody else's as long as nothing is stored.
    pub(crate) fn is_unstored(&self, account: &Account) -> bool {
        self.unheard.get(account).is_some_and(|unheard| !unheard.is_stored)
    }

    /// What this process proposed when it gave the account its slot is in the log.
    pub(crate) fn stored(&mut self, account: &Account) {
        if let Some(unheard) = self.unheard.get_mut(account) {
            unheard.is_stored = true;
        }
    }

    /// The account has shown its slot, which is nobody else's then: also if it was closed and is there again.
    pub(crate) fn heard(&mut self, account: &Account, shown: Tenure) {
        self.unheard.remove(account);
        self.closed.remove(&shown.slot);
    }

    /// Whether nobody can be told any more that this is its own, though the log does not say so yet.
    pub(crate) fn is_vacating(&self, slot: u32) -> bool {
        self.vacating.contains_key(&slot)
    }

    /// Whether nothing is laid there any more: the account was closed, and has not shown the slot since.
    pub(crate) fn is_given_back(&self, slot: u32) -> bool {
        self.closed.contains_key(&slot) || self.is_vacating(slot)
    }

    /// Whether somebody has shown a later tenure of its slot, and the log does not say so yet.
    pub(crate) fn is_over(&self, tenure: Tenure) -> bool {
        self.shown.get(&tenure.slot).is_some_and(|shown| *shown > tenure.number)
    }

    /// Whether this is in use and not stored as such.
    pub(crate) fn is_shown(&self, tenure: Tenure) -> bool {
        self.shown.get(&tenure.slot) == Some(&tenure.number)
    }

    /// The log says that nobody has them, or it was not to be: they are somebody's from the next round on.
    pub(crate) fn vacated_is_settled(&mut self, open: Round) {
        self.vacating.clear();
        self.vacated_in = Some(open);
    }

    /// The lots up to that of a slot have been begun, whatever the log says: one that was brought back from a backup knows
    /// nothing of those that were begun since.
    pub(crate) fn begin_up_to(&mut self, slot: u32) {
        let lots = slot / LOT_SLOTS + 1;
        if lots > self.lots {
            self.lots = lots;
            self.left.clear();
        }
    }

    /// What an account has shown is in use, whatever the log says: as for [`SlotPool::begin_up_to`].
    pub(crate) fn begin(&mut self, shown: Tenure) {
        self.left.retain(|tenure| tenure.slot != shown.slot);
        let number = self.shown.entry(shown.slot).or_default();
        *number = shown.number.max(*number);
    }

    /// The account is no more, since this round was open; it had its slot, as far as the log says.
    pub(crate) fn close(&mut self, account: &Account, tenure: Tenure, open: Round) {
        self.unheard.remove(account);
        self.closed.insert(tenure.slot, (tenure.number, self.epoch_of(open)));
    }

    /// A round is opened: where an epoch begins, the next tenures of slots that nobody has had for a whole one, if there are enough
    /// of them that none tells whose it was.
    pub(crate) fn vacated(&mut self, opened: Round) -> Vec<Tenure> {
        let epoch = self.epoch_of(opened);
        if core::mem::replace(&mut self.epoch, epoch) == epoch {
            return Vec::new();
        }
        let is_ripe = |(_, closed): &(u32, u64)| closed + 1 < epoch;
        if self.closed.values().filter(|closed| is_ripe(closed)).count() < self.vacancy.slots {
            return Vec::new();
        }
        let ripe = self.closed.iter().filter(|(_, closed)| is_ripe(closed));
        self.vacating = ripe.map(|(slot, (number, _))| (*slot, *number)).collect();
        self.closed.retain(|_, closed| !is_ripe(closed));
        let tenures = self.vacating.iter();
        tenures.map(|(slot, number)| Tenure { slot: *slot, number: *number }.next()).collect()
    }

    fn epoch_of(&self, round: Round) -> u64 {
        round.0 / self.vacancy.epoch_rounds
    }

    /// A slot for a new account, which must not hear of it before the lots are stored; none if the table is full. Those that are
    /// vacant, ascending, come before new lots.
    pub(crate) fn take(
        &mut self,
        account: Account,
        vacant: impl Iterator<Item = Tenure>,
        (open, host): (Round, &dyn Host),
    ) -> Result<Option<Tenure>, NoRandomness> {
        if self.left.is_empty() {
            let are_empty = self.vacating.is_empty() && Some(open) > self.vacated_in;
            let again = vacant.filter(|tenure| {
                are_empty && !self.begun.contains_key(&tenure.slot) && !self.shown.contains_key(&tenure.slot)
            });
            let again: Vec<Tenure> = again.take(self.vacancy.slots).collect();
            if again.len() == self.vacancy.slots {
                self.begun.extend(again.iter().map(|tenure| (tenure.slot, tenure.number)));
                self.left = shuffled(again, host)?;
            } else if self.lots < self.most {
                let first = self.lots * LOT_SLOTS;
                self.left = shuffled((first..first + LOT_SLOTS).map(Tenure::first), host)?;
                self.lots += 1;
            } else {
                return Ok(None);
            }
        }
        let tenure = self.left.pop();
        if let Some(tenure) = tenure {
            self.unheard.insert(account, Unheard { tenure, is_stored: false });
        }
        Ok(tenure)
    }

    /// Another slot for an account that is known, shows none, and is not known here to have been given one: the answer was lost,
    /// and so was who remembered it. The same conditions hold as for a new account's. None if it was given one before, or too many
    /// were.
    pub(crate) fn take_other(
        &mut self,
        account: Account,
        vacant: impl Iterator<Item = Tenure>,
        (open, host): (Round, &dyn Host),
    ) -> Result<Option<Tenure>, NoRandomness> {
        let most = (self.lots * LOT_SLOTS / SLOTS_PER_OTHER).max(LOT_SLOTS) as usize;
        if self.others.len() >= most || self.others.contains(&account) {
            return Ok(None);
        }
        let tenure = self.take(account, vacant, (open, host))?;
        if tenure.is_some() {
            self.others.insert(account);
        }
        Ok(tenure)
    }
}

/// Those of which the log does not say so yet, ascending.
fn unstored(slots: &mut BTreeMap<u32, u32>, is_free: impl Fn(Tenure) -> bool) -> Vec<Tenure> {
    slots.retain(|slot, number| is_free(Tenure { slot: *slot, number: *number }));
    slots.iter().map(|(slot, number)| Tenure { slot: *slot, number: *number }).collect()
}

/// Slots, in an order that nobody knows.
fn shuffled(slots: impl IntoIterator<Item = Tenure>, host: &dyn Host) -> Result<Vec<Tenure>, NoRandomness> {
    let mut keyed = Vec::with_capacity(LOT_SLOTS as usize);
    for slot in slots {
        let mut key = [0; 16];
        host.fill(&mut key)?;
        keyed.push((key, slot));
    }
    keyed.sort_unstable();
    Ok(keyed.into_iter().map(|(_, slot)| slot).collect())
}
