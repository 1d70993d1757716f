//! What a server runs and what a client accepts.

use serde::{Deserialize, Serialize};

use crate::{Error, PROTOCOL_VERSION};

/// When a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundMode {
    /// At its deadline, whoever is missing.
    Deadline,
    /// As soon as every registered client is done. Simulation and demonstration only, refused off loopback.
    ClosedLoop,
}

/// The parameters a server announces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerParameters {
    /// Version of the protocol.
    pub protocol_version: u16,
    /// Ed25519 key that signs manifests.
    pub manifest_key: [u8; 32],
    /// Name of the PIR engine.
    pub engine: String,
    /// Security of the engine, bits.
    pub security_bits: u32,
    /// Messages a client retrieves per round (k), 1 to 256.
    pub retrieve: u16,
    /// Buckets of the batch code (b).
    pub buckets: u16,
    /// Candidate buckets of a label (w).
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
}

impl ServerParameters {
    /// Largest k.
    pub const RETRIEVE_MAX: u16 = 256;
    /// Largest b.
    pub const BUCKETS_MAX: u16 = 1024;
    /// Least security of an engine, bits.
    pub const SECURITY_MIN: u32 = 128;

    /// Whether a client may work with such a server.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        if self.security_bits < Self::SECURITY_MIN {
            return Err(Error::Negotiation("its PIR engine offers less than 128 bits of security"));
        }
        self.check_shape()
    }

    /// [`ServerParameters::check`] without the demand on security: for protocol tests on an engine without privacy.
    ///
    /// # Errors
    /// [`Error::Negotiation`] with the reason.
    pub fn check_shape(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Negotiation(reason));
        if self.protocol_version != PROTOCOL_VERSION {
            return refuse("it speaks another version of the protocol; update the older side");
        }
        if self.retrieve == 0 || self.retrieve > Self::RETRIEVE_MAX {
            return refuse("messages per round must be 1 to 256");
        }
        if self.buckets < self.retrieve || self.buckets > Self::BUCKETS_MAX {
            return refuse("the number of buckets must be at least that of messages per round and at most 1024");
        }
        if self.choices == 0 || self.choices > 8 || u16::from(self.choices) > self.buckets {
            return refuse("candidate buckets must be 1 to 8");
        }
        if self.retained == 0 || self.retained > 4 {
            return refuse("retained rounds must be 1 to 4");
        }
        if self.round_ms == 0 || self.lookup_ms > self.query_ms || self.deposit_ms > self.round_ms {
            return refuse("its round timing is contradictory");
        }
        Ok(())
    }
}
