//! Removing everything of an account from a directory, as far as a program can.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rand::Rng as _;
use sotto_files::sync_directory;

use super::{DEVICES, JOINING, LOCK, NODES, STARTING, STATE};

/// What programs of an account write into its directory, what matters most first. Whoever adds a file adds it here
/// (`nothing_is_left_of_an_account_that_is_wiped`).
const FILES: [&str; 10] = [
    STATE,
    crate::device::attached::FILE,
    DEVICES,
    crate::daemon::history::FILE,
    crate::daemon::news::FILE,
    JOINING,
    NODES,
    crate::daemon::SOCKET,
    // Last: as long as they are there, nobody else comes.
    STARTING,
    LOCK,
];
/// Where files are that contacts have sent.
const RECEIVED: &str = crate::daemon::received::DIRECTORY;
/// What is behind the name of a file while it is written.
const WRITING: &str = ".new";
/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Wiped {
    /// Files that were removed.
    pub(crate) files: usize,
    /// Files that are overwritten and empty, and could not be removed.
    pub(crate) emptied: usize,
    /// Those that could not be removed, or not overwritten, and why.
    pub(crate) left: Vec<(PathBuf, io::Error)>,
    /// Links in the place of directories, which were removed, and where they lead: nothing there was touched.
    pub(crate) passed_over: Vec<(PathBuf, PathBuf)>,
}

/// Overwrites and removes what programs of an account have written into a directory, and the directory if nothing else is in it.
/// Whatever goes wrong with one file, all others are removed.
pub(crate) fn wipe(directory: &Path) -> Wiped {
    let mut wiped = Wiped::default();
    let found = match fs::read_dir(directory) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return wiped,
        Err(error) => {
            wiped.left.push((directory.to_owned(), error));
            return wiped;
        }
    };
    let mut ours: Vec<(usize, PathBuf)> = found
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            rank(name.to_str()?).map(|rank| (rank, entry.path()))
        })
        .collect();
    let received = directory.join(RECEIVED);
    if let Ok(leads) = fs::read_link(&received) {
        ours.push((FILES.len() - 3, received.clone()));
        wiped.passed_over.push((received.clone(), leads));
    }
    // Whatever came there, but not where a link leads.
    let is_ours = fs::symlink_metadata(&received).is_ok_and(|received| received.is_dir());
    let came = is_ours.then(|| fs::read_dir(&received)).into_iter().flatten().flatten().flatten();
    let came = came.map(|entry| entry.path());
    ours.extend(came.map(|path| (FILES.len() - 3, path)));
    ours.sort();
    for (_, path) in ours {
        match remove(&path) {
            Ok(()) => wiped.files += 1,
            Err((emptied, error)) => {
                wiped.emptied += usize::from(emptied);
                wiped.left.push((path, error));
            }
        }
    }
    let _ = fs::remove_dir(&received);
    // One with something of somebody else's in it stays, and names are gone from it.
    if fs::remove_dir(directory).is_err() {
        let _ = sync_directory(directory);
    } else if let Some(parent) = directory.parent() {
        let _ = sync_directory(parent);
    }
    wiped
}

/// Which file of ours it is, by its name.
fn rank(name: &str) -> Option<usize> {
    let name = name.strip_suffix(WRITING).unwrap_or(name);
    let is_proof = name.starts_with("proof-") && name.ends_with(".sotto");
    FILES.iter().position(|ours| *ours == name).or_else(|| is_proof.then_some(FILES.len() - 3))
}

/// Overwrites a file with random bytes, once: more often changes nothing on any disk of today. What is no file is only removed. With an
/// error, whether it is empty all the same.
fn remove(path: &Path) -> Result<(), (bool, io::Error)> {
    let is_file = fs::symlink_metadata(path).map_err(|error| (false, error))?.is_file();
    let overwritten = if is_file { overwrite(path) } else { Ok(()) };
    fs::remove_file(path).map_err(|error| (is_file && overwritten.is_ok(), error))?;
    overwritten.map_err(|error| (false, error))
}

fn overwrite(path: &Path) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).open(path)?;
    let mut left = file.metadata()?.len();
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let mut chunk = vec![0; CHUNK];
    while left > 0 {
        let bytes = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let chunk = chunk.get_mut(..bytes).unwrap_or_default();
        rng.fill_bytes(chunk);
        file.write_all(chunk)?;
        left = left.saturating_sub(bytes as u64);
    }
    file.sync_all()?;
    file.set_len(0)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;

    use super::wipe;

    #[test]
    fn what_is_ours_is_overwritten_and_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("home");
        fs::create_dir_all(directory.join("received")).unwrap();
        let secret = "precious ".repeat(20_000);
        for name in [
            "state",
            "state.new",
            "joining",
            "nodes",
            "news",
            "history",
            "history.new",
            "received/cat.png",
            "devices",
            "attached",
            "lock",
            "starting",
            "proof-7.sotto",
        ] {
            fs::write(directory.join(name), &secret).unwrap();
        }
        fs::write(directory.join("holiday.jpg"), &secret).unwrap();
        fs::write(home.path().join("elsewhere"), &secret).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(home.path().join("elsewhere"), directory.join("socket")).unwrap();
        // As something that keeps reading it.
        let mut open = fs::File::open(directory.join("state")).unwrap();
        fs::hard_link(directory.join("nodes"), home.path().join("linked")).unwrap();
        let wiped = wipe(&directory);
        assert!(wiped.left.is_empty() && wiped.passed_over.is_empty(), "{wiped:?}");
        assert_eq!(wiped.files, if cfg!(unix) { 14 } else { 13 });
        let left: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["holiday.jpg"]);
        assert_eq!(fs::read_to_string(home.path().join("elsewhere")).unwrap(), secret);
        let mut rest = Vec::new();
        open.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty() && fs::read(home.path().join("linked")).unwrap().is_empty());

        // Somebody keeps what comes elsewhere: that is told, and left alone.
        #[cfg(unix)]
        {
            let elsewhere = home.path().join("pictures");
            fs::create_dir(&elsewhere).unwrap();
            fs::write(elsewhere.join("cat.png"), &secret).unwrap();
            std::os::unix::fs::symlink(&elsewhere, directory.join("received")).unwrap();
            let wiped = wipe(&directory);
            assert_eq!(
                (wiped.files, wiped.passed_over),
                (1, vec![(directory.join("received"), elsewhere.clone())])
            );
            assert_eq!(fs::read_to_string(elsewhere.join("cat.png")).unwrap(), secret);
        }
        fs::remove_file(directory.join("holiday.jpg")).unwrap();
        assert_eq!(wipe(&directory).files, 0);
        assert!(!directory.exists());
        assert_eq!(wipe(&directory).files, 0);
    }
}
