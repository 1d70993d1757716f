//! A copy of a state that is kept aside, under a passphrase of its own. It opens nowhere but in [`read`]: whoever goes on from it
//! [begins anew](sotto_protocol::Client::begin_anew).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::Path;

use zeroize::Zeroizing;

use super::format::{self, Problem};
use super::passphrase::{Key, Passphrase};
use super::private;
use crate::Address;

/// More than any state has.
const BYTES_MAX: u64 = 1 << 29;

/// Why an export is not written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// Something lies there: a copy that is older may be the only one.
    #[error("{0} is there already; name another file")]
    Exists(String),
    #[error("the export in {0} is damaged ({1})")]
    Damaged(String, &'static str),
    #[error("the export in {0} was written by a newer sotto; update this one")]
    Newer(String),
    #[error("that is not the passphrase of the export in {0}")]
    Passphrase(String),
    #[error("not enough memory for the passphrase of {0}: it takes {1} MiB")]
    Memory(String, u32),
    #[error("{0} is no file")]
    NoFile(String),
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
}

impl ExportError {
    fn of(problem: Problem, path: &Path) -> Self {
        let path = path.display().to_string();
        match problem {
            Problem::Damaged(what) => Self::Damaged(path, what),
            Problem::Newer => Self::Newer(path),
            Problem::Passphrase => Self::Passphrase(path),
            Problem::Memory(memory) => Self::Memory(path, memory),
        }
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.display().to_string();
        move |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists(path),
            _ => Self::Io { action, path, source },
        }
    }

    /// A name of the reason for programs, as [`StoreError::code`].
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Exists(_) => "export-exists",
            Self::Damaged(..) => "export-damaged",
            Self::Newer(_) => "export-newer",
            Self::Passphrase(_) => "export-passphrase",
            Self::Memory(..) => "export-memory",
            Self::NoFile(_) => "export-no-file",
            Self::Io { .. } => "export-io",
        }
    }
}

/// Writes a state to a new file that nobody else can read. When this returns, it is on the disk.
pub(crate) fn write(
    path: &Path,
    (address, snapshot): (&Address, &[u8]),
    passphrase: &Passphrase,
) -> Result<(), ExportError> {
    let key = Key::new(passphrase).map_err(|problem| ExportError::of(problem, path))?;
    let bytes = format::encode_export(address, snapshot, &key);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    let mut file = options.open(path).map_err(ExportError::io("make", path))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| sotto_files::sync_directory(directory));
    if written.is_err() {
        // Half of one is none.
        let _ = fs::remove_file(path);
    }
    written.map_err(ExportError::io("write", path))
}

/// An export as it lies there, closed.
pub(crate) struct Export<'path> {
    path: &'path Path,
    bytes: Zeroizing<Vec<u8>>,
}

impl<'path> Export<'path> {
    /// Reads what a file has, if it begins like an export: nothing else is read as a whole, or waited for.
    pub(crate) fn read(path: &'path Path) -> Result<Self, ExportError> {
        let io = |action| ExportError::io(action, path);
        // Opening a pipe waits for somebody who writes to it.
        if !fs::metadata(path).map_err(io("open"))?.is_file() {
            return Err(ExportError::NoFile(path.display().to_string()));
        }
        Self::read_from(File::open(path).map_err(io("open"))?, path)
    }

    fn read_from(mut input: impl Read, path: &'path Path) -> Result<Self, ExportError> {
        let io = |action| ExportError::io(action, path);
        let mut bytes = Zeroizing::new(Vec::new());
        let beginning = format::EXPORT_BEGINNING_BYTES as u64;
        input.by_ref().take(beginning).read_to_end(&mut bytes).map_err(io("read"))?;
        format::check_export(&bytes).map_err(|problem| ExportError::of(problem, path))?;
        input.take(BYTES_MAX).read_to_end(&mut bytes).map_err(io("read"))?;
        Ok(Self { path, bytes })
    }

    /// The server's address, the client's snapshot, and the key that opened it.
    pub(crate) fn open(
        &self,
        passphrase: &Passphrase,
    ) -> Result<(Address, Zeroizing<Vec<u8>>, Key), ExportError> {
        let problem = |problem| ExportError::of(problem, self.path);
        let closed = format::decode_export(&self.bytes).map_err(problem)?;
        let (key, body) = closed.open(passphrase).map_err(problem)?;
        let (address, snapshot) = format::decode_body(&body).map_err(problem)?;
        Ok((address, Zeroizing::new(snapshot.to_vec()), key))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zeroize::Zeroizing;

    use super::{Export, ExportError, write};
    use crate::Address;
    use crate::store::passphrase::Key;
    use crate::testing::address;
    use crate::{Passphrase, Store, StoreError};
    use std::path::Path;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(Zeroizing::new(text.to_owned()))
    }

    fn read(path: &Path, passphrase: &Passphrase) -> Result<(Address, Zeroizing<Vec<u8>>, Key), ExportError> {
        Export::read(path)?.open(passphrase)
    }

    /// What only goes on and on must not be taken into memory, and what has no end not be waited for.
    #[cfg(unix)]
    #[test]
    fn attack_what_is_no_export_is_not_read() {
        for none in ["/dev/zero", "/dev", "/proc/self/fd"] {
            let refused = Export::read(Path::new(none)).err().unwrap();
            assert!(matches!(refused, ExportError::NoFile(_)), "{none}: {refused}");
        }
        struct Endless(usize);
        impl std::io::Read for Endless {
            fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
                assert!(self.0 < 100, "more is read than how an export begins");
                self.0 += bytes.len();
                bytes.fill(0);
                Ok(bytes.len())
            }
        }
        let refused = Export::read_from(Endless(0), Path::new("endless")).err().unwrap();
        assert!(matches!(refused, ExportError::Damaged(_, "it is no export")), "{refused}");
    }

    /// A program that took it for a state would go on with keys that have served.
    #[test]
    fn an_export_opens_with_its_passphrase_and_never_as_a_state() {
        let home = tempfile::tempdir().unwrap();
        let (path, right) = (home.path().join("copy"), passphrase("correct horse"));
        write(&path, (&address(), b"the account of alice"), &right).unwrap();
        let (server, snapshot, _) = read(&path, &right).unwrap();
        assert_eq!((server, &snapshot[..]), (address(), &b"the account of alice"[..]));
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"alice"));
        let again = write(&path, (&address(), b"another"), &right);
        assert!(matches!(again, Err(ExportError::Exists(_))) && fs::read(&path).unwrap() == bytes);
        let wrong = read(&path, &passphrase("correct house")).err().unwrap();
        assert!(matches!(wrong, ExportError::Passphrase(_)), "{wrong}");

        // As it is, and with the beginning of a closed state in the place of its own.
        let moved = [&b"sotto state\x02"[..], &bytes[13..]].concat();
        for state in [&bytes, &moved] {
            fs::write(home.path().join("state"), state).unwrap();
            let refused = Store::open_with(home.path(), Some(&right)).unwrap_err();
            assert!(matches!(refused, StoreError::Damaged { .. } | StoreError::Passphrase(_)), "{refused}");
        }
        for cut in (0..bytes.len()).step_by(97) {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert!(matches!(read(&path, &right), Err(ExportError::Damaged(..))), "cut at {cut}");
        }
        let mut newer = bytes.clone();
        newer[12] = 2;
        fs::write(&path, newer).unwrap();
        assert!(matches!(read(&path, &right), Err(ExportError::Newer(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path, &right), Err(ExportError::Io { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("copy");
        write(&path, (&address(), b"x"), &passphrase("correct horse")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
