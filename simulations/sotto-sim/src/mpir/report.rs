//! What one measurement of a multi-query found.

use serde::{Deserialize, Serialize};

use super::setting::Setting;

/// Medians over the runs, CPU time of one thread, for one client's whole batch unless it says otherwise.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) setting: Setting,
    /// What a multi-query costs the server: `answer_cpu_ms`. Encoding and set-up are paid once for all clients.
    pub(crate) server_cpu_ms: f64,
    /// The same for each of the k elements.
    pub(crate) server_cpu_ms_per_message: f64,
    /// The batch code with the bytes of its buckets.
    pub(crate) encode_cpu_ms: f64,
    /// All different buckets.
    pub(crate) setup_cpu_ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expand_cpu_ms: Option<f64>,
    /// Of engines that do not expand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parse_cpu_ms: Option<f64>,
    pub(crate) first_dimension_cpu_ms: f64,
    /// Whatever follows the first dimension.
    pub(crate) rest_cpu_ms: f64,
    pub(crate) answer_cpu_ms: f64,
    pub(crate) client_query_cpu_ms: f64,
    pub(crate) client_extract_cpu_ms: f64,
    /// Positions looked up and keys scheduled; the mapping itself is at hand.
    pub(crate) plan_cpu_ms: f64,
    pub(crate) upload_bytes: usize,
    pub(crate) download_bytes: usize,
    /// What everybody downloads in every round to read answers.
    #[serde(default)]
    pub(crate) hint_bytes: usize,
    /// Uploaded once, not with every batch.
    pub(crate) key_bytes: usize,
    /// Queries of a batch: buckets, or k without a code.
    pub(crate) buckets: usize,
    /// Elements in each bucket, padding included.
    pub(crate) bucket_size: usize,
    /// In all buckets; those of equal content count each.
    pub(crate) codewords: usize,
    pub(crate) dimensions: usize,
    /// Size in memory of the prepared buckets, those of equal content once.
    pub(crate) database_bytes: usize,
    /// Keys that found no place in their batch, over all runs.
    pub(crate) deferred: usize,
    /// Whether every other element was the database's.
    pub(crate) verified: bool,
    /// Of single queries, how many were measured; the times are scaled to k of them.
    pub(crate) sampled: Option<usize>,
    pub(crate) kernel: String,
}
