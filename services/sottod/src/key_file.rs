//! Files that keep keys across restarts: a seed in lower-case base32, 52 characters and a new line.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rand::TryRng;
use rand::rngs::SysRng;
use sotto_files::replace;
use sotto_protocol::base32::BASE32;
use zeroize::Zeroizing;

/// Characters of an encoded seed.
const CHARACTERS: usize = 52;

/// The seed in a file, if there is one.
pub(crate) fn load_key(path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>, KeyFileError> {
    match fs::File::open(path) {
        Ok(file) => load(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file with a fresh seed, readable by its owner only. A crash leaves the whole file or none.
pub(crate) fn create_key(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    let mut seed = Zeroizing::new([0; 32]);
    SysRng.try_fill_bytes(seed.as_mut_slice()).map_err(|_| KeyFileError::Randomness)?;
    let mut line = Zeroizing::new(BASE32.encode(seed.as_slice()));
    line.push('\n');
    replace(path, line.as_bytes(), 0o600)?;
    Ok(seed)
}

/// Whether nobody but its owner can read or change a file.
pub(crate) fn is_private(file: &fs::File) -> io::Result<bool> {
    Ok(file.metadata()?.permissions().mode() & 0o077 == 0)
}

fn load(file: fs::File) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    if !is_private(&file)? {
        return Err(KeyFileError::Exposed);
    }
    let mut line = Zeroizing::new(String::with_capacity(CHARACTERS + 2));
    file.take(CHARACTERS as u64 + 2).read_to_string(&mut line)?;
    let bytes =
        Zeroizing::new(BASE32.decode(line.trim_end().as_bytes()).map_err(|_| KeyFileError::Malformed)?);
    let seed = bytes.as_slice().try_into().map_err(|_| KeyFileError::Malformed)?;
    Ok(Zeroizing::new(seed))
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Reading or writing failed.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Others can read it.
    #[error("others can read it; make it private with chmod 600")]
    Exposed,
    /// It holds something else.
    #[error("it does not hold a key; restore it from a backup")]
    Malformed,
    /// No key can be drawn.
    #[error("the operating system gives no randomness")]
    Randomness,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{KeyFileError, create_key, load_key};

    #[test]
    fn a_key_survives_a_restart_and_nobody_else_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert!(load_key(&path).unwrap().is_none());
        let seed = create_key(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(*load_key(&path).unwrap().unwrap(), *seed);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load_key(&path), Err(KeyFileError::Exposed)));
    }

    #[test]
    fn a_file_with_something_else_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        for content in ["", "no key\n", &"a".repeat(1000)] {
            let path = directory.path().join("other");
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(load_key(&path), Err(KeyFileError::Malformed)));
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
