//! What a server runs and what a client accepts.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::deposit::DEPOSIT_BYTES;
use crate::error::{Malformed, NegotiationError};
use crate::key_epoch::KEY_EPOCH_BYTES;
use crate::table::SENT_BYTES;
use crate::{CodeKind, CodeShape, Error, KeyEpoch, PROTOCOL_VERSION, Round, SeedCommitment, code};

/// Bytes of what the cluster's root signs of a server's parameters.
pub const ANNOUNCEMENT_BYTES: usize = FIELDS_BYTES + KEY_EPOCH_BYTES;
/// What stands before the epoch of the manifest key.
const FIELDS_BYTES: usize = 153;
const ENGINE_BYTES: usize = 31;

/// When a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundMode {
    /// At its deadline, whoever is missing.
    Deadline,
    /// As soon as every registered client is done, so that a round's length tells how long the slowest took. Simulation and
    /// demonstration only; both ends refuse it off loopback.
    ClosedLoop,
}

/// How an announcement stands to the one that a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// It is the same.
    Same,
    /// It is a later one, to be taken over instead.
    Later,
}

/// The parameters a server announces, which the root key of its cluster has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerParameters {
    /// Version of the protocol.
    pub protocol_version: u16,
    /// Counts the announcements of a cluster, from 1: whatever changes, this rises.
    pub serial: u64,
    /// Ed25519 key that signs manifests of the rounds of its epoch.
    pub manifest_key: [u8; 32],
    /// What was fixed of the seeds of rounds.
    pub seeds: SeedCommitment,
    /// Name of the PIR engine.
    pub engine: String,
    /// Security of the engine, bits.
    pub security_bits: u32,
    /// The batch code.
    pub code: CodeKind,
    /// Messages a client retrieves per round (k), 1 to 256.
    pub retrieve: u16,
    /// Buckets of the batch code (b).
    pub buckets: u16,
    /// Copies of every deposit, in as many candidate buckets (w).
    pub choices: u8,
    /// Rounds that stay retrievable (R), 1 to 4.
    pub retained: u8,
    /// When a round ends.
    pub mode: RoundMode,
    /// Length of a round, ms; in closed loop the least length.
    pub round_ms: u32,
    /// Offset of the deposit after a round opens, ms.
    pub deposit_ms: u32,
    /// Offset after a round is ready at which an unfinished look-up is given up, ms.
    pub lookup_ms: u32,
    /// Offset of the multi-query after a round is ready, ms.
    pub query_ms: u32,
    /// Over how much time deposits are spread, ms, see [`crate::slot`]; 0 for all at once.
    pub deposit_spread_ms: u32,
    /// The same of retrievals: download of the mapping, look-up and multi-query all move by it.
    pub query_spread_ms: u32,
    /// Which rounds the manifest key signs, and which key those before.
    pub key_epoch: KeyEpoch,
}

impl ServerParameters {
    /// Largest k.
    pub const RETRIEVE_MAX: u16 = code::RETRIEVE_MAX;
    /// Largest b.
    pub const BUCKETS_MAX: u16 = code::BUCKETS_MAX;
    /// Least security of an engine, bits.
    pub const SECURITY_MIN: u32 = 128;
    /// Shortest round with a deadline, ms.
    pub const ROUND_MS_MIN: u32 = 200;
    /// Least time that work depending on secrets has before the next call of the trace, ms.
    pub const SLOT_MS_MIN: u32 = 50;

    /// Least time between the end of the look-up and the multi-query of so many buckets, ms: 50, and half a millisecond
    /// for every bucket, rounded up. Building takes 0.1 to 0.15 ms a bucket on a fast core, so that one three to four times
    /// slower keeps the slot.
    #[must_use]
    pub const fn query_slot_ms(buckets: u16) -> u32 {
        Self::SLOT_MS_MIN + (buckets as u32).div_ceil(2)
    }

    /// Least time until a look-up is given up, ms: 50, or about as long as it takes on a fast core, if that is more. There is one
    /// for every two million entries that drawing a schedule reads and writes ([`pbc::BatchCode::schedule_wanted`]), of which there
    /// are `w k^2 (3 k + 4 b)`, and with a mapping a half for each of the `w k` stretches of it that are searched, without a code
    /// two. That is for 2^18 boxes: who has far more announces more.
    #[must_use]
    pub const fn lookup_slot_ms(shape: CodeShape) -> u32 {
        let (k, b, w) = (shape.retrieve as u64, shape.buckets as u64, shape.choices as u64);
        let entries = match shape.kind {
            CodeKind::Cuckoo | CodeKind::Partitioned | CodeKind::Standing => w * k * k * (3 * k + 4 * b),
            CodeKind::Hybrid | CodeKind::Single => 0,
        };
        // Halves of a millisecond.
        let stretches = match shape.kind {
            CodeKind::Partitioned | CodeKind::Standing => 0,
            CodeKind::Cuckoo | CodeKind::Hybrid => w * k,
            CodeKind::Single => 4 * k,
        };
        // Less than 2^53 entries, hence less than 2^32 ms.
        let slot = (entries.div_ceil(2_000_000) + stretches.div_ceil(2)) as u32;
        if slot > Self::SLOT_MS_MIN { slot } else { Self::SLOT_MS_MIN }
    }

    /// Whether a client may work with such a server.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        self.check_security()?;
        self.check_timing()?;
        self.check_shape()
    }

    /// Whether the engine is secure enough, as the server says.
    ///
    /// # Errors
    /// [`Error::Negotiation`].
    pub fn check_security(&self) -> Result<(), Error> {
        if self.security_bits < Self::SECURITY_MIN {
            return Err(Error::Negotiation(NegotiationError::Security));
        }
        Ok(())
    }

    /// Whether every call has a time slot before which the work behind it is done: without one, its moment would tell
    /// how long that work took.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check_timing(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Negotiation(reason));
        if self.mode == RoundMode::Deadline && self.round_ms < Self::ROUND_MS_MIN {
            return refuse(NegotiationError::ShortRounds);
        }
        if self.deposit_ms.min(self.lookup_ms) < Self::SLOT_MS_MIN {
            return refuse(NegotiationError::ShortSlots);
        }
        if self.query_ms.saturating_sub(self.lookup_ms) < Self::query_slot_ms(self.buckets) {
            return refuse(NegotiationError::ShortQuery);
        }
        if self.lookup_ms < Self::lookup_slot_ms(self.shape()) {
            return refuse(NegotiationError::ShortSlots);
        }
        Ok(())
    }

    /// [`ServerParameters::check`] without the demands on security and on time slots: for protocol tests on an engine
    /// without privacy.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check_shape(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Negotiation(reason));
        if self.protocol_version != PROTOCOL_VERSION {
            return refuse(NegotiationError::Version);
        }
        if self.serial == 0 {
            return refuse(NegotiationError::NoSerial);
        }
        self.seeds.check()?;
        if !self.seeds.first.0.is_multiple_of(self.code.epoch_rounds()) {
            return refuse(NegotiationError::Epochs);
        }
        self.key_epoch.check(&self.manifest_key).map_err(Error::Negotiation)?;
        self.check_numbers()
    }

    /// [`ServerParameters::check_shape`] of what an operator decides: without version, number and seeds of the announcement.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check_numbers(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Negotiation(reason));
        self.shape().check().map_err(|error| Error::Negotiation(NegotiationError::Shape(error)))?;
        if self.retained == 0 || self.retained > 4 {
            return refuse(NegotiationError::Retained);
        }
        // In closed loop a round waits for the deposits, however short it may be.
        let last_deposit = self.deposit_ms.saturating_add(self.deposit_spread_ms);
        let closes_first = self.mode == RoundMode::Deadline && last_deposit > self.round_ms;
        if self.round_ms == 0 || self.lookup_ms > self.query_ms || closes_first {
            return refuse(NegotiationError::Timing);
        }
        let longest = self.round_ms.saturating_mul(self.retained.into());
        if self.mode == RoundMode::Deadline && self.query_spread_ms > longest {
            return refuse(NegotiationError::Spread);
        }
        Ok(())
    }

    /// All of it in a fixed layout, which the cluster's root signs. Integers are little-endian:
    ///
    /// | offset | bytes | field |
    /// |---|---|---|
    /// | 0 | 8 | `serial` |
    /// | 8 | 2 | `protocol_version` |
    /// | 10 | 32 | `manifest_key` |
    /// | 42 | 31 | `engine`, padded with zeros |
    /// | 73 | 4 | `security_bits` |
    /// | 77 | 1 | `code`, [`CodeKind::byte`] |
    /// | 78 | 2 | `retrieve` |
    /// | 80 | 2 | `buckets` |
    /// | 82 | 1 | `choices` |
    /// | 83 | 1 | `retained` |
    /// | 84 | 1 | `mode`: 0 deadline, 1 closed loop |
    /// | 85 | 16 | `round_ms`, `deposit_ms`, `lookup_ms`, `query_ms` |
    /// | 101 | 8 | `deposit_spread_ms`, `query_spread_ms` |
    /// | 109 | 8 | first round with a seed |
    /// | 117 | 4 | segments of seeds |
    /// | 121 | 32 | root of the tree over their ends |
    /// | 153 | 52 | [`KeyEpoch`]: `key_epoch`, `key_first`, `key_end`, `former_key` |
    #[must_use]
    pub fn encode(&self) -> [u8; ANNOUNCEMENT_BYTES] {
        let mut engine = [0; ENGINE_BYTES];
        for (place, byte) in engine.iter_mut().zip(self.engine.bytes()) {
            *place = byte;
        }
        let fields: [&[u8]; 21] = [
            &self.serial.to_le_bytes(),
            &self.protocol_version.to_le_bytes(),
            &self.manifest_key,
            &engine,
            &self.security_bits.to_le_bytes(),
            &[self.code.byte()],
            &self.retrieve.to_le_bytes(),
            &self.buckets.to_le_bytes(),
            &[self.choices],
            &[self.retained],
            &[u8::from(self.mode == RoundMode::ClosedLoop)],
            &self.round_ms.to_le_bytes(),
            &self.deposit_ms.to_le_bytes(),
            &self.lookup_ms.to_le_bytes(),
            &self.query_ms.to_le_bytes(),
            &self.deposit_spread_ms.to_le_bytes(),
            &self.query_spread_ms.to_le_bytes(),
            &self.seeds.first.0.to_le_bytes(),
            &self.seeds.segments.to_le_bytes(),
            &self.seeds.root,
            &self.key_epoch.encode(),
        ];
        let mut bytes = [0; ANNOUNCEMENT_BYTES];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }

    /// Reads what [`ServerParameters::encode`] wrote. The numbers are not judged, see [`ServerParameters::check`].
    ///
    /// # Errors
    /// [`Error::Malformed`] if nothing is encoded like this.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed(Malformed::Announcement);
        if bytes.len() != ANNOUNCEMENT_BYTES {
            return Err(MALFORMED);
        }
        let mut fields = Fields(bytes);
        let parameters = Self {
            serial: u64::from_le_bytes(fields.take()?),
            protocol_version: u16::from_le_bytes(fields.take()?),
            manifest_key: fields.take()?,
            engine: engine(&fields.take::<ENGINE_BYTES>()?).ok_or(MALFORMED)?,
            security_bits: u32::from_le_bytes(fields.take()?),
            code: CodeKind::of_byte(u8::from_le_bytes(fields.take()?)).ok_or(MALFORMED)?,
            retrieve: u16::from_le_bytes(fields.take()?),
            buckets: u16::from_le_bytes(fields.take()?),
            choices: u8::from_le_bytes(fields.take()?),
            retained: u8::from_le_bytes(fields.take()?),
            mode: match fields.take()? {
                [0] => RoundMode::Deadline,
                [1] => RoundMode::ClosedLoop,
                _ => return Err(MALFORMED),
            },
            round_ms: u32::from_le_bytes(fields.take()?),
            deposit_ms: u32::from_le_bytes(fields.take()?),
            lookup_ms: u32::from_le_bytes(fields.take()?),
            query_ms: u32::from_le_bytes(fields.take()?),
            deposit_spread_ms: u32::from_le_bytes(fields.take()?),
            query_spread_ms: u32::from_le_bytes(fields.take()?),
            seeds: SeedCommitment {
                first: Round(u64::from_le_bytes(fields.take()?)),
                segments: u32::from_le_bytes(fields.take()?),
                root: fields.take()?,
            },
            key_epoch: KeyEpoch {
                number: u32::from_le_bytes(fields.take()?),
                first: Round(u64::from_le_bytes(fields.take()?)),
                end: Round(u64::from_le_bytes(fields.take()?)),
                former: fields.take()?,
            },
        };
        Ok(parameters)
    }

    /// The key that signs the manifest and the receipts of a round, if one does.
    #[must_use]
    pub fn manifest_key_of(&self, round: Round) -> Option<[u8; 32]> {
        self.key_epoch.key_of(self.manifest_key, round)
    }

    /// Whether a later announcement differs in nothing but number and manifest key: rounds that are under way go on.
    #[must_use]
    pub fn differs_in_keys_alone(&self, kept: &Self) -> bool {
        let Self { serial, manifest_key, key_epoch, .. } = *self;
        Self { serial, manifest_key, key_epoch, ..kept.clone() } == *self
    }

    /// How this announcement stands to the one that a client keeps. Both must be of the same cluster: the signature under
    /// this one has been verified, with the root key of the address.
    ///
    /// # Errors
    /// [`Error::Negotiation`] if the server goes back to an earlier announcement or manifest key, or has two under one number.
    pub fn succeeds(&self, kept: &Self) -> Result<Succession, Error> {
        use core::cmp::Ordering::{Equal, Greater, Less};

        match self.serial.cmp(&kept.serial) {
            Equal if self == kept => Ok(Succession::Same),
            Equal => Err(Error::Negotiation(NegotiationError::TwoOfOneNumber)),
            Greater => {
                let known = (&kept.key_epoch, &kept.manifest_key);
                let fine = self.key_epoch.check_succession(&self.manifest_key, known);
                fine.map_err(Error::Negotiation).map(|()| Succession::Later)
            }
            Less => Err(Error::Negotiation(NegotiationError::Downgrade)),
        }
    }

    /// Bytes that an account sends as its deposit: label and box, or with slots knock and box.
    #[must_use]
    pub const fn deposit_bytes(&self) -> usize {
        if self.code.has_slots() { SENT_BYTES } else { DEPOSIT_BYTES }
    }

    /// The batch code with its dimensions.
    #[must_use]
    pub const fn shape(&self) -> CodeShape {
        let Self { code: kind, retrieve, buckets, choices, .. } = *self;
        CodeShape { kind, retrieve, buckets, choices }
    }
}

/// The name of an engine, as [`ServerParameters::encode`] pads it.
fn engine(padded: &[u8; ENGINE_BYTES]) -> Option<String> {
    let length = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let name = padded.get(..length)?;
    let printable = name.iter().all(u8::is_ascii_graphic);
    core::str::from_utf8(name).ok().filter(|_| printable).map(str::to_owned)
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Error::Malformed(Malformed::Announcement))?;
        self.0 = rest;
        Ok(*field)
    }
}
