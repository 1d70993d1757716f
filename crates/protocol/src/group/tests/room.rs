//! Members who speak in turns.

use super::{group, key};
use crate::Round;
use crate::group::Group;
use crate::group::keys::News;
use crate::group::rekey::Rekey;
use crate::seal::Plaintext;
use crate::secret::Secret;
use crate::turn::{Event, Turn};
use ed25519_dalek::Signer;

/// What a member makes of a plaintext of a round.
pub(super) type Lie = fn(&mut Plaintext, u64);

/// Members who speak in every round, and hear each other unless they are away.
pub(super) struct Room {
    pub(super) groups: Vec<Group>,
    pub(super) round: u64,
    pub(super) texts: Vec<Vec<Vec<u8>>>,
    pub(super) news: Vec<Vec<News>>,
    /// Texts that have arrived with all.
    pub(super) arrived: Vec<usize>,
    /// How often each was told that somebody has gone back.
    pub(super) went_back: Vec<usize>,
    /// What carol makes of a plaintext of hers, with zeros for the signature.
    pub(super) lie: Option<Lie>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            groups: (0..3).map(group).collect(),
            round: 1,
            texts: vec![Vec::new(); 3],
            news: vec![Vec::new(); 3],
            arrived: vec![0; 3],
            went_back: vec![0; 3],
            lie: None,
        }
    }

    pub(super) fn run(&mut self, rounds: u64, away: &[usize]) {
        for _ in 0..rounds {
            let round = Round(self.round);
            let mut deposits = Vec::new();
            let mut listening = Vec::new();
            for (number, group) in self.groups.iter_mut().enumerate().filter(|(n, _)| !away.contains(n)) {
                group.tend(round);
                let identity = key(number);
                let turn = Turn {
                    round,
                    mine: true,
                    slot: None,
                    last: None,
                    knocks: true,
                    head: None,
                    identity: &identity,
                };
                let (deposit, boxes) = group.open_round(&turn);
                deposits.extend(deposit);
                listening.extend(boxes.into_iter().map(|listening| (number, listening)));
            }
            for (number, found) in listening {
                let deposit = deposits.iter().find(|deposit| deposit.label == found.key.label());
                let Some(deposit) = deposit else { continue };
                let mut plaintext = found.key.open(&deposit.sealed.0).unwrap();
                let from = (found.epoch, found.member);
                if let Some(lie) = self.lie.filter(|_| found.member == 2) {
                    plaintext[40..104].fill(0);
                    lie(&mut plaintext, round.0);
                    let signed = self.groups[2].signed(found.epoch, 2, deposit.label, &plaintext);
                    plaintext[40..104].copy_from_slice(&key(2).sign(&signed).to_bytes());
                }
                let (events, _) =
                    self.groups[number].receive(from, deposit.label, &plaintext, round).unwrap();
                for event in events {
                    match event {
                        Event::Delivered { whole, .. } => {
                            self.texts[number].push(whole.content.unwrap().to_vec());
                        }
                        Event::Acknowledged(_) => self.arrived[number] += 1,
                        Event::WentBack => self.went_back[number] += 1,
                        _ => {}
                    }
                }
            }
            for (news, group) in self.news.iter_mut().zip(&mut self.groups) {
                news.extend(group.news());
            }
            self.round += 1;
        }
    }

    pub(super) fn propose(&self, author: usize, fresh: u8) -> Rekey {
        self.groups[author].propose(Secret::new([fresh; 32]), Round(self.round)).unwrap()
    }

    pub(super) fn epochs(&self) -> Vec<u32> {
        self.groups.iter().map(|group| group.epoch).collect()
    }
}
