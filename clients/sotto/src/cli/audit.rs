//! Checking answers, and proofs that one was wrong.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use mpir::Engines;
use serde_json::json;

use super::failure::Failure;
use super::link::Link;
use super::options::{AuditOptions, VerifyOptions};
use super::print::{object, result, status};
use super::state;
use crate::daemon::message::{Audited, Found, Message, Note, Reply, Request, Told};
use crate::daemon::unexpected;
use sotto_participant::audit::{PROOF_MAX, Proof, Verdict, judge};

/// Waits until so many answers are checked. The exit code says whether all were right.
pub(super) async fn audit(home: Option<PathBuf>, options: AuditOptions) -> Result<ExitCode, Failure> {
    let mut link = Link::open(home).await?;
    link.send(&Request::Audit { answers: options.rounds }).await?;
    let (mut left, mut code) = (options.rounds, ExitCode::SUCCESS);
    while left > 0 {
        let audited = match link.next().await? {
            Message::Told(Told::Audited(audited)) => audited,
            Message::Told(Told::Note(Note { line, .. })) => {
                status(&line);
                continue;
            }
            Message::Told(_) => continue,
            Message::Reply(reply) => match reply.into_result()? {
                Reply::Auditing { pace } => {
                    status(&pace);
                    continue;
                }
                _ => return Err(unexpected()),
            },
        };
        left -= 1;
        let Audited { round, unit, found, line, proof } = audited;
        if options.json {
            object(&json!({"round": round, "unit": unit, "found": found, "proof": proof, "line": line}))?;
        } else {
            result(&line)?;
        }
        if found != Found::Honest {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Says whether a proof shows that a server has cheated.
pub(super) async fn verify(home: Option<PathBuf>, options: VerifyOptions) -> Result<ExitCode, Failure> {
    let root = match options.server {
        Some(address) => *address.root_key(),
        None => *state::read(&state::directory(home)?)?.0.root_key(),
    };
    let proof = read(&options.proof)?;
    let judged = tokio::task::spawn_blocking(move || {
        let round = proof.manifest.claimed_round();
        (round, proof.unit, judge(&Engines::default(), &proof, &root))
    });
    let (round, unit, verdict) =
        judged.await.map_err(|error| Failure::other(format!("cannot check the proof: {error}")))?;
    result(&format!("round {round}, unit {unit}: {verdict}"))?;
    Ok(if verdict == Verdict::Cheated { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<Proof, Failure> {
    let cannot = |reason: String| Failure::other(format!("cannot use {}: {reason}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    // One more than there may be.
    let limit = PROOF_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
    if bytes.len() > PROOF_MAX {
        return Err(cannot("it is too long for a proof".to_owned()));
    }
    Proof::decode(&Bytes::from(bytes)).map_err(|error| cannot(error.to_string()))
}
