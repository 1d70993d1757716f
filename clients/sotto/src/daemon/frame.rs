//! Frames: a length as little-endian `u32`, so many bytes of JSON, and zeros up to a multiple of a step. A frame may carry a text or
//! an invitation, so no copy of it stays in memory.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use zeroize::Zeroizing;

/// Most bytes of a frame's JSON. A text of 16 KiB whose every byte needs six characters has room.
pub(crate) const FRAME_MAX: usize = 256 * 1024;
const LENGTH_BYTES: usize = 4;
/// The step on this machine, where nobody sees how long frames are.
pub(crate) const HERE: usize = 1;
/// The step between machines. Whatever is said in a text of some 3,000 characters or less looks like any other frame.
pub(crate) const AWAY: usize = 4096;

/// Reads frames.
pub(crate) struct Frames<R> {
    input: R,
    step: usize,
    /// Never grown, so that no copy stays behind.
    kept: Zeroizing<Vec<u8>>,
    filled: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, step: usize) -> Self {
        let kept = Zeroizing::new(vec![0; (LENGTH_BYTES + FRAME_MAX).next_multiple_of(step)]);
        Self { input, step, kept, filled: 0 }
    }

    /// The next frame, or None if the other side has ended. Nothing is lost when this is cancelled.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a frame that is too long or not what is expected;
    /// [`io::ErrorKind::UnexpectedEof`] for one that is cut short.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some((said, whole)) = self.whole()? {
                let json = self.kept.get(LENGTH_BYTES..said).unwrap_or_default();
                let frame = serde_json::from_slice(json).map_err(|_| invalid("a frame is not understood"));
                self.kept.copy_within(whole..self.filled, 0);
                self.filled -= whole;
                return frame.map(Some);
            }
            let room = self.kept.get_mut(self.filled..).unwrap_or_default();
            match self.input.read(room).await? {
                0 if self.filled == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => self.filled += more,
            }
        }
    }

    /// Length of the first frame with its prefix, without and with what it is filled up with, if it is there.
    fn whole(&self) -> io::Result<Option<(usize, usize)>> {
        let filled = self.kept.get(..self.filled).unwrap_or_default();
        let Some((length, rest)) = filled.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > FRAME_MAX {
            return Err(invalid("a frame is too long"));
        }
        let said = LENGTH_BYTES + length;
        let whole = said.next_multiple_of(self.step);
        if rest.get(length..whole - LENGTH_BYTES).is_some_and(|rest| rest.iter().any(|byte| *byte != 0)) {
            return Err(invalid("a frame is filled up with something"));
        }
        Ok((filled.len() >= whole).then_some((said, whole)))
    }
}

/// Writes a frame.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is too long; whatever the output says.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    output: &mut W,
    frame: &impl Serialize,
    step: usize,
) -> io::Result<()> {
    // Never grown.
    let room = (LENGTH_BYTES + FRAME_MAX).next_multiple_of(step);
    let mut bytes = Bounded(Zeroizing::new(Vec::with_capacity(room)));
    bytes.0.extend([0; LENGTH_BYTES]);
    serde_json::to_writer(&mut bytes, frame).map_err(|_| invalid("a frame is too long"))?;
    let mut bytes = bytes.0;
    // Bounded.
    let length = (bytes.len() - LENGTH_BYTES) as u32;
    if let Some(head) = bytes.first_chunk_mut::<LENGTH_BYTES>() {
        *head = length.to_le_bytes();
    }
    let whole = bytes.len().next_multiple_of(step);
    bytes.resize(whole, 0);
    output.write_all(&bytes).await?;
    output.flush().await
}

/// A buffer that is never grown.
struct Bounded(Zeroizing<Vec<u8>>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > LENGTH_BYTES + FRAME_MAX - self.0.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::io;

    use sotto_protocol::TEXT_MAX;
    use tokio::io::AsyncWriteExt as _;

    use super::{AWAY, FRAME_MAX, Frames, HERE, write};

    #[tokio::test]
    async fn frames_come_as_they_were_written_however_they_are_cut() {
        for step in [HERE, AWAY] {
            let mut bytes = Vec::new();
            // The longest text, in the longest form.
            let all = ["one".to_owned(), String::new(), "\u{1}".repeat(TEXT_MAX), "x".repeat(AWAY - 6)];
            for text in &all {
                write(&mut bytes, text, step).await.unwrap();
            }
            assert_eq!(bytes.len() % step, 0);
            for cut in [1, 3, 1000, 5000] {
                let (mut from, to) = tokio::io::duplex(cut);
                let bytes = bytes.clone();
                let writing = tokio::spawn(async move { from.write_all(&bytes).await });
                let mut frames = Frames::new(to, step);
                for text in &all {
                    assert_eq!(frames.next::<String>().await.unwrap().as_ref(), Some(text));
                }
                assert_eq!(frames.next::<String>().await.unwrap(), None);
                writing.await.unwrap().unwrap();
            }
        }
    }

    /// Otherwise an observer between two machines counts letters.
    #[tokio::test]
    async fn between_machines_short_frames_are_of_one_size() {
        let mut sizes = Vec::new();
        for text in ["", "yes", &"x".repeat(3000), &"x".repeat(AWAY - 6), &"x".repeat(AWAY - 5)] {
            let mut bytes = Vec::new();
            write(&mut bytes, &text, AWAY).await.unwrap();
            sizes.push(bytes.len());
        }
        assert_eq!(sizes, [AWAY, AWAY, AWAY, AWAY, 2 * AWAY]);
    }

    #[tokio::test]
    async fn what_is_too_long_cut_short_or_no_json_ends_the_connection() {
        let kind = |result: io::Result<Option<String>>| result.unwrap_err().kind();
        let long = (FRAME_MAX as u32 + 1).to_le_bytes();
        for step in [HERE, AWAY] {
            assert_eq!(kind(Frames::new(&long[..], step).next().await), io::ErrorKind::InvalidData);
            let cut = Frames::new(&[9, 0, 0, 0, b'"'][..], step).next().await;
            assert_eq!(kind(cut), io::ErrorKind::UnexpectedEof);
            assert_eq!(kind(Frames::new(&[9][..], step).next().await), io::ErrorKind::UnexpectedEof);
            let mut none = vec![1, 0, 0, 0, b'x'];
            none.resize(none.len().next_multiple_of(step), 0);
            assert_eq!(kind(Frames::new(&none[..], step).next().await), io::ErrorKind::InvalidData);
            let refused = write(&mut Vec::new(), &"x".repeat(FRAME_MAX), step).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
        let mut filled = vec![2, 0, 0, 0, b'"', b'"'];
        filled.resize(AWAY, 0);
        filled[AWAY - 1] = 1;
        assert_eq!(kind(Frames::new(&filled[..], AWAY).next().await), io::ErrorKind::InvalidData);
        // All of the longest is read, and no byte more.
        let longest = [&(FRAME_MAX as u32).to_le_bytes()[..], &vec![b' '; FRAME_MAX]].concat();
        assert_eq!(kind(Frames::new(&longest[..], AWAY).next().await), io::ErrorKind::UnexpectedEof);
    }
}
