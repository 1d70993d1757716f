//! The events that one person is told in place of the honest ones.

use std::time::Duration;

use sotto_protocol::Round;
use sotto_protocol::manifest::{Manifest, SignedManifest};
use sotto_wire::proto::{RoundEvent, RoundOpened, RoundReady, round_event::Event};

use crate::forgery::Ready;
use crate::lies::{FAR, Lie};
use crate::server::Account;

/// Soon after a round is opened, and before its deposit is due.
const SOON: Duration = Duration::from_millis(60);
/// Before, at and after the times of the calls, and long ago.
const ELAPSED_MS: [u32; 7] = [0, 99, 100, 149, 300, 10_000, u32::MAX];
/// Old events told again at a time.
const AGAIN_MAX: usize = 40;
/// Announcements in a flood.
const FLOOD: usize = 3_000;

/// What there is to tell.
pub(crate) enum News<'a> {
    Opened(Round, u32),
    Ready(&'a Ready, u32),
}

/// What the liar shows at this moment.
pub(crate) struct Shown<'a> {
    /// The lies that hold for this person in the round, and how many rounds they have lasted.
    pub(crate) lies: &'a [(Lie, u64)],
    /// The open round as one that is ready.
    pub(crate) early: Option<&'a Ready>,
    /// Everything that was shown, under other seeds.
    pub(crate) reseeded: Vec<SignedManifest>,
}

/// One person's stream of events.
pub(crate) struct Teller {
    pub(crate) account: Account,
    /// A round's end that is told after the next one's.
    held: Option<RoundEvent>,
    told: Vec<RoundEvent>,
}

impl Teller {
    pub(crate) const fn new(account: Account) -> Self {
        Self { account, held: None, told: Vec::new() }
    }

    /// What to tell, and how long from now.
    pub(crate) fn events(&mut self, news: &News<'_>, shown: Shown<'_>) -> Vec<(Duration, RoundEvent)> {
        let elapsed = |honest: u32| {
            shown.lies.iter().fold(honest, |honest, (lie, lasted)| match lie {
                Lie::Elapsed(ms) => *ms,
                Lie::ElapsedAny => ELAPSED_MS[*lasted as usize % ELAPSED_MS.len()],
                _ => honest,
            })
        };
        let (round, is_ready, honest) = match news {
            News::Opened(round, ms) => (round.0, false, opened(round.0, elapsed(*ms))),
            News::Ready(round, ms) => (round.manifest.round.0, true, ready(&round.signed, elapsed(*ms))),
        };
        let honest =
            if shown.lies.iter().any(|(lie, _)| *lie == Lie::Unsigned) { unsigned(honest) } else { honest };
        self.told.push(honest.clone());
        let at_once = |event| (Duration::ZERO, event);
        let mut events = vec![at_once(honest.clone())];
        for (lie, lasted) in shown.lies {
            match lie {
                Lie::Silence => events.clear(),
                Lie::Again if !is_ready => {
                    events.extend([honest.clone(), opened(round - 1, 0)].map(at_once));
                }
                Lie::Far if !is_ready => events.insert(0, at_once(opened(FAR, 0))),
                Lie::EarlyOpen if !is_ready => events.push((SOON, opened(round + 1, 0))),
                Lie::ReadyFirst if !is_ready => {
                    events.extend(shown.early.map(|early| at_once(ready(&early.signed, 0))));
                }
                Lie::Late(ms) => events[0].0 = Duration::from_millis(*ms),
                Lie::WrongOrder if is_ready && lasted % 2 == 0 => {
                    self.held = Some(honest.clone());
                    events.clear();
                }
                Lie::WrongOrder if is_ready => events.extend(self.held.take().map(at_once)),
                Lie::OldEvents => {
                    events.extend(self.told.iter().rev().take(AGAIN_MAX).cloned().map(at_once));
                }
                Lie::Flood if is_ready && !shown.reseeded.is_empty() => {
                    let again = shown.reseeded.iter().cycle().take(FLOOD);
                    events.extend((0_u32..).zip(again).map(|(number, signed)| {
                        // Each is another one, and only some are signed.
                        let mut signed = signed.clone();
                        if number % 64 != 0 {
                            signed.signature[..4].copy_from_slice(&number.to_le_bytes());
                        }
                        at_once(ready(&signed, 0))
                    }));
                }
                Lie::ReplaySeeds if is_ready => {
                    events.extend(shown.reseeded.iter().map(|signed| at_once(ready(signed, 0))));
                }
                _ => {}
            }
        }
        events
    }
}

/// A manifest under another seed.
pub(crate) fn reseeded(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    manifest.round_seed[0] ^= 0x80;
    manifest
}

fn unsigned(mut event: RoundEvent) -> RoundEvent {
    if let Some(Event::Ready(RoundReady { manifest: Some(manifest), .. })) = &mut event.event {
        let mut signature = manifest.signature.to_vec();
        signature[7] ^= 1;
        manifest.signature = signature.into();
    }
    event
}

fn opened(round: u64, elapsed_ms: u32) -> RoundEvent {
    RoundEvent { event: Some(Event::Opened(RoundOpened { round, elapsed_ms })) }
}

fn ready(signed: &SignedManifest, elapsed_ms: u32) -> RoundEvent {
    RoundEvent { event: Some(Event::Ready(RoundReady { manifest: Some(signed.into()), elapsed_ms })) }
}
