//! How much memory a run will want.

use sotto_protocol::deposit::BOX_BYTES;

use super::{Code, Config};

/// Copies of every message in the buckets, at most: three of cuckoo, 4.5 of the hybrid.
const COPIES: u64 = 5;
/// Bytes that a byte in a bucket takes when it is prepared.
const PREPARED: u64 = 4;

/// Processes that hold prepared rounds: the server's, and the one of the bare stages.
const HOLDERS: u64 = 2;

/// Says so if there is less memory than this will want: in each process two prepared rounds, one round's buckets and
/// messages.
pub(super) fn memory_warning(config: &Config) -> Option<String> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let copies = if config.code == Code::Single { 1 } else { COPIES };
    let messages = u64::from(config.users) * BOX_BYTES as u64;
    let needed = HOLDERS * messages * (copies * (2 * PREPARED + 1) + 2);
    let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    (needed > available).then(|| {
        format!(
            "this may take {:.1} GiB of memory, and {:.1} GiB are available",
            gibibytes(needed),
            gibibytes(available)
        )
    })
}
