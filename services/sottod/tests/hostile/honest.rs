//! Members who do nothing but take part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Deposit, Label, Manifest, Round, SealedBox};
use sottod::Running;
use tokio::task::JoinSet;

use crate::support::{Events, Member};

/// Their numbers, which nobody else takes.
const NUMBERS: [u8; 2] = [201, 202];
/// Rounds that each must complete.
const ROUNDS: usize = 3;

/// What an honest member deposits in a round. An attacker may know the label.
pub(crate) fn deposit_of(number: u8, round: Round) -> Deposit {
    let mut label = [number; 16];
    label[8..].copy_from_slice(&round.0.to_le_bytes());
    Deposit { label: Label(label), sealed: SealedBox([number ^ round.0 as u8; BOX_BYTES]) }
}

/// Honest members at work.
pub(crate) struct Honest {
    members: JoinSet<Tally>,
    complete: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
}

#[derive(Default)]
struct Tally {
    rounds: usize,
    acknowledged: Duration,
    ready: Duration,
    retrieved: Duration,
}

impl Honest {
    pub(crate) async fn start(server: &Running) -> Self {
        let (complete, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut members = JoinSet::new();
        for number in NUMBERS {
            let mut member = Member::with_keys(server, number).await;
            let events = member.watch().await;
            let (complete, enough) = (Arc::clone(&complete), Arc::clone(&enough));
            members.spawn(take_part(member, events, number, complete, enough));
        }
        Self { members, complete, enough }
    }

    /// Whether they have done so many rounds that an attack which lasted until now had its chance.
    pub(crate) fn had_enough(&self) -> bool {
        self.complete.load(Ordering::Relaxed) >= NUMBERS.len() * ROUNDS
    }

    /// Lets them go on until they have completed some rounds. It fails if any of their calls has failed, if a round was
    /// not ready in time, or if one did not retrieve what was deposited.
    pub(crate) async fn were_served(mut self, attack: &str) {
        self.enough.store(true, Ordering::Relaxed);
        while let Some(tally) = self.members.join_next().await {
            let Tally { rounds, acknowledged, ready, retrieved } = tally.unwrap();
            println!(
                "measured: {attack}: others: {rounds} rounds of 1.5 to 3 s complete, slowest acknowledgement {} ms, \
                 round ready after {} ms, retrieval {} ms",
                acknowledged.as_millis(),
                ready.as_millis(),
                retrieved.as_millis()
            );
        }
    }
}

async fn take_part(
    mut member: Member,
    mut events: Events,
    number: u8,
    complete: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
) -> Tally {
    let mut tally = Tally::default();
    while tally.rounds < ROUNDS || !enough.load(Ordering::Relaxed) {
        let round = events.fresh().await;
        let opened = Instant::now();
        member.deposit(round, &deposit_of(number, round)).await.unwrap();
        tally.acknowledged = tally.acknowledged.max(opened.elapsed());
        let manifest = events.ready_of(round).await;
        tally.ready = tally.ready.max(opened.elapsed());
        let asked = Instant::now();
        retrieve_own(&mut member, &manifest, number).await;
        tally.retrieved = tally.retrieved.max(asked.elapsed());
        tally.rounds += 1;
        complete.fetch_add(1, Ordering::Relaxed);
    }
    tally
}

/// Asks for both members' boxes, as a client would; its own must be there, under whatever else has the same label.
async fn retrieve_own(member: &mut Member, manifest: &Manifest, number: u8) {
    let code = manifest.code().unwrap();
    let mapping = member.decoded_mapping(manifest).await;
    let other = NUMBERS[usize::from(number == NUMBERS[0])];
    let deposits = [deposit_of(number, manifest.round), deposit_of(other, manifest.round)];
    let mut targets = vec![None; code.bucket_count()];
    for deposit in deposits.iter().rev() {
        // One after the other of those under the label, in one bucket after the other.
        for (number, content) in code.holders(&deposit.label.0).into_iter().enumerate() {
            let hits = mapping.hits(&*code, content, &deposit.label);
            targets[content] = hits.get(number % hits.len().max(1)).copied();
        }
    }
    let elements = member.retrieve(manifest, &targets).await.unwrap();
    let own = |content: usize| elements[content] == deposits[0].sealed.0;
    let found = code.holders(&deposits[0].label.0).into_iter().any(own);
    assert!(found, "a deposit that was acknowledged was not retrieved");
}
