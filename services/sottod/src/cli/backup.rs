//! Taking a backup, and restoring from one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use sotto_files::sync_directory;
use tempfile::NamedTempFile;

use super::{Data, Failure};
use crate::Summary;
use crate::backup::{self, Checked, Restored};
use crate::control::{AskError, Request, ask};

/// What is backed up, and where to.
#[derive(Args)]
pub(super) struct BackupOptions {
    #[command(flatten)]
    data: Data,
    /// The file to make; nothing is overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// What is restored, and where to.
#[derive(Args)]
pub(super) struct RestoreOptions {
    /// The backup.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    data: Data,
}

pub(super) fn backup(options: &BackupOptions) -> Result<(), Failure> {
    let BackupOptions { data: Data { data }, out } = options;
    let taken = || format!("{}: there is a file already; name another one", out.display());
    ensure_new(out).with_context(taken)?;
    let directory = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Open to its owner alone; goes away if anything fails.
    let mut file = NamedTempFile::new_in(directory)
        .with_context(|| format!("cannot make a file in {}", directory.display()))?;
    fill(data, &mut file)?;
    file.as_file().sync_all().with_context(|| format!("cannot write {}", out.display()))?;
    let Checked { summary, bytes, .. } =
        backup::check(file.path()).context("the backup has not come whole, and was removed")?;
    file.persist_noclobber(out).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!(taken()),
        _ => anyhow!("cannot write {}: {}", out.display(), error.error),
    })?;
    sync_directory(directory)?;

    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}: {bytes} bytes, every checksum of them holds", out.display())?;
    writeln!(stdout, "{}", told(&summary))?;
    if summary.voters > 1 {
        writeln!(
            stdout,
            "CAUTION: this is a node of a cluster of {}: a lost one is replaced, and 'sottod restore' refuses this file; \
             what the file keeps are the keys and the rounds",
            summary.voters
        )?;
    }
    if data.join("root.key").exists() {
        writeln!(stdout, "root.key is not in it: keep a copy of that elsewhere, and none on this machine")?;
    }
    Ok(())
}

/// Of a server that runs, from it; else from its directory.
fn fill(data: &Path, file: &mut NamedTempFile) -> anyhow::Result<()> {
    match ask::<()>(data, Request::Backup) {
        Ok(((), mut sent)) => {
            io::copy(&mut sent, file).context("the backup broke off")?;
            Ok(())
        }
        Err(AskError::NotRunning(_)) => Ok(backup::at_rest(data, file.as_file_mut())?),
        Err(error) => Err(error.into()),
    }
}

fn ensure_new(out: &Path) -> anyhow::Result<()> {
    ensure!(fs::symlink_metadata(out).is_err(), "it would be overwritten");
    Ok(())
}

pub(super) fn restore(options: &RestoreOptions) -> Result<(), Failure> {
    let RestoreOptions { from, data: Data { data } } = options;
    let Restored { backup: Checked { summary, is_of_cluster, .. }, unfit } = backup::restore(from, data)?;
    let mut out = io::stdout().lock();
    let data = data.display();
    writeln!(out, "restored {data}, every checksum holds")?;
    writeln!(out, "{}", told(&summary))?;
    if let Some(unfit) = unfit {
        writeln!(out, "CAUTION: as it is, it cannot be served: {unfit}")?;
    }
    if is_of_cluster {
        writeln!(
            out,
            "CAUTION: it was the only node of its cluster; if others were added since, do not start it: they have everything"
        )?;
    }
    writeln!(
        out,
        "next: 'sottod serve --data {data} --restored', once, as clients may have seen newer rounds than this backup has; \
         leave --restored away at every other start"
    )?;
    Ok(())
}

fn told(summary: &Summary) -> String {
    let newest = summary.newest.map_or_else(|| "none".to_owned(), |round| round.0.to_string());
    let Summary { accounts, rounds, deposits, .. } = summary;
    format!("accounts {accounts}, rounds not retired {rounds}, deposits {deposits}, newest round {newest}")
}
