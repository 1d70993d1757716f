//! The passphrase with which a state is closed: where it comes from, and how it is set.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::failure::Failure;
use super::link::Link;
use super::print::status;
use super::state;
use crate::daemon::news::{self, News};
use crate::device::attached;
use crate::store::passphrase::{PASSPHRASE_BYTES_MAX, PASSPHRASE_CHARACTERS_MIN};
use crate::{Passphrase, Store};

/// Names a file with the passphrase on its first line, for those who cannot type it.
const FILE_VARIABLE: &str = "SOTTO_PASSPHRASE_FILE";

/// The passphrase of the state in that file, if one is named.
pub(super) fn of_file() -> Result<Option<Passphrase>, Failure> {
    let path = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty());
    path.map(|path| from_file(Path::new(&path))).transpose()
}

/// What the person types as the passphrase of the state; None if there is no terminal, and so nobody who could be asked.
pub(super) fn ask() -> Result<Option<Passphrase>, Failure> {
    match typed("passphrase of the state: ") {
        Ok(typed) => Ok(Some(typed)),
        Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::UnexpectedEof) => {
            Err(Failure::state("no passphrase was typed").coded("store-closed"))
        }
        Err(_) => Ok(None),
    }
}

/// Inside a runtime.
fn typed(prompt: &str) -> io::Result<Passphrase> {
    // Otherwise Ctrl-C would end the process before the terminal shows again what is typed.
    #[cfg(unix)]
    let _not_ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    rpassword::prompt_password(prompt).map(|typed| Passphrase::new(Zeroizing::new(typed)))
}

fn from_file(path: &Path) -> Result<Passphrase, Failure> {
    let problem = |error: io::Error| {
        Failure::state(format!("cannot read the passphrase in {}: {error}", path.display()))
            .coded("passphrase-file")
    };
    let file = File::open(path).map_err(problem)?;
    if file.metadata().map_err(problem)?.is_dir() {
        return Err(problem(io::ErrorKind::IsADirectory.into()));
    }
    closed_to_others(path, &file).map_err(problem)?;
    first_line(file).map_err(problem)
}

#[cfg(unix)]
fn closed_to_others(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match file.metadata()?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => {
            Err(io::Error::other(format!("others can read it; close it with: chmod 600 {}", path.display())))
        }
    }
}

#[cfg(not(unix))]
fn closed_to_others(_: &Path, _: &File) -> io::Result<()> {
    Ok(())
}

/// The first line of an input, without its end.
pub(super) fn first_line(input: impl Read) -> io::Result<Passphrase> {
    // Never grown, so that no copy stays behind.
    let mut line = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES_MAX + 2));
    let mut input = BufReader::with_capacity(1, input).take(PASSPHRASE_BYTES_MAX as u64 + 2);
    input.read_until(b'\n', &mut line)?;
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let text =
        core::str::from_utf8(&line).map_err(|_| wrong("it is no UTF-8"))?.trim_end_matches(['\r', '\n']);
    if text.len() > PASSPHRASE_BYTES_MAX {
        return Err(wrong("it is longer than 1,024 bytes"));
    }
    Ok(Passphrase::new(Zeroizing::new(text.to_owned())))
}

/// Closes the state with a passphrase, or another one, or opens it for good.
pub(super) async fn set(home: Option<PathBuf>, remove: bool) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    attached::refuse(&directory)?;
    offline(&directory).await?;
    // A person may take as long as they like: nobody else waits for that, and the passphrase of before is typed once.
    drop(state::open_any(&directory)?);
    let passphrase = if remove { None } else { Some(new(None)?) };
    let _starting = Store::starting(&directory).await?;
    offline(&directory).await?;
    let (mut store, snapshot) = state::open_any(&directory)?;
    let client = state::restore(store.directory(), &snapshot)?;
    let was_closed = store.has_passphrase();
    store.set_passphrase(passphrase.as_ref())?;
    // First, for it is sealed under a key that the state holds; what cannot be read must not stay in the open.
    if let Err(error) = News::seal_old(&directory, &client, was_closed) {
        news::forget(&directory)?;
        status(&format!("warning: what waited to be told could not be read, and is removed: {error}"));
    }
    store.save(&snapshot)?;
    let directory = directory.display();
    status(&match remove {
        true => format!("the state in {directory} is open now: whoever has the disk has the account"),
        false => format!(
            "the state in {directory} is closed with the passphrase now; without it nobody opens it again, you included. \
             What the disk and your backups kept of before is not closed"
        ),
    });
    Ok(())
}

/// # Errors
/// If the participant runs, and has the state.
async fn offline(directory: &Path) -> Result<(), Failure> {
    match Link::reach(directory).await? {
        Some(_) => {
            Err(Failure::state("you are online: 'sotto stop' first, and then 'sotto passphrase' once more"))
        }
        None => Ok(()),
    }
}

/// The passphrase of an export: in the file that is named, typed, or the first line of an input that is no terminal.
pub(super) fn of_export(named: Option<&Path>) -> Result<Passphrase, Failure> {
    if let Some(named) = named {
        return from_file(named);
    }
    let read = match io::stdin().is_terminal() {
        true => typed("passphrase of the copy: "),
        false => first_line(io::stdin().lock()),
    };
    read.map_err(|error| Failure::usage(format!("cannot read the passphrase: {error}")))
}

/// A new one: in the file that is named, typed twice, or the first line of an input that is no terminal.
pub(super) fn new(named: Option<&Path>) -> Result<Passphrase, Failure> {
    let unread = |error: io::Error| Failure::usage(format!("cannot read the new passphrase: {error}"));
    let passphrase = if let Some(named) = named {
        from_file(named)?
    } else if io::stdin().is_terminal() {
        let passphrase = typed("new passphrase: ").map_err(unread)?;
        if typed("once more: ").map_err(unread)?.as_str() != passphrase.as_str() {
            return Err(Failure::usage("these were two; nothing was changed"));
        }
        passphrase
    } else {
        first_line(io::stdin().lock()).map_err(unread)?
    };
    let (characters, bytes) = (passphrase.as_str().chars().count(), passphrase.as_str().len());
    if characters < PASSPHRASE_CHARACTERS_MIN || bytes > PASSPHRASE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "a passphrase has {PASSPHRASE_CHARACTERS_MIN} characters or more, and at most {PASSPHRASE_BYTES_MAX} bytes; six \
             words drawn by chance are a good one"
        )));
    }
    Ok(passphrase)
}

#[cfg(test)]
mod tests {
    use super::first_line;

    #[test]
    fn a_passphrase_is_a_line_to_the_byte() {
        let line = |input: &[u8]| first_line(input).map(|line| line.as_str().to_owned());
        assert_eq!(line(b" six words \r\nmore").unwrap(), " six words ");
        assert_eq!(line(b"").unwrap(), "");
        assert_eq!(line(&[b'x'; 1024]).unwrap().len(), 1024);
        assert!(line(&[b'x'; 1025]).is_err() && line(b"\xff").is_err());
    }
}
