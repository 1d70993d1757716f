//! PSIR: private *stateful* information retrieval (Patel, Persiano, Yeo, "Private Stateful Information Retrieval", CCS
//! 2018), for comparison: what a client knows of a database ahead makes the database smaller that it retrieves from.
//!
//! # The scheme
//!
//! A database of n records is thought of in n/k parts of about k records, `k = 2 sqrt(n)`. A client keeps c *blocks*: each
//! is a set S of k - 1 random records and their sum (XOR) alone. To read record q it takes a block S that does not hold q,
//! and tells the server a division of all records into parts of which S with q is one. The server adds up the records of
//! each part. Which part it is that the client wants stays hidden: it retrieves that sum by an engine that knows one
//! database and one query, from n/k sums in place of n records. Sum and block differ by the record.
//!
//! * **Init**: the client draws c sets, the server streams the whole database, and the client adds up what its sets hold
//!   ([`Init`]).
//! * **Query**: a block that holds q is thrown away, never kept for another query: of a set that is known to hold q, the
//!   server would see q and what is read later in one part more often than others. A used block is gone.
//! * **UpdateState**: where a record has changed, the blocks that hold it take the difference ([`State::update`]). When
//!   few blocks are left, Init is made again: the paper does so after c - 25 queries.
//!
//! **Partition by a seed.** What divides the records must be short, and must not show which of its parts was given. Records
//! come in groups of p neighbours, p the least prime with p >= n/k, and each group has a polynomial of degree below w over
//! `Z_p`: its value at x is the part of record x of the group. For a set and a part a, the client draws for each group, of
//! which the set holds the records with `x_1 .. x_t`,
//!
//! ```text
//! f = a + (X - x_1) ... (X - x_t) h      h uniform of degree below w - t, and drawn again while it is 0 at another record
//! ```
//!
//! that is, a polynomial that is uniform among those under which exactly these records of the group are in part a. If sets
//! hold each record independently with probability 1/p, and q was added to one, then the polynomials are as good as uniform,
//! whatever q is: for t below w a uniform polynomial has as many records in a part as such a set would have, but for `2^w / w!`
//! in the mean over t, and for w = p exactly. As part a is not known, this adds up over all groups, and counts w/2 times in the
//! group of q, of which it is known that it has one: of one query the distance is below
//!
//! ```text
//! (G - 1) 2^w / w! + 2^(w - 1) / (w - 1)!          G = ceil(n/p) groups
//! ```
//!
//! so below 2^-72 for the w = 32 that is taken and up to 2^24 records, and below 2^-58 for all queries of a state of 2^14 blocks. So S
//! has n/p records in the mean, and not always k - 1, as in the paper, whose parts have all one size. Where p < 32, w = p:
//! every division of a group is a polynomial's, and shows nothing.
//!
//! **Padding.** The last group may be shorter, and a part may be empty: there are always p sums.
//!
//! # Inner engines
//!
//! | engine | inner | bits of security |
//! |---|---|---|
//! | `xpsir` | [`crate::Xpir`] in two dimensions | 193 |
//! | `sealpsir` | [`pir_core::SealPir`] | 137 |
//! | `paillierpsir` | [`crate::paillier`], of a modulus of 3072 bits | 128 |
//! | `paillierpsir-paper` | the same of 2048 bits, as in the paper | 112 |
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | client state | c times 32 bytes and a record |
//! | Init | the database, streamed |
//! | request | `w n/p log2 p` bits, and a query of the inner engine for p records |
//! | answer | that of the inner engine |
//! | server | w n products modulo p, n additions of records, and SETUP and ANSWER of the inner engine for p records |
//! | client | about 3 w n products modulo p for each query |
//!
//! # Where every round is a new database
//!
//! State is worth something as long as the database stays the same: Init costs a download of everything, which c queries
//! share. In a system whose database is new in every round there is nothing to share it with. A client would have to stream
//! the whole round before its one query, and who has streamed it has what it wants to read without any query. As an
//! [`mpir::Engine`], an engine here does just that, honestly: the *hint* of a round is the round's whole database, one block
//! is drawn for each bucket, its sum is taken from the hint, and the answer gives the record. It shows that the framework is
//! right over real sockets, and what it would cost; nobody should take it. What the framework gains where a database stays
//! is measured by [`State`], without an engine.
//!
//! Not constant in time: how long a client takes to draw a request depends on the sets that it draws, hence on secrets, and who
//! sends a request as soon as it is drawn shows that. Nobody should use it.

mod client;
mod engine;
mod field;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod partition;
mod shape;
mod simulation;
mod state;

use pir_core::scheme::PROFILE_BYTES;
use pir_core::{Error, Scheme, SealPir};

use crate::Xpir;
use crate::paillier::{self, Paillier2048, Paillier3072};

pub use client::{Answer, Client, Server};
pub use engine::Psir;
pub use shape::Shape;
pub use simulation::{Serviced, Setting, simulate};
pub use state::{Init, State};

/// An engine that knows one database and one query, under PSIR.
pub trait Inner: Scheme<Parameters: Send, ClientKey: Send> {
    /// The name of PSIR over it.
    const PSIR_NAME: &'static str;

    /// What admits an engine of less than 128 bits of security, which no server announces by itself.
    const INSECURE_PROFILE: Option<[u8; PROFILE_BYTES]> = None;

    /// [`Scheme::with_profile`], for the sums of as many parts.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Security`] as there.
    fn of_parts(shape: &Shape, profile: &[u8; PROFILE_BYTES]) -> Result<Self::Parameters, Error> {
        Self::with_profile(shape.parts(), shape.element_bytes(), profile)
    }
}

impl Inner for Xpir<2> {
    const PSIR_NAME: &'static str = "xpsir";
}

impl Inner for SealPir {
    const PSIR_NAME: &'static str = "sealpsir";
}

impl Inner for Paillier3072 {
    const PSIR_NAME: &'static str = "paillierpsir";
}

impl Inner for Paillier2048 {
    const PSIR_NAME: &'static str = "paillierpsir-paper";
    const INSECURE_PROFILE: Option<[u8; PROFILE_BYTES]> = Some(paillier::INSECURE_PROFILE);
}
