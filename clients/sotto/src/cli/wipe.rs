//! Removing everything at once, without the server.

use core::time::Duration;
use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use tokio::time::{Instant, sleep};

use super::failure::Failure;
use super::print::status;
use super::state;
use crate::daemon;
use crate::store::wipe::{self, Wiped};
use crate::{Store, StoreError};

/// What a person types to mean it.
const MEANT: &str = "wipe";
/// How long a participant that was ended may take to be gone, and another program to be done.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn wipe(home: Option<PathBuf>, yes: bool) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    if !yes {
        ask(&directory)?;
    }
    end_participant(&directory).await;
    // So that nobody comes online meanwhile, or writes what was removed.
    let alone = alone(&directory).await;
    let far = daemon::forget_socket(&directory);
    let Wiped { files, emptied, mut left, passed_over } = wipe::wipe(&directory);
    left.extend(far.err());
    for (path, error) in &left {
        status(&format!("warning: cannot wipe {}: {error}", path.display()));
    }
    for (path, leads) in &passed_over {
        status(&format!(
            "warning: {} is a link to {}: the link is removed, and what is there is not wiped",
            path.display(),
            leads.display()
        ));
    }
    let directory = directory.display();
    if files == 0 && left.is_empty() {
        status(&format!("there is nothing in {directory}"));
        return Ok(());
    }
    status(&format!("{files} files in {directory} are overwritten and removed"));
    if emptied > 0 {
        status(&format!("{emptied} more are overwritten, and empty now; they cannot be removed"));
    }
    status(
        "this cannot reach what a flash disk, a file system that copies or snapshots, backups, exports, swapped memory and terminals \
         keep; contacts keep what was said, and the server that there is an account",
    );
    if alone.is_err() {
        return Err(Failure::state(
            "another program is using the directory, has the account in memory, and may write it again: end it, and wipe once more",
        )
        .coded("wipe-left"));
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(Failure::state(format!("something is left in {directory}")).coded("wipe-left")),
    }
}

fn ask(directory: &Path) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("this removes everything for good: with --yes it is not asked"));
    }
    write!(io::stderr(), "remove everything in {} for good? type {MEANT}: ", directory.display())?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    match typed.trim() == MEANT {
        true => Ok(()),
        false => Err(Failure::usage("nothing was removed")),
    }
}

/// Ends whoever is online here, as fast as the system can: it would finish its round, and write.
async fn end_participant(directory: &Path) {
    match daemon::connect(directory).await {
        Ok(Some(stream)) => match daemon::kill(&stream) {
            Ok(()) => status("whoever was online here is ended"),
            Err(error) => status(&format!("warning: cannot end whoever is online here: {error}")),
        },
        Ok(None) => {}
        Err(error) if directory.exists() => status(&format!("warning: {error}")),
        Err(_) => {}
    }
}

/// The state for this program alone, if there is one. Without it all is removed just the same.
async fn alone(directory: &Path) -> Result<Option<File>, StoreError> {
    let until = Instant::now() + PATIENCE;
    loop {
        if !directory.exists() {
            return Ok(None);
        }
        match Store::hold(directory) {
            Ok(held) => return Ok(Some(held)),
            Err(StoreError::Locked(_)) if Instant::now() < until => {
                // One that was coming online has its socket by now.
                if let Ok(Some(stream)) = daemon::connect(directory).await {
                    let _ = daemon::kill(&stream);
                }
                sleep(PAUSE).await;
            }
            Err(error) => {
                status(&format!("warning: {error}"));
                return Err(error);
            }
        }
    }
}
