//! What passes between client and server: a kind, a length, and as many bytes.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Of the kind and the length.
pub(super) const HEADER_BYTES: usize = 5;

/// What a client asks for, and what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing, to see how long that takes.
    Ping,
    /// Public keys, for all queries that follow on the connection.
    Keys,
    /// A query, for an answer.
    Query,
    /// The first so many bytes of the database, eight bytes, little-endian.
    Download,
    /// What was asked for.
    Done,
    /// Why it was not done, as text.
    Refused,
}

const KINDS: [Kind; 6] = [Kind::Ping, Kind::Keys, Kind::Query, Kind::Download, Kind::Done, Kind::Refused];

pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    body: &[u8],
) -> anyhow::Result<()> {
    let length = u32::try_from(body.len()).context("a message of more than 4 GiB")?;
    let mut header = [0; HEADER_BYTES];
    header[0] = KINDS.iter().position(|of| *of == kind).context("no such kind")? as u8;
    header[1..].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&header).await?;
    stream.write_all(body).await?;
    Ok(())
}

/// Kind and length of the next message, or nothing at the end of the stream.
pub(super) async fn read_header(
    stream: &mut (impl AsyncRead + Unpin),
) -> anyhow::Result<Option<(Kind, usize)>> {
    let mut header = [0; HEADER_BYTES];
    if stream.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[1..]).await?;
    let [kind, length @ ..] = header;
    let kind = *KINDS.get(usize::from(kind)).context("a message of an unknown kind")?;
    Ok(Some((kind, u32::from_le_bytes(length) as usize)))
}

/// A whole message of at most so many bytes, or nothing at the end of the stream.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> anyhow::Result<Option<(Kind, Vec<u8>)>> {
    let Some((kind, length)) = read_header(stream).await? else { return Ok(None) };
    ensure!(length <= most, "a message of {length} bytes where at most {most} are expected");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some((kind, body)))
}

/// The header of what was asked for; an error where it was refused.
pub(super) async fn read_done(stream: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<usize> {
    match read_header(stream).await?.context("the server has closed the connection")? {
        (Kind::Done, length) => Ok(length),
        (Kind::Refused, length) => {
            let mut reason = Vec::new();
            stream.take(length as u64).read_to_end(&mut reason).await?;
            bail!("the server refuses: {}", String::from_utf8_lossy(&reason))
        }
        _ => bail!("an answer of the wrong kind"),
    }
}
