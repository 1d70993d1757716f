//! What is typed: lines of bytes, of which anything may come.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use sotto_protocol::TEXT_MAX;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};
use zeroize::Zeroizing;

use super::failure::Failure;
use crate::daemon::message::Private;

/// An invitation with the longest address has less than 5,000 characters, a card for eight members about 800.
const SECRET_MAX: u64 = 8192;
/// The longest text and the carriage return that may follow it.
const KEPT_MAX: usize = TEXT_MAX + 1;

/// Bytes of a line after which terminals on this system say nothing and drop what is typed or pasted.
pub(super) const TYPED_MAX: usize = if cfg!(target_os = "linux") { 4095 } else { 1023 };

/// What to do instead.
pub(super) const CUT: &str = "a terminal takes no more of one line, and has dropped what followed: 'sotto send NAME -' takes it in \
                              several lines or from a file, and 'sotto screen' takes it whole";

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(Zeroizing<String>),
    NotText,
    TooLong,
}

/// The lines of an input. No more than the longest text is kept of any of them.
pub(super) struct Lines<R> {
    input: R,
    kept: Zeroizing<Vec<u8>>,
    more: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        // Never grown, so that no copy stays behind.
        Self { input, kept: Zeroizing::new(Vec::with_capacity(KEPT_MAX)), more: false }
    }

    /// The next line, or None after the last one. Nothing is lost when this is cancelled.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                let none = self.kept.is_empty() && !self.more;
                return Ok((!none).then(|| self.line()));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(bytes.len());
            let kept = length.min(KEPT_MAX - self.kept.len());
            self.kept.extend_from_slice(bytes.get(..kept).unwrap_or_default());
            self.more |= kept < length;
            self.input.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(self.line()));
            }
        }
    }

    fn line(&mut self) -> Line {
        let more = core::mem::take(&mut self.more);
        let content = self.kept.strip_suffix(b"\r").unwrap_or(&self.kept);
        let line = if more || content.len() > TEXT_MAX {
            Line::TooLong
        } else {
            core::str::from_utf8(content)
                .map_or(Line::NotText, |text| Line::Text(Zeroizing::new(text.to_owned())))
        };
        self.kept.clear();
        line
    }
}

/// A secret from standard input: the first line that is not empty. What follows is left for others.
pub(super) fn read_secret(what: &str, other: &str) -> Result<Private, Failure> {
    read_broken_secret(what, other, |_| false)
}

/// The same of one that may have been broken into lines, of which there are more as long as what was read `lacks` some, up to an
/// empty one.
pub(super) fn read_broken_secret(
    what: &str,
    other: &str,
    lacks: impl Fn(&str) -> bool,
) -> Result<Private, Failure> {
    // Never grown, so that no copy stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * SECRET_MAX as usize));
    let mut input = io::stdin().lock().take(SECRET_MAX);
    if io::stdin().is_terminal() {
        write!(io::stderr(), "paste the {what}: ")?;
    }
    loop {
        let before = bytes.len();
        if input.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let is_empty = bytes.get(before..).is_none_or(|line| line.trim_ascii().is_empty());
        let is_begun = !bytes.trim_ascii().is_empty();
        // What is no text is told below.
        if is_begun && (is_empty || !core::str::from_utf8(&bytes).is_ok_and(&lacks)) {
            break;
        }
    }
    let secret = core::str::from_utf8(&bytes).map_err(|_| Failure::usage(other))?.trim();
    if secret.is_empty() {
        return Err(Failure::usage(format!("there is no {what} on standard input")));
    }
    Ok(Private::new(secret))
}

#[cfg(test)]
mod tests {
    use sotto_protocol::TEXT_MAX;
    use tokio::io::BufReader;
    use zeroize::Zeroizing;

    use super::{KEPT_MAX, Line, Lines};

    async fn lines(bytes: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(7, bytes));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            assert!(lines.kept.capacity() == KEPT_MAX);
            all.push(line);
        }
        all
    }

    fn text(text: &str) -> Line {
        Line::Text(Zeroizing::new(text.to_owned()))
    }

    #[tokio::test]
    async fn a_line_that_is_no_text_does_not_end_the_input() {
        let read = lines(b"one\r\nt\xffwo\n\n  three \nfour").await;
        assert_eq!(read, [text("one"), Line::NotText, text(""), text("  three "), text("four")]);
        assert_eq!(lines(b"").await, []);
        assert_eq!(lines(b"\xff").await, [Line::NotText]);
    }

    #[tokio::test]
    async fn of_a_line_that_is_too_long_the_rest_is_passed_over() {
        let longest = "x".repeat(TEXT_MAX);
        let input =
            format!("{longest}\n{longest}\r\n{longest}x\n{longest}{longest}{longest}\nshort\n{longest}xy");
        let expected =
            [text(&longest), text(&longest), Line::TooLong, Line::TooLong, text("short"), Line::TooLong];
        assert_eq!(lines(input.as_bytes()).await, expected);
    }
}
