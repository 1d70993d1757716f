//! Long values travel as streams of chunks. The sender splits at fixed places, so that the number of chunks tells no
//! more than the length; the receiver bounds every stream before it buffers.

use bytes::{Buf, Bytes, BytesMut};

use crate::limits::CHUNK_BYTES;

/// Splits `bytes` into chunks of [`CHUNK_BYTES`], the last one shorter, without copying. There is always at least one
/// chunk, for the header that rides in the first.
pub fn split(bytes: Bytes) -> impl Iterator<Item = Bytes> + Send + 'static {
    let mut rest = Some(bytes);
    core::iter::from_fn(move || {
        let mut bytes = rest.take()?;
        if bytes.len() <= CHUNK_BYTES {
            return Some(bytes);
        }
        let chunk = bytes.split_to(CHUNK_BYTES);
        rest = Some(bytes);
        Some(chunk)
    })
}

/// Why a stream of chunks was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// More bytes than the limit.
    #[error("the stream is longer than {limit} bytes")]
    Oversized {
        /// Most bytes there may be.
        limit: usize,
    },
    /// The stream ended early.
    #[error("the stream ended after {bytes} of {expected} bytes")]
    Truncated {
        /// Bytes received.
        bytes: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// More chunks without data than an honest sender makes.
    #[error("the stream has an empty chunk")]
    Empty,
}

/// Puts a stream of chunks together. Memory grows with what arrives, never with what is announced.
#[derive(Debug)]
pub struct Join {
    bytes: BytesMut,
    chunks: usize,
    expected: usize,
}

impl Join {
    /// A stream of exactly `expected` bytes.
    #[must_use]
    pub fn exactly(expected: usize) -> Self {
        Self { bytes: BytesMut::new(), chunks: 0, expected }
    }

    /// Takes the next chunk. Only the first may be without data.
    ///
    /// # Errors
    /// [`StreamError::Oversized`] if there are more bytes than expected; nothing of that chunk is kept. [`StreamError::Empty`] for a
    /// later chunk without data, so that a stream has an end.
    pub fn push(&mut self, chunk: impl Buf) -> Result<(), StreamError> {
        if chunk.remaining() > self.expected - self.bytes.len() {
            return Err(StreamError::Oversized { limit: self.expected });
        }
        if !chunk.has_remaining() && self.chunks > 0 {
            return Err(StreamError::Empty);
        }
        self.chunks += 1;
        let mut chunk = chunk;
        while chunk.has_remaining() {
            let part = chunk.chunk();
            self.bytes.extend_from_slice(part);
            let length = part.len();
            chunk.advance(length);
        }
        Ok(())
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing arrived yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The whole value.
    ///
    /// # Errors
    /// [`StreamError::Truncated`] if bytes are missing.
    pub fn finish(self) -> Result<Bytes, StreamError> {
        if self.bytes.len() != self.expected {
            return Err(StreamError::Truncated { bytes: self.bytes.len(), expected: self.expected });
        }
        Ok(self.bytes.freeze())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::{Join, StreamError, split};
    use crate::limits::CHUNK_BYTES;
    use bytes::Bytes;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_split_joins_to_the_same_bytes(length in 0..3 * CHUNK_BYTES + 7) {
            let bytes = Bytes::from((0..length).map(|at| at as u8).collect::<Vec<_>>());
            let chunks: Vec<Bytes> = split(bytes.clone()).collect();
            prop_assert_eq!(chunks.len(), length.div_ceil(CHUNK_BYTES).max(1));
            let mut join = Join::exactly(length);
            for chunk in chunks {
                join.push(chunk).unwrap();
            }
            prop_assert_eq!(join.finish().unwrap(), bytes);
        }

        #[test]
        fn a_stream_longer_than_its_limit_is_given_up(limit in 0..2000_usize, over in 1..2000_usize) {
            let mut join = Join::exactly(limit);
            let refused = split(Bytes::from(vec![0; limit + over])).try_for_each(|chunk| join.push(chunk));
            prop_assert_eq!(refused, Err(StreamError::Oversized { limit }));
        }

        #[test]
        fn a_stream_shorter_than_its_size_is_refused(expected in 1..2000_usize, missing in 1..2000_usize) {
            let bytes = expected.saturating_sub(missing);
            let mut join = Join::exactly(expected);
            join.push(Bytes::from(vec![0; bytes])).unwrap();
            prop_assert_eq!(join.finish(), Err(StreamError::Truncated { bytes, expected }));
        }
    }

    #[test]
    fn a_stream_of_nothing_ends() {
        let mut join = Join::exactly(4);
        join.push(Bytes::new()).unwrap();
        assert_eq!(join.push(Bytes::new()), Err(StreamError::Empty));
    }
}
