//! What makes a server answerable for its answers: receipts under them, and the coins by which participants draw what
//! they check.
//!
//! An answer is a function of the round's buckets, which the manifest fixes, of the public keys, and of the query.
//! Whoever holds a receipt and one bucket can compute the answer again, and show it to others if it is another.

mod coins;
mod receipt;

pub use coins::{AUDITED, AUDITED_WHEN_ASKED, AuditCoins};
pub use receipt::{RECEIPT_BYTES, Receipt, Statement, answer_digest, query_digest};
