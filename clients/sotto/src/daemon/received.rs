//! Where files are put that came: a directory beside the state, under names that cannot lead elsewhere, and never over another.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::parcel::Parcel;
use super::reply::beginning;
use crate::cli::print::harmless_character;

pub(crate) const DIRECTORY: &str = "received";
/// Of a name, without the number that tells it from others.
const NAME_BYTES: usize = 100;
/// Files of one name that are told apart by a number; further ones by what is in them.
const ALIKE_MAX: u32 = 100;

/// Puts a file there; where it is. When this returns, it is on the disk. One of the same name and content that is there already
/// is taken for it: so it does not matter when a process dies.
///
/// # Errors
/// What the operating system refuses.
pub(super) fn save(home: &Path, parcel: &Parcel) -> io::Result<PathBuf> {
    let directory = home.join(DIRECTORY);
    make(&directory)?;
    let name = harmless_name(parcel.name());
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name.as_str(), String::new()),
    };
    for number in 1..=ALIKE_MAX + 1 {
        let alike = match number {
            1 => name.clone(),
            number if number <= ALIKE_MAX => format!("{stem}-{number}{extension}"),
            _ => format!("{stem}-{}{extension}", parcel.file()),
        };
        let path = directory.join(alike);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(there) => {
                let is_it = there.is_file()
                    && there.len() == parcel.content().len() as u64
                    && fs::read(&path)? == parcel.content();
                if is_it {
                    return Ok(path);
                }
                continue;
            }
        }
        // Whole or not at all, readable for its owner alone, and not over what somebody else puts there now.
        let mut file = tempfile::NamedTempFile::new_in(&directory)?;
        file.write_all(parcel.content())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(&path) {
            Ok(_) => {
                sotto_files::sync_directory(&directory)?;
                return Ok(path);
            }
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(failed) => return Err(failed.error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is another file of that name"))
}

/// A name that is one in any directory: without separators, controls, and what a system or a shell takes for something else.
fn harmless_name(name: &str) -> String {
    let harmless = |character: char| match harmless_character(character) {
        '/' | '\\' | ':' | '<' | '>' | '"' | '|' | '?' | '*' | '\u{fffd}' => '_',
        other => other,
    };
    let name: String = name.chars().map(harmless).collect();
    // Neither hidden, nor an option, nor the directory itself.
    let name = name.trim_start_matches([' ', '.', '-']).trim_end_matches([' ', '.']);
    // What stands behind the last dot says what it is, and stays.
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= 16 => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    let stem = beginning(stem, NAME_BYTES).trim_end();
    match stem {
        "" => format!("file{extension}"),
        stem => format!("{stem}{extension}"),
    }
}

#[cfg(unix)]
fn make(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{harmless_name, save};
    use crate::daemon::parcel::Parcel;

    #[test]
    fn a_name_leads_nowhere_else() {
        for (name, harmless) in [
            ("report.pdf", "report.pdf"),
            ("../../.ssh/authorized_keys", "_.._.ssh_authorized_keys"),
            ("/etc/passwd", "_etc_passwd"),
            ("a\u{0}b\nc\u{202e}d.txt", "a_b_c_d.txt"),
            ("..", "file"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("-.config.json", "config.json"),
            (". - .-x.y", "x.y"),
            ("c:\\nul", "c__nul"),
            ("é ü.png", "é ü.png"),
        ] {
            assert_eq!(harmless_name(name), harmless, "{name:?}");
        }
        let long = harmless_name(&format!("{}.tar", "ä".repeat(120)));
        assert!(long.len() <= 104 && long.ends_with(".tar"));
    }

    #[test]
    fn however_many_are_of_one_name_there_is_room_for_the_next() {
        let home = tempfile::tempdir().unwrap();
        let parcel = |number: u32| Parcel::new("a.txt", number.to_le_bytes().to_vec()).unwrap();
        let paths: std::collections::BTreeSet<_> =
            (0..super::ALIKE_MAX + 10).map(|number| save(home.path(), &parcel(number)).unwrap()).collect();
        assert_eq!(paths.len(), super::ALIKE_MAX as usize + 10);
        assert!(paths.contains(&save(home.path(), &parcel(super::ALIKE_MAX + 5)).unwrap()));
    }

    #[test]
    fn nothing_is_written_over_and_the_same_is_there_once() {
        let home = tempfile::tempdir().unwrap();
        let parcel = |content: &[u8]| Parcel::new("a.txt", content.to_vec()).unwrap();
        let first = save(home.path(), &parcel(b"one")).unwrap();
        assert!(first.ends_with("received/a.txt"));
        assert_eq!(save(home.path(), &parcel(b"one")).unwrap(), first);
        let second = save(home.path(), &parcel(b"two")).unwrap();
        assert!(second.ends_with("received/a-2.txt"));
        assert_eq!(
            (fs::read(&first).unwrap(), fs::read(&second).unwrap()),
            (b"one".to_vec(), b"two".to_vec())
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt as _, symlink};
            assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o600);
            let elsewhere = home.path().join("elsewhere");
            fs::remove_file(&first).unwrap();
            symlink(&elsewhere, &first).unwrap();
            let third = save(home.path(), &parcel(b"one")).unwrap();
            assert!(third.ends_with("received/a-3.txt") && !elsewhere.exists());
        }
        assert_eq!(fs::read_dir(home.path().join("received")).unwrap().count(), 3);
    }
}
