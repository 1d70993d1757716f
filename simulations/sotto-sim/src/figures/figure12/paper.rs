//! The values that the paper prints.

use crate::mpir::Way;

/// Server milliseconds of a single query.
pub(super) const SINGLE_ANSWER_MS: f64 = 3240.0;

/// The paper's costs of one element: milliseconds of client and server, kilobytes.
#[derive(Clone, Copy)]
pub(super) struct Paper {
    pub(super) query_ms: f64,
    pub(super) extract_ms: f64,
    pub(super) setup_ms: f64,
    pub(super) answer_ms: f64,
    pub(super) upload_kb: f64,
    pub(super) download_kb: f64,
}

impl Paper {
    const fn new(client: [f64; 2], server: [f64; 2], network: [f64; 2]) -> Self {
        let ([query_ms, extract_ms], [setup_ms, answer_ms], [upload_kb, download_kb]) =
            (client, server, network);
        Self { query_ms, extract_ms, setup_ms, answer_ms, upload_kb, download_kb }
    }

    /// Of 2^20 elements of 288 bytes.
    pub(super) const fn of(way: Way, k: usize) -> Option<Self> {
        Some(match (way, k) {
            (Way::Single, _) => Self::new([3.07, 2.51], [6100.0, SINGLE_ANSWER_MS], [64.0, 384.0]),
            (Way::Hybrid, 16) => Self::new([29.03, 20.0], [2020.0, 1370.0], [577.0, 2885.0]),
            (Way::Hybrid, 64) => Self::new([28.5, 16.27], [640.0, 490.0], [577.0, 2308.0]),
            (Way::Hybrid, 256) => Self::new([28.58, 16.36], [300.0, 210.0], [577.0, 2308.0]),
            (Way::Cuckoo, 16) => Self::new([6.45, 3.26], [1500.0, 690.0], [96.0, 480.0]),
            (Way::Cuckoo, 64) => Self::new([5.26, 3.25], [380.0, 230.0], [96.0, 480.0]),
            (Way::Cuckoo, 256) => Self::new([4.92, 2.7], [120.0, 80.0], [96.0, 384.0]),
            _ => return None,
        })
    }
}
