//! Who may take part: challenges, signatures, sessions.

use core::time::Duration;
use std::collections::HashMap;

use ed25519_dalek::{Signature, VerifyingKey};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use sotto_log::Tenure;
use sotto_protocol::server::Account;
use sotto_wire::Refused;
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::config::Limits;
use crate::connections::ConnectionHandle;

pub(crate) type Session = [u8; 32];
/// Time of issue | random | authenticator.
pub(crate) type Nonce = [u8; 32];

const TIME_BYTES: usize = 8;
pub(crate) const RANDOM_BYTES: usize = 8;
const TAG_AT: usize = TIME_BYTES + RANDOM_BYTES;

/// Sessions, bounded, and challenges, of which nothing is kept: a nonce tells when and for whom it was made, under a
/// key of this process. So nobody who has not proved anything can use anything up. An account is created by its first
/// registration; nothing else about it is kept.
pub(crate) struct Accounts {
    challenge_key: Zeroizing<[u8; 32]>,
    challenge_age: Duration,
    started: Instant,
    sessions: HashMap<Session, OpenSession>,
    by_account: HashMap<Account, Session>,
    sessions_max: usize,
    session_idle: Duration,
    /// How many sessions were opened.
    opened: u64,
}

struct OpenSession {
    account: Account,
    /// That of the account, on a server with slots.
    slot: Option<Tenure>,
    used: Instant,
    /// By which it was opened. A session that is held ready makes no call for an hour or more, and stays while this does, if it
    /// is the last that came by it: otherwise one connection would keep them all.
    connection: ConnectionHandle,
    number: u64,
    /// When the challenge was made that opened the session. Later registrations need a later challenge, so that each
    /// serves once.
    challenged: Issued,
}

/// When a challenge was made, in nanoseconds of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issued(u64);

impl Accounts {
    /// `challenge_key` must be random and of this process alone.
    pub(crate) fn new(limits: &Limits, challenge_key: Zeroizing<[u8; 32]>, started: Instant) -> Self {
        Self {
            challenge_key,
            challenge_age: limits.challenge_age,
            started,
            sessions: HashMap::new(),
            by_account: HashMap::new(),
            sessions_max: limits.sessions,
            // A session that makes room forgets which challenge opened it; by then the challenge must be too old.
            session_idle: limits.session_idle.max(limits.challenge_age),
            opened: 0,
        }
    }

    /// What an account is to sign.
    pub(crate) fn challenge(&self, account: &Account, random: [u8; RANDOM_BYTES], now: Instant) -> Nonce {
        let mut nonce = [0; 32];
        nonce[..TIME_BYTES].copy_from_slice(&self.nanoseconds(now).to_be_bytes());
        nonce[TIME_BYTES..TAG_AT].copy_from_slice(&random);
        let tag = self.tag(account, &nonce);
        nonce[TAG_AT..].copy_from_slice(&tag);
        nonce
    }

    /// When this account was given a nonce, if it was and the nonce is still valid.
    pub(crate) fn issued(&self, account: &Account, nonce: &Nonce, now: Instant) -> Result<Issued, Refused> {
        if !bool::from(self.tag(account, nonce).ct_eq(&nonce[TAG_AT..])) {
            return Err(Refused::Signature);
        }
        let time = u64::from_be_bytes(core::array::from_fn(|at| nonce[at]));
        let age = self.nanoseconds(now).saturating_sub(time);
        let issued = Issued(time);
        if Duration::from_nanos(age) >= self.challenge_age || self.challenged(account) >= Some(issued) {
            return Err(Refused::Signature);
        }
        Ok(issued)
    }

    /// Opens `session`, which must be random, for an account that has signed the challenge of that time, and for its slot; an
    /// older one of it ends. If there are too many, those make room that were not used for long, and whose connection has ended.
    pub(crate) fn open(
        &mut self,
        (account, slot): (Account, Option<Tenure>),
        challenged: Issued,
        session: Session,
        connection: ConnectionHandle,
        now: Instant,
    ) -> Result<(), Refused> {
        // It may have been used in another call meanwhile.
        if self.challenged(&account) >= Some(challenged) {
            return Err(Refused::Signature);
        }
        if let Some(old) = self.by_account.remove(&account) {
            self.sessions.remove(&old);
        }
        if self.sessions.len() >= self.sessions_max {
            let idle = self.session_idle;
            self.sessions.retain(|_, member| {
                member.connection.keeps(member.number) || now.saturating_duration_since(member.used) < idle
            });
            self.by_account.retain(|_, session| self.sessions.contains_key(session));
        }
        if self.sessions.len() >= self.sessions_max {
            return Err(Refused::Busy);
        }
        self.opened += 1;
        let number = self.opened;
        connection.opened(number);
        let opened = OpenSession { account, slot, used: now, connection, number, challenged };
        self.sessions.insert(session, opened);
        self.by_account.insert(account, session);
        Ok(())
    }

    /// Ends the session of an account.
    pub(crate) fn end(&mut self, account: &Account) {
        if let Some(session) = self.by_account.remove(account) {
            self.sessions.remove(&session);
        }
    }

    fn challenged(&self, account: &Account) -> Option<Issued> {
        let session = self.by_account.get(account)?;
        self.sessions.get(session).map(|member| member.challenged)
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// HMAC-SHA256 over the account and all of a nonce but its end, shortened to 16 bytes.
    fn tag(&self, account: &Account, nonce: &Nonce) -> [u8; 16] {
        let mac = Hmac::<Sha256>::new_from_slice(self.challenge_key.as_slice())
            .expect("a key of HMAC has any size");
        let tag = mac.chain_update(account).chain_update(&nonce[..TAG_AT]).finalize().into_bytes();
        core::array::from_fn(|at| tag[at])
    }

    /// How many accounts have a session.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whose session it is, and that account's slot, on a server with slots: both at one time, since a session can end at any.
    pub(crate) fn member(
        &mut self,
        session: &[u8],
        now: Instant,
    ) -> Result<(Account, Option<Tenure>), Refused> {
        let member = self.sessions.get_mut(session).ok_or(Refused::UnknownSession)?;
        member.used = now;
        Ok((member.account, member.slot))
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
    use zeroize::Zeroizing;

    use super::{Accounts, Issued, Tenure};
    use crate::config::Limits;
    use crate::connections::ConnectionHandle;

    /// Connections by which sessions were opened.
    fn ended() -> ConnectionHandle {
        let handle = lasting();
        handle.cut();
        handle
    }

    fn lasting() -> ConnectionHandle {
        ConnectionHandle::of(&tonic::Request::new(()))
    }

    fn accounts() -> (Accounts, Instant) {
        let limits = Limits {
            sessions: 2,
            challenge_age: Duration::from_secs(30),
            session_idle: Duration::from_secs(60),
            ..Limits::default()
        };
        let now = Instant::now();
        (Accounts::new(&limits, Zeroizing::new([5; 32]), now), now + Duration::from_secs(1))
    }

    #[test]
    fn a_challenge_serves_once_in_time_and_for_its_account() {
        let (mut accounts, now) = accounts();
        let nonce = accounts.challenge(&[1; 32], [7; 8], now);
        assert_eq!(accounts.issued(&[2; 32], &nonce, now), Err(Refused::Signature));
        let late = now + Duration::from_secs(30);
        assert_eq!(accounts.issued(&[1; 32], &nonce, late), Err(Refused::Signature));
        for byte in 0..nonce.len() {
            let mut forged = nonce;
            forged[byte] ^= 1;
            assert_eq!(accounts.issued(&[1; 32], &forged, now), Err(Refused::Signature), "byte {byte}");
        }
        // Two calls at the same time with one signature.
        let issued = accounts.issued(&[1; 32], &nonce, now).unwrap();
        accounts.open(([1; 32], None), issued, [1; 32], ended(), now).unwrap();
        assert_eq!(accounts.open(([1; 32], None), issued, [2; 32], ended(), now), Err(Refused::Signature));
        assert_eq!(accounts.issued(&[1; 32], &nonce, now), Err(Refused::Signature));
        assert_eq!(accounts.member(&[1; 32], now), Ok(([1; 32], None)));
        let later = now + Duration::from_millis(1);
        let next = accounts.challenge(&[1; 32], [7; 8], later);
        assert!(accounts.issued(&[1; 32], &next, later).is_ok());
    }

    #[test]
    fn a_session_that_makes_room_does_not_bring_its_challenge_back() {
        let limits = Limits { sessions: 1, session_idle: Duration::ZERO, ..Limits::default() };
        let now = Instant::now();
        let mut accounts = Accounts::new(&limits, Zeroizing::new([5; 32]), now);
        let nonce = accounts.challenge(&[1; 32], [7; 8], now);
        let issued = accounts.issued(&[1; 32], &nonce, now).unwrap();
        accounts.open(([1; 32], None), issued, [1; 32], ended(), now).unwrap();
        let soon = now + limits.challenge_age - Duration::from_millis(1);
        assert_eq!(accounts.open(([2; 32], None), Issued(9), [2; 32], ended(), soon), Err(Refused::Busy));
        let later = now + limits.challenge_age;
        accounts.open(([2; 32], None), Issued(9), [2; 32], ended(), later).unwrap();
        assert_eq!(accounts.issued(&[1; 32], &nonce, later), Err(Refused::Signature));
    }

    #[test]
    fn a_flood_of_challenges_keeps_nobody_out() {
        let (accounts, now) = accounts();
        let nonce = accounts.challenge(&[1; 32], [1; 8], now);
        for number in 0..100_000_u64 {
            accounts.challenge(&[2; 32], number.to_be_bytes(), now);
        }
        assert!(accounts.issued(&[1; 32], &nonce, now).is_ok());
        assert!(accounts.sessions.is_empty() && accounts.by_account.is_empty());
    }

    #[test]
    fn sessions_are_bounded_and_only_idle_ones_make_room() {
        let (mut accounts, now) = accounts();
        accounts.open(([1; 32], None), Issued(1), [1; 32], ended(), now).unwrap();
        accounts.open(([1; 32], None), Issued(2), [2; 32], ended(), now).unwrap(); // Replaces the first.
        assert_eq!(accounts.member(&[1; 32], now), Err(Refused::UnknownSession));
        accounts.open(([2; 32], None), Issued(1), [3; 32], ended(), now).unwrap();
        assert_eq!(accounts.open(([3; 32], None), Issued(1), [4; 32], ended(), now), Err(Refused::Busy));
        let later = now + Duration::from_secs(61);
        assert_eq!(accounts.member(&[3; 32], later), Ok(([2; 32], None)));
        accounts.open(([3; 32], Some(Tenure::first(7))), Issued(1), [4; 32], ended(), later).unwrap();
        assert_eq!(accounts.member(&[4; 32], later), Ok(([3; 32], Some(Tenure::first(7)))));
        assert_eq!(accounts.member(&[2; 32], later), Err(Refused::UnknownSession));
        assert_eq!(accounts.member(&[3; 32], later), Ok(([2; 32], None)));
    }

    /// One that is held ready with a stand-in makes no call while home is there.
    #[test]
    fn a_session_stays_while_its_connection_does() {
        let (mut accounts, now) = accounts();
        let held = lasting();
        accounts.open(([1; 32], None), Issued(1), [1; 32], held.clone(), now).unwrap();
        accounts.open(([2; 32], None), Issued(1), [2; 32], ended(), now).unwrap();
        let later = now + Duration::from_secs(3600);
        accounts.open(([3; 32], None), Issued(1), [3; 32], lasting(), later).unwrap();
        assert_eq!(accounts.member(&[1; 32], later), Ok(([1; 32], None)));
        assert_eq!(accounts.member(&[2; 32], later), Err(Refused::UnknownSession));
        let busy = accounts.open(([4; 32], None), Issued(1), [4; 32], ended(), later);
        assert_eq!(busy, Err(Refused::Busy));
        // One connection keeps one.
        accounts.open(([1; 32], None), Issued(2), [5; 32], held.clone(), later).unwrap();
        accounts.open(([3; 32], None), Issued(2), [6; 32], held.clone(), later).unwrap();
        let after = later + Duration::from_secs(3600);
        accounts.open(([7; 32], None), Issued(1), [7; 32], ended(), after).unwrap();
        assert_eq!(accounts.member(&[5; 32], after), Err(Refused::UnknownSession));
        assert_eq!(accounts.member(&[6; 32], after), Ok(([3; 32], None)));
        held.cut();
        let much_later = after + Duration::from_secs(3600);
        accounts.open(([4; 32], None), Issued(1), [4; 32], ended(), much_later).unwrap();
    }
}
