//! The seeds of rounds: where they come from, and the file with what is public of them.
//!
//! ```text
//! seeds      first round, u64 | the end of every segment (32)
//! seed.key   the secret from which all follow
//! ```

use std::fs;
use std::io;
use std::path::Path;

use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sotto_files::replace;
use sotto_protocol::Round;
use sotto_protocol::manifest::seed::{SEGMENTS_MAX, SeedTree};
use sotto_protocol::server::{SeedChain, segment_end};

use crate::secrets::IdentityError;

/// Segments of 4,096 rounds that a data directory has seeds for: at 2 s a round, two years and a month.
pub const SEGMENTS: u32 = 8192;
/// The same of a server that keeps nothing: at 2 s a round, six days.
pub(crate) const SEGMENTS_IN_MEMORY: u32 = 64;
const FIRST_BYTES: usize = 8;

/// Where the seeds of rounds come from.
pub(crate) trait Seeds: Send + Sync + 'static {
    /// The seed of a round; `None` if none was fixed.
    fn seed(&mut self, round: Round) -> Option<[u8; 32]>;
}

impl Seeds for SeedChain {
    fn seed(&mut self, round: Round) -> Option<[u8; 32]> {
        Self::seed(self, round)
    }
}

/// Computes the ends of so many segments, of which the first are known.
pub(crate) fn tree(
    secret: &[u8; 32],
    first: Round,
    known: Vec<[u8; 32]>,
    segments: u32,
) -> Result<SeedTree, sotto_protocol::Error> {
    let mut ends = known;
    let have = u32::try_from(ends.len()).unwrap_or(u32::MAX);
    let more: Vec<[u8; 32]> = (have..segments.min(SEGMENTS_MAX))
        .into_par_iter()
        .map(|segment| segment_end(secret, first, segment))
        .collect();
    ends.extend(more);
    SeedTree::new(first, ends)
}

/// The tree in a file, if there is one.
pub(crate) fn load(path: &Path) -> Result<Option<SeedTree>, IdentityError> {
    let malformed = || IdentityError::Malformed(path.to_owned());
    let failed = |source: io::Error| IdentityError::File { path: path.to_owned(), source: source.into() };
    match fs::metadata(path) {
        Ok(found) if found.len() > FIRST_BYTES as u64 + 32 * u64::from(SEGMENTS_MAX) => {
            return Err(malformed());
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let bytes = fs::read(path).map_err(failed)?;
    let (first, ends) = bytes.split_first_chunk::<FIRST_BYTES>().ok_or_else(malformed)?;
    let (ends, rest) = ends.as_chunks();
    if !rest.is_empty() {
        return Err(malformed());
    }
    SeedTree::new(Round(u64::from_le_bytes(*first)), ends.to_vec()).map(Some).map_err(|_| malformed())
}

/// Writes the file.
pub(crate) fn store(path: &Path, tree: &SeedTree) -> Result<(), IdentityError> {
    let bytes = [&tree.commitment().first.0.to_le_bytes()[..], tree.ends().as_flattened()].concat();
    replace(path, &bytes, 0o644)
        .map_err(|source| IdentityError::File { path: path.to_owned(), source: source.into() })
}
