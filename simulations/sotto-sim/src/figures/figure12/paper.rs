//! The values that the paper prints.

use crate::mpir::Way;

/// Server seconds of a single query.
pub(super) const SINGLE_ANSWER_S: f64 = 3.24;

/// The paper's costs of one element: client milliseconds, server seconds, kilobytes.
#[derive(Clone, Copy)]
pub(super) struct Paper {
    pub(super) query_ms: f64,
    pub(super) extract_ms: f64,
    pub(super) setup_s: f64,
    pub(super) answer_s: f64,
    pub(super) upload_kb: f64,
    pub(super) download_kb: f64,
}

impl Paper {
    const fn new(client: [f64; 2], server: [f64; 2], network: [f64; 2]) -> Self {
        let ([query_ms, extract_ms], [setup_s, answer_s], [upload_kb, download_kb]) =
            (client, server, network);
        Self { query_ms, extract_ms, setup_s, answer_s, upload_kb, download_kb }
    }

    /// Of 2^20 elements of 288 bytes.
    pub(super) const fn of(way: Way, k: usize) -> Option<Self> {
        Some(match (way, k) {
            (Way::Single, _) => Self::new([3.07, 2.51], [6.1, SINGLE_ANSWER_S], [64.0, 384.0]),
            (Way::Hybrid, 16) => Self::new([29.03, 20.0], [2.02, 1.37], [577.0, 2885.0]),
            (Way::Hybrid, 64) => Self::new([28.5, 16.27], [0.64, 0.49], [577.0, 2308.0]),
            (Way::Hybrid, 256) => Self::new([28.58, 16.36], [0.3, 0.21], [577.0, 2308.0]),
            (Way::Cuckoo, 16) => Self::new([6.45, 3.26], [1.5, 0.69], [96.0, 480.0]),
            (Way::Cuckoo, 64) => Self::new([5.26, 3.25], [0.38, 0.23], [96.0, 480.0]),
            (Way::Cuckoo, 256) => Self::new([4.92, 2.7], [0.12, 0.08], [96.0, 384.0]),
            _ => return None,
        })
    }
}
