//! Hard limits on what either end takes in. Negotiated sizes are smaller; these hold before anything is negotiated.

/// Bytes of data in one chunk of a stream.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Decoding limit of every message: 1 MiB of payload and room for its envelope.
pub const MESSAGE_MAX: usize = 1024 * 1024 + 4096;

/// Largest upload of a client's PIR keys, bytes.
pub const KEYS_MAX: usize = 16 * 1024 * 1024;

/// Rounds over which uploads of keys are counted, from multiples of it on: in so many, an account brings one set.
pub const UPLOAD_ROUNDS: u64 = 64;

/// Sets of keys that an account may bring in so many rounds, beside those the server has of it. One is needed; the others
/// are for sets that were dropped in between, and for those who come online anew.
pub const UPLOADS_MAX: u8 = 8;

/// Largest multi-query, all sub-queries together, bytes: 1,024 buckets of 64 KiB.
pub const QUERY_MAX: usize = 64 * 1024 * 1024;

/// Largest answer, all sub-answers together, bytes: 1,024 buckets of 256 KiB.
pub const ANSWER_MAX: usize = 256 * 1024 * 1024;

/// Largest mapping, bytes: three tuples of about 24 bits for each of 2^24 deposits, rounded up.
pub const MAPPING_MAX: usize = 256 * 1024 * 1024;

/// Largest unit whose buckets can be downloaded, bytes. In a larger one no answer can be checked.
pub const UNIT_MAX: usize = 256 * 1024 * 1024;

/// Largest hint, bytes: what everybody downloads to read answers of a round.
pub const HINT_MAX: usize = 64 * 1024 * 1024;

/// Manifests in one answer to `Manifests`.
pub const MANIFESTS_MAX: usize = 1024;

/// Longest name of an engine, bytes.
pub const ENGINE_NAME_MAX: usize = 31;
