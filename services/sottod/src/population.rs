//! Simulated users of a closed loop: rounds as full as those of a large server, without as many clients.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};
use sotto_protocol::deposit::{BOX_BYTES, LABEL_BYTES};
use sotto_protocol::table::{KNOCK_BYTES, LOT_SLOTS, stored};
use sotto_protocol::{Deposit, Label, Round, SealedBox};

const DOMAIN: &[u8] = b"sotto/simulation/v1/deposit\0";

/// Users who are not there: when a round is sealed, a random deposit of each joins those of the clients, and is from
/// then on like any other in the round's database.
///
/// They take no part in anything else, and their deposits go past the round log. A server that has them is a measuring
/// instrument: it keeps nothing on the disk and runs in closed loop, on loopback, only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// How many there are.
    pub users: u32,
    /// From which all their deposits follow.
    pub seed: u64,
}

impl Population {
    /// What a simulated user deposits in a round: a random label and a random box, always the same ones.
    #[must_use]
    pub fn deposit(&self, round: Round, user: u32) -> Deposit {
        let seed = Sha256::new_with_prefix(DOMAIN)
            .chain_update(self.seed.to_le_bytes())
            .chain_update(round.0.to_le_bytes())
            .chain_update(user.to_le_bytes());
        let mut rng = StdRng::from_seed(seed.finalize().into());
        let (mut label, mut sealed) = ([0; LABEL_BYTES], [0; BOX_BYTES]);
        rng.fill_bytes(&mut label);
        rng.fill_bytes(&mut sealed);
        Deposit { label: Label(label), sealed: SealedBox(sealed) }
    }

    /// What all of them deposit in a round, made on all threads of the current rayon pool. With slots, they have the first
    /// ones, and knock with the end of their labels.
    #[must_use]
    pub fn deposits(&self, round: Round, slots: bool) -> Vec<Deposit> {
        let deposit = |user| {
            let mut deposit = self.deposit(round, user);
            if slots {
                let (_, knock) = deposit.label.0.split_at(LABEL_BYTES - KNOCK_BYTES);
                deposit.label = stored(user, &core::array::from_fn(|at| knock[at]));
            }
            deposit
        };
        (0..self.users).into_par_iter().map(deposit).collect()
    }

    /// The lots of slots that they take up.
    pub(crate) fn lots(self) -> u32 {
        self.users.div_ceil(LOT_SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use mpir::noop;
    use sotto_protocol::{Round, RoundMode};

    use super::Population;
    use crate::config::{Config, ConfigError};

    /// Deposits that repeat would make a round smaller than it claims to be.
    #[test]
    fn every_user_deposits_something_else_in_every_round_and_always_the_same() {
        let population = Population { users: 100, seed: 7 };
        let deposits = population.deposits(Round(3), false);
        assert_eq!(deposits[42], population.deposit(Round(3), 42));
        let others = [
            Population { seed: 8, ..population }.deposits(Round(3), false),
            population.deposits(Round(4), false),
        ];
        let all = deposits.iter().chain(others.iter().flatten());
        let labels: HashSet<[u8; 16]> = all.clone().map(|deposit| deposit.label.0).collect();
        let boxes: HashSet<[u8; 288]> = all.map(|deposit| deposit.sealed.0).collect();
        assert_eq!((labels.len(), boxes.len()), (300, 300));
    }
    /// People must never be served rounds that are full of messages nobody sent.
    #[test]
    fn only_a_closed_loop_without_a_data_directory_has_simulated_users() {
        let population = Some(Population { users: 10, seed: 1 });
        let closed =
            Config { population, allow_no_privacy: true, ..Config::closed_loop(([127, 0, 0, 1], 0).into()) };
        let check = |config: Config| config.parameters(&*noop(), [1; 32]);
        assert!(check(closed.clone()).is_ok());
        let deadline = Config { mode: RoundMode::Deadline, round_ms: 2000, ..closed.clone() };
        assert!(matches!(check(deadline), Err(ConfigError::PopulationElsewhere)));
        let durable = Config { data: Some("data".into()), ..closed.clone() };
        assert!(matches!(check(durable), Err(ConfigError::PopulationElsewhere)));
        let elsewhere = Config { listen: ([0, 0, 0, 0], 0).into(), ..closed.clone() };
        assert!(matches!(check(elsewhere), Err(ConfigError::ClosedLoopOffLoopback)));
        let crowded = Some(Population { users: closed.limits.deposits as u32 + 1, seed: 1 });
        let crowded = Config { population: crowded, ..closed };
        assert!(matches!(check(crowded), Err(ConfigError::PopulationTooLarge(_))));
    }
}
