//! What a device keeps of the participant it is paired with, and how it comes to it.

use core::time::Duration;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sotto_protocol::base32::BASE32;
use tokio::io::{AsyncWriteExt as _, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

use super::code::{Code, is_authority};
use super::key::{Key, Public, no_name};
use super::pairing::{Pair, Paired};
use crate::cli::failure::Failure;
use crate::daemon::frame::{self, Frames};
use crate::daemon::message::Private;

pub(crate) const FILE: &str = "attached";
/// More than a file has.
const BYTES_MAX: u64 = 4096;
/// For a connection, and for what is said over it first.
const PATIENCE: Duration = Duration::from_secs(10);

/// The participant of a device.
pub(crate) struct Attached {
    /// Host and port.
    pub(crate) authority: String,
    participant: Public,
    key: Key,
}

/// The same in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u8,
    authority: String,
    participant: String,
    key: Private,
}

const VERSION: u8 = 1;

/// Whether a directory is that of a device.
pub(crate) fn is_there(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// Refuses what is done where the account is.
///
/// # Errors
/// If a directory is that of a device.
pub(crate) fn refuse(directory: &Path) -> Result<(), Failure> {
    match is_there(directory) {
        true => Err(Failure::state(format!(
            "{} is a paired device: that is done where its 'sotto run' is, or in another directory, which --home names",
            directory.display()
        ))
        .coded("device-only-there")),
        false => Ok(()),
    }
}

impl Attached {
    /// Of a directory, if it is that of a device.
    pub(crate) fn of(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = directory.join(FILE);
        let unread = |why: &str| Failure::state(format!("cannot read {}: {why}", path.display()));
        let bytes = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(&error.to_string())),
            Ok(found) if !found.is_file() || found.len() > BYTES_MAX => {
                return Err(unread("it is none of ours"));
            }
            Ok(_) => Zeroizing::new(fs::read(&path).map_err(|error| unread(&error.to_string()))?),
        };
        let kept: Kept = serde_json::from_slice(&bytes).map_err(|_| unread("it was changed"))?;
        if kept.version != VERSION {
            return Err(unread("it was written by another version of sotto"));
        }
        let participant = decode(&kept.participant).map(|key| *key);
        let key = decode(&kept.key.0).map(Key::from_secret);
        match participant.zip(key).filter(|_| is_authority(&kept.authority)) {
            Some((participant, key)) => Ok(Some(Self { authority: kept.authority, participant, key })),
            None => Err(unread("it was changed")),
        }
    }

    /// Pairs this machine under a name with the participant of a code, and keeps in a directory what it takes to come again.
    pub(crate) async fn pair(directory: &Path, code: &Code, name: &str) -> Result<(Self, String), Failure> {
        let attached =
            Self { authority: code.authority.clone(), participant: code.participant, key: Key::new() };
        let secret = Private(Zeroizing::new(BASE32.encode(&code.secret[..])));
        let asking = async {
            let stream = attached.connect().await?;
            let (input, mut output) = split(stream);
            let mut frames = Frames::new(input, frame::AWAY);
            let asked = frame::write(&mut output, &Pair { secret, name: name.to_owned() }, frame::AWAY).await;
            let answered = match asked {
                Ok(()) => frames.next::<Paired>().await,
                Err(error) => Err(error),
            };
            // One that waits for no device ends the connection.
            let answer = answered.ok().flatten().unwrap_or(Paired::WrongCode);
            let _ = output.shutdown().await;
            Ok::<_, Failure>(answer)
        };
        let answer = timeout(PATIENCE, asking)
            .await
            .unwrap_or_else(|_| Err(attached.unreachable("it says nothing")))?;
        match answer {
            Paired::Welcome { of } => {
                attached.keep(directory)?;
                Ok((attached, of))
            }
            Paired::WrongCode => Err(Failure::other(
                "the code was not taken: it serves once, for some minutes; 'sotto pair' there makes another one",
            )
            .coded("device-code")),
            Paired::NameTaken => Err(Failure::other(format!(
                "another device is called {name} there; choose another --name, or revoke that one first"
            ))
            .coded("device-name")),
            Paired::NameRefused => Err(Failure::usage("that is no name of a device").coded("device-name")),
            Paired::Full => Err(Failure::other("there are too many devices; revoke one there first").coded("device-full")),
            Paired::NotKept => Err(Failure::other("the participant could not keep the device; look at its disk")),
        }
    }

    fn keep(&self, directory: &Path) -> Result<(), Failure> {
        let path = directory.join(FILE);
        let kept = Kept {
            version: VERSION,
            authority: self.authority.clone(),
            participant: BASE32.encode(&self.participant),
            key: Private(Zeroizing::new(BASE32.encode(self.key.secret()))),
        };
        let written = serde_json::to_vec(&kept).map_err(io::Error::other);
        let written = written.and_then(|bytes| sotto_files::replace(&path, &Zeroizing::new(bytes), 0o600));
        written.map_err(|error| {
            Failure::state(format!(
                "the device is paired and cannot keep it ({}: {error}): revoke it there, and pair again",
                path.display()
            ))
        })
    }

    /// A connection to the participant, and to nobody else.
    ///
    /// # Errors
    /// If nobody is there, or somebody else. That the participant does not know this device shows with the first frame.
    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let connecting = async {
            let stream = TcpStream::connect(&self.authority).await?;
            super::prepare(&stream)?;
            let config = self.key.client_config(self.participant).map_err(io::Error::other)?;
            TlsConnector::from(config).connect(no_name(), stream).await
        };
        let connected = timeout(PATIENCE, connecting).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.unreachable(&error.to_string()))
    }

    /// What a person is told.
    pub(crate) fn unreachable(&self, why: &str) -> Failure {
        Failure::unreachable(format!(
            "cannot reach the participant at {}: {why}; is 'sotto run --listen' online there?",
            self.authority
        ))
        .coded("device-unreachable")
    }

    /// The same of one that ended the connection at once.
    pub(crate) fn refused(&self) -> Failure {
        Failure::unreachable(format!(
            "the participant at {} ended the connection: it has ended, serves no more devices at once, or has revoked this one \
             ('sotto devices' there)",
            self.authority
        ))
        .coded("device-refused")
    }
}

fn decode(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let bytes = Zeroizing::new(BASE32.decode(text.as_bytes()).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}
