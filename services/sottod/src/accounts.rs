//! Who may take part: challenges, signatures, sessions.

use core::time::Duration;
use std::collections::HashMap;

use ed25519_dalek::{Signature, VerifyingKey};
use sotto_protocol::server::Account;
use sotto_wire::Refused;
use tokio::time::Instant;

use crate::config::Limits;

pub(crate) type Session = [u8; 32];

/// Challenges under way and sessions, both bounded. An account is created by its first registration; nothing else about
/// it is kept.
pub(crate) struct Accounts {
    challenges: HashMap<[u8; 32], Challenge>,
    challenges_max: usize,
    challenge_age: Duration,
    sessions: HashMap<Session, Member>,
    by_account: HashMap<Account, Session>,
    sessions_max: usize,
    session_idle: Duration,
}

struct Challenge {
    account: Account,
    expires: Instant,
}

struct Member {
    account: Account,
    used: Instant,
}

impl Accounts {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            challenges: HashMap::new(),
            challenges_max: limits.challenges,
            challenge_age: limits.challenge_age,
            sessions: HashMap::new(),
            by_account: HashMap::new(),
            sessions_max: limits.sessions,
            session_idle: limits.session_idle,
        }
    }

    /// Remembers that an account is to sign `nonce`, which must be random.
    pub(crate) fn challenge(
        &mut self,
        account: Account,
        nonce: [u8; 32],
        now: Instant,
    ) -> Result<(), Refused> {
        if self.challenges.len() >= self.challenges_max {
            self.challenges.retain(|_, challenge| challenge.expires > now);
        }
        if self.challenges.len() >= self.challenges_max {
            return Err(Refused::Busy);
        }
        self.challenges.insert(nonce, Challenge { account, expires: now + self.challenge_age });
        Ok(())
    }

    /// Takes back a challenge, which serves once: whether it was this account's and is still valid.
    pub(crate) fn answer(
        &mut self,
        account: &Account,
        nonce: &[u8; 32],
        now: Instant,
    ) -> Result<(), Refused> {
        match self.challenges.remove(nonce) {
            Some(challenge) if challenge.account == *account && challenge.expires > now => Ok(()),
            _ => Err(Refused::Signature),
        }
    }

    /// Opens `session`, which must be random, for an account that has proved itself; an older one of it ends.
    pub(crate) fn open(&mut self, account: Account, session: Session, now: Instant) -> Result<(), Refused> {
        if let Some(old) = self.by_account.remove(&account) {
            self.sessions.remove(&old);
        }
        if self.sessions.len() >= self.sessions_max {
            let idle = self.session_idle;
            self.sessions.retain(|_, member| now.saturating_duration_since(member.used) < idle);
            self.by_account.retain(|_, session| self.sessions.contains_key(session));
        }
        if self.sessions.len() >= self.sessions_max {
            return Err(Refused::Busy);
        }
        self.sessions.insert(session, Member { account, used: now });
        self.by_account.insert(account, session);
        Ok(())
    }

    /// Whose session it is.
    pub(crate) fn account(&mut self, session: &[u8], now: Instant) -> Result<Account, Refused> {
        let member = self.sessions.get_mut(session).ok_or(Refused::UnknownSession)?;
        member.used = now;
        Ok(member.account)
    }
}

/// Whether the holder of an account's key signed this server's nonce (strict: one signature, one meaning).
pub(crate) fn verify(
    manifest_key: &[u8; 32],
    account: &Account,
    nonce: &[u8; 32],
    signature: &[u8; 64],
) -> Result<(), Refused> {
    let key = VerifyingKey::from_bytes(account).map_err(|_| Refused::Signature)?;
    let message = sotto_wire::register::message(manifest_key, account, nonce);
    key.verify_strict(&message, &Signature::from_bytes(signature)).map_err(|_| Refused::Signature)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use sotto_wire::Refused;
    use tokio::time::Instant;

    use super::Accounts;
    use crate::config::Limits;

    fn accounts() -> (Accounts, Instant) {
        let limits = Limits {
            challenges: 2,
            sessions: 2,
            challenge_age: Duration::from_secs(30),
            session_idle: Duration::from_secs(60),
            ..Limits::default()
        };
        (Accounts::new(&limits), Instant::now())
    }

    #[test]
    fn a_challenge_serves_once_in_time_and_for_its_account() {
        let (mut accounts, now) = accounts();
        accounts.challenge([1; 32], [7; 32], now).unwrap();
        assert_eq!(accounts.answer(&[2; 32], &[7; 32], now), Err(Refused::Signature));
        // The wrong attempt has used it up.
        assert_eq!(accounts.answer(&[1; 32], &[7; 32], now), Err(Refused::Signature));
        accounts.challenge([1; 32], [8; 32], now).unwrap();
        let late = now + Duration::from_secs(31);
        assert_eq!(accounts.answer(&[1; 32], &[8; 32], late), Err(Refused::Signature));
        accounts.challenge([1; 32], [9; 32], now).unwrap();
        assert_eq!(accounts.answer(&[1; 32], &[9; 32], now), Ok(()));
    }

    #[test]
    fn a_flood_of_challenges_is_bounded_and_passes() {
        let (mut accounts, now) = accounts();
        accounts.challenge([1; 32], [1; 32], now).unwrap();
        accounts.challenge([1; 32], [2; 32], now).unwrap();
        assert_eq!(accounts.challenge([1; 32], [3; 32], now), Err(Refused::Busy));
        assert_eq!(accounts.challenge([1; 32], [3; 32], now + Duration::from_secs(31)), Ok(()));
    }

    #[test]
    fn sessions_are_bounded_and_only_idle_ones_make_room() {
        let (mut accounts, now) = accounts();
        accounts.open([1; 32], [1; 32], now).unwrap();
        accounts.open([1; 32], [2; 32], now).unwrap(); // Replaces the first.
        assert_eq!(accounts.account(&[1; 32], now), Err(Refused::UnknownSession));
        accounts.open([2; 32], [3; 32], now).unwrap();
        assert_eq!(accounts.open([3; 32], [4; 32], now), Err(Refused::Busy));
        let later = now + Duration::from_secs(61);
        assert_eq!(accounts.account(&[3; 32], later), Ok([2; 32]));
        accounts.open([3; 32], [4; 32], later).unwrap();
        assert_eq!(accounts.account(&[2; 32], later), Err(Refused::UnknownSession));
        assert_eq!(accounts.account(&[3; 32], later), Ok([2; 32]));
    }
}
