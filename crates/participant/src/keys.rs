//! The secrets of private retrieval: drawn in memory when a session begins, replaced on a public schedule, never stored.
//!
//! What one secret could give away ends with it: a state file that is seized says nothing about queries recorded before,
//! and a server that plays with answers has at most [`ROUNDS`] rounds of queries under one secret to play with.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{Engine, EngineClient, Request, RoundSpec};
use sha2::{Digest, Sha256};
use sotto_protocol::{Round, ServerParameters};
use zeroize::Zeroizing;

use super::standing::Standing;
use crate::host::{Host, Work, run};

/// A secret is replaced after so many rounds, at the latest.
pub(crate) const ROUNDS: u64 = 64;
/// In which of these an account's turn is; others have theirs at other times.
const PHASE_DOMAIN: &str = "sotto v1 retrieval keys phase";
/// Beyond the rounds that stay retrievable, how many later a round may still be announced as ready for the first time.
const LATE: u64 = 2;

/// Public keys as they are uploaded.
#[derive(Clone)]
pub(crate) struct PublicKeys {
    pub(crate) encoded: Bytes,
    /// SHA-256, under which the server knows them.
    pub(crate) digest: [u8; 32],
}

/// One secret, which is wiped when nobody has it any more.
pub(crate) struct Generation {
    /// Held only while a request is built.
    client: Mutex<Box<dyn EngineClient>>,
    pub(crate) public: PublicKeys,
    spare: Mutex<Option<Spare>>,
    /// Where queries stand.
    pub(crate) standing: Standing,
}

/// A random multi-query, made before anything secret was done for its round.
pub(crate) struct Spare {
    pub(crate) request: Request,
}

impl Generation {
    /// Draws a secret. None if the engine fails.
    pub(crate) async fn draw(host: &Arc<dyn Host>, engine: &Arc<dyn Engine>) -> Option<Arc<Self>> {
        let engine = Arc::clone(engine);
        let mut seed = Zeroizing::new([0; 32]);
        host.fill(&mut seed[..]);
        let work = move || {
            let client = engine.client(&seed);
            let encoded = Bytes::from(client.public_keys());
            let digest = Sha256::digest(&encoded).into();
            let public = PublicKeys { encoded, digest };
            Arc::new(Self {
                client: Mutex::new(client),
                public,
                spare: Mutex::new(None),
                standing: Standing::default(),
            })
        };
        run(host, Work::Keys, work).await
    }

    /// The client, for whoever builds a request.
    pub(crate) fn client(&self) -> MutexGuard<'_, Box<dyn EngineClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the spare multi-query, if there is one that serves this round.
    pub(crate) fn take_spare(&self, spec: &RoundSpec) -> Option<Spare> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        spare.request.pending.serves(spec).then_some(spare)
    }

    /// Puts a spare multi-query that was not sent back for a later round.
    pub(crate) fn keep_spare(&self, spare: Spare) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(spare);
    }
}

/// When an account's secrets are replaced. Anybody can tell.
struct Schedule {
    phase: u64,
}

impl Schedule {
    fn new(account: &[u8; 32]) -> Self {
        let digest = Sha256::new_with_prefix(PHASE_DOMAIN).chain_update([0]).chain_update(account).finalize();
        let first = core::array::from_fn(|place| digest[place]);
        Self { phase: u64::from_le_bytes(first) % ROUNDS }
    }

    /// The number of the secret whose turn a round is.
    fn period(&self, round: Round) -> u64 {
        round.0 / ROUNDS + u64::from(round.0 % ROUNDS >= self.phase)
    }
}

/// Which secret serves which round.
pub(crate) struct Keyring {
    schedule: Schedule,
    current: Arc<Generation>,
    /// The period of the current secret, or of the round in which the session began.
    period: u64,
    /// A secret whose keys the server has not taken yet.
    next: Option<Arc<Generation>>,
    uploading: bool,
    /// For rounds that are open or sealed, and not asked for yet.
    rounds: BTreeMap<Round, Arc<Generation>>,
}

impl Keyring {
    /// Begins with a secret whose keys are uploaded; `open` is the round that is open then, as the server says.
    pub(crate) fn new(account_seed: &[u8; 32], current: Arc<Generation>, open: Round) -> Self {
        let schedule = Schedule::new(&SigningKey::from_bytes(account_seed).verifying_key().to_bytes());
        let period = schedule.period(open);
        Self { schedule, current, period, next: None, uploading: false, rounds: BTreeMap::new() }
    }

    /// The secret of rounds that open now.
    pub(crate) fn current(&self) -> &Arc<Generation> {
        &self.current
    }

    /// A round opens: it will be asked for with the current secret. `retained` rounds stay retrievable; those before them
    /// will not be asked for any more.
    pub(crate) fn opened(&mut self, round: Round, retained: u8) {
        self.rounds.insert(round, Arc::clone(&self.current));
        self.rounds = self.rounds.split_off(&round.back(u64::from(retained) + LATE));
    }

    /// Whether it is time to upload new keys in a round that opens, and of which secret if one is at hand: one for which
    /// that failed before.
    pub(crate) fn is_due(&mut self, round: Round) -> Option<Option<Arc<Generation>>> {
        if self.uploading || self.schedule.period(round) == self.period {
            return None;
        }
        self.uploading = true;
        Some(self.next.take())
    }

    /// The upload that was due in a round has ended: if the server has the keys, the rounds that open from now on are
    /// asked for with them; if not, it is tried again in the next round.
    pub(crate) fn uploaded(&mut self, round: Round, next: Option<Arc<Generation>>, taken: bool) {
        self.uploading = false;
        match next {
            Some(next) if taken => {
                self.current = next;
                self.period = self.schedule.period(round);
            }
            next => self.next = next,
        }
    }

    /// The secret with which to ask for a round.
    pub(crate) fn of(&mut self, round: Round) -> Arc<Generation> {
        self.rounds.remove(&round).unwrap_or_else(|| Arc::clone(&self.current))
    }
}

/// When in a round new keys are uploaded: between the account's deposit and the round's end, and not close to the deposit.
pub(crate) fn upload_offset(server: &ServerParameters, deposit: Duration) -> Duration {
    let rest = Duration::from_millis(server.round_ms.into()).saturating_sub(deposit) / 2;
    deposit + rest.max(Duration::from_millis(ServerParameters::SLOT_MS_MIN.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ed25519_dalek::SigningKey;
    use sotto_protocol::Round;

    use super::{Generation, Keyring, ROUNDS, Schedule};
    use crate::host::{Host, System};

    /// From the text of the protocol, for other implementations: the phases of the accounts with these seeds.
    #[test]
    fn phases_are_the_published_ones() {
        let phase =
            |seed| Schedule::new(&SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes()).phase;
        assert_eq!([phase(1), phase(2), phase(3)], [30, 37, 52]);
    }

    #[test]
    fn a_secret_serves_at_most_64_rounds_and_accounts_take_turns() {
        let mut phases = std::collections::BTreeSet::new();
        for account in 0..100 {
            let schedule = Schedule::new(&[account; 32]);
            phases.insert(schedule.phase);
            let changes: Vec<u64> = (1..1000)
                .filter(|round| schedule.period(Round(*round)) != schedule.period(Round(round - 1)))
                .collect();
            assert!(changes.windows(2).all(|pair| pair[1] - pair[0] == ROUNDS), "{changes:?}");
            assert!(changes.iter().all(|round| round % ROUNDS == schedule.phase));
            assert!(schedule.period(Round(u64::MAX)) > schedule.period(Round(u64::MAX - ROUNDS)));
        }
        assert!(phases.len() > 30);
    }

    #[tokio::test]
    async fn the_old_secret_is_gone_when_the_rounds_that_began_with_it_are_asked_for() {
        let host: Arc<dyn Host> = Arc::new(System);
        let engine = mpir::noop();
        let draw = async || Generation::draw(&host, &engine).await.unwrap();
        let mut keyring = Keyring::new(&[1; 32], draw().await, Round(1));
        let first = Arc::downgrade(keyring.current());
        let due = keyring.schedule.phase + ROUNDS;
        for round in due - 2..due {
            keyring.opened(Round(round), 2);
        }
        keyring.period = keyring.schedule.period(Round(due - 1));
        assert!(keyring.is_due(Round(due - 1)).is_none());
        keyring.opened(Round(due), 2);
        assert!(keyring.is_due(Round(due)).unwrap().is_none());
        assert!(keyring.is_due(Round(due)).is_none(), "it is under way");
        // It fails, and the same keys go up in the next round.
        let next = draw().await;
        keyring.uploaded(Round(due), Some(Arc::clone(&next)), false);
        let again = keyring.is_due(Round(due + 1)).unwrap();
        assert!(again.as_ref().is_some_and(|again| Arc::ptr_eq(again, &next)));
        keyring.uploaded(Round(due + 1), again, true);
        assert!(keyring.is_due(Round(due + 2)).is_none());

        keyring.opened(Round(due + 2), 2);
        assert!(Arc::ptr_eq(&keyring.of(Round(due + 2)), &next));
        assert!(Arc::ptr_eq(&keyring.of(Round(due)), &first.upgrade().unwrap()));
        assert!(first.upgrade().is_some(), "rounds that began with it may still be asked for");
        // They are, or are retired.
        drop(keyring.of(Round(due - 1)));
        keyring.opened(Round(due + 5), 2);
        assert!(first.upgrade().is_none());
    }
}
