//! The events that one person is told in place of the honest ones.

use std::time::Duration;

use sotto_wire::proto::{RoundEvent, RoundOpened, RoundReady, round_event::Event};

use crate::hostile::{State, round_of};
use crate::lies::{Account, FAR, Lie};

/// Soon after a round is opened, and before its deposit is due.
const SOON: Duration = Duration::from_millis(100);
/// So late that the deposit, counted from then, comes when the round is over.
const LATE: Duration = Duration::from_millis(600);
/// Before, at and after the times of the calls, and long ago.
const ELAPSED_MS: [u32; 6] = [0, 249, 250, 300, 10_000, u32::MAX];
/// Old events told again at a time.
const AGAIN_MAX: usize = 40;

/// Announcements in a flood.
const FLOOD: usize = 10_000;

/// One stream of events.
pub(crate) struct Teller {
    pub(crate) account: Account,
    /// A round's end that is told after the next one's.
    held: Option<RoundEvent>,
    told: Vec<RoundEvent>,
}

impl Teller {
    pub(crate) fn new(account: Account) -> Self {
        Self { account, held: None, told: Vec::new() }
    }

    /// What to tell in place of an honest event, and how long after what was told before.
    pub(crate) fn events(&mut self, state: &State, mut honest: RoundEvent) -> Vec<(Duration, RoundEvent)> {
        let round = match &honest.event {
            Some(Event::Opened(opened)) => opened.round,
            Some(Event::Ready(ready)) => round_of(ready.manifest.as_ref()),
            None => 0,
        };
        let (lie, lasted) = state.told(&self.account, round);
        let elapsed = ELAPSED_MS[lasted as usize % ELAPSED_MS.len()];
        match &mut honest.event {
            Some(Event::Ready(ready)) => {
                let shown = ready.manifest.as_ref().map(|manifest| state.show(&self.account, manifest));
                ready.manifest = shown;
                match lie {
                    Lie::LongAgo => ready.elapsed_ms = u32::MAX,
                    Lie::Elapsed => ready.elapsed_ms = elapsed,
                    _ => {}
                }
            }
            Some(Event::Opened(opened)) => match lie {
                Lie::LongAgo => opened.elapsed_ms = u32::MAX,
                Lie::Elapsed => opened.elapsed_ms = elapsed,
                _ => {}
            },
            None => {}
        }
        self.told.push(honest.clone());
        let is_ready = matches!(honest.event, Some(Event::Ready(_)));
        let at_once = |event| (Duration::ZERO, event);
        let mut events = vec![at_once(honest.clone())];
        match lie {
            Lie::ReplayedRound if !is_ready => {
                events.push(at_once(honest));
                events.push(at_once(opened(round.saturating_sub(1))));
            }
            Lie::FarRound if !is_ready => events.insert(0, at_once(opened(FAR.0))),
            Lie::EarlyOpen if !is_ready => events.push((SOON, opened(round + 1))),
            Lie::ReadyFirst if !is_ready => {
                events.extend(state.show_early(&self.account, round).map(|manifest| {
                    let ready = RoundReady { manifest: Some(manifest), elapsed_ms: 0 };
                    at_once(RoundEvent { event: Some(Event::Ready(ready)) })
                }));
            }
            Lie::LateNews => events[0].0 = LATE,
            Lie::WrongOrder if is_ready && lasted % 2 == 0 => {
                self.held = Some(honest);
                events.clear();
            }
            Lie::WrongOrder if is_ready => events.extend(self.held.take().map(at_once)),
            Lie::OldEvents => events.extend(self.told.iter().rev().take(AGAIN_MAX).cloned().map(at_once)),
            Lie::Flood if is_ready => {
                let again = state.reseeded(&self.account).into_iter().cycle().take(FLOOD);
                let flood = (0_u32..).zip(again).map(|(number, mut manifest)| {
                    // Each is another one, and only some are signed.
                    if number % 8 != 0 {
                        let mut signature = manifest.signature.to_vec();
                        signature[..4].copy_from_slice(&number.to_le_bytes());
                        manifest.signature = signature.into();
                    }
                    let ready = RoundReady { manifest: Some(manifest), elapsed_ms: 0 };
                    at_once(RoundEvent { event: Some(Event::Ready(ready)) })
                });
                events.extend(flood);
            }
            Lie::ReplaySeeds if is_ready => {
                let again = state.reseeded(&self.account).into_iter().map(|manifest| {
                    let ready = RoundReady { manifest: Some(manifest), elapsed_ms: 0 };
                    at_once(RoundEvent { event: Some(Event::Ready(ready)) })
                });
                events.extend(again);
            }
            _ => {}
        }
        events
    }
}

fn opened(round: u64) -> RoundEvent {
    RoundEvent { event: Some(Event::Opened(RoundOpened { round, elapsed_ms: 0 })) }
}
