//! Making the manifest key that follows, with the root key: no server needs to run for that, and no node of a cluster
//! needs the root key.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::root::endorse;

use crate::announcement::{self, NEXT, end_of_key};
use crate::identity::{Identity, root_of};
use crate::manifest_keys::file;
use crate::secrets::{IdentityError, copy, key_error, load_or_create, secret};

/// For so long in advance another key is announced, unless something else is said: ten minutes, ms.
pub(crate) const AHEAD_MS: u64 = 600_000;

/// What was made.
pub(crate) struct Made {
    /// The files, without their directory.
    pub(crate) files: [String; 2],
    /// The first round that the key signs.
    pub(crate) first: Round,
    /// The first that it does not sign any more.
    pub(crate) end: Option<Round>,
}

/// Why it was not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(
        "{}: a manifest key is about to follow already: announce it with 'sottod keys announce', complete the command that \
         made it by giving it again with the same --from, or remove this file to make another announcement of it", .0.display()
    )]
    Pending(PathBuf),
    #[error("{}: nothing is announced there; 'sottod certify' signs it", .0.display())]
    Silent(PathBuf),
    #[error("{}: it is of another server", .0.display())]
    Foreign(PathBuf),
    #[error("{0}")]
    Protocol(#[from] sotto_protocol::Error),
}

/// How many rounds of a directory's server a key is announced in advance.
pub(crate) fn ahead(directory: &Path) -> Result<u64, RotationError> {
    let said = said(directory)?;
    Ok((AHEAD_MS / u64::from(said.round_ms.max(1))).max(8))
}

/// Makes the next manifest key of a directory, and the announcement that names it from a round on; both are copied to others
/// of the same server.
pub(crate) fn rotate(
    directory: &Path,
    root: Option<&Path>,
    from: Round,
    also: &[PathBuf],
) -> Result<Made, RotationError> {
    let public = root_of(directory)?;
    for other in also {
        if root_of(other)? != public {
            return Err(RotationError::Foreign(other.clone()));
        }
    }
    let said = said(directory)?;
    let pending = announcement::next(directory, &public)?.and_then(|next| next.parameters(&public).ok());
    // What is announced already, or what something later is, is in nobody's way.
    let pending = pending.filter(|pending| pending.serial > said.serial);
    if pending.as_ref().is_some_and(|pending| pending.key_epoch.first != from) {
        return Err(RotationError::Pending(directory.join(NEXT)));
    }
    let root = Identity::root_key_for(directory, root)?;
    let name = file(said.key_epoch.number.saturating_add(1));
    let key = match &pending {
        Some(_) => secret(directory, &name)?,
        None => load_or_create(directory, &name)?,
    };
    let key = SigningKey::from_bytes(&key);
    // Where the one before does not end, this one does not either.
    let end = said.key_epoch.ends().map_or(said.key_epoch.end, |_| end_of_key(&said, from));
    let next = ServerParameters {
        serial: said.serial.saturating_add(1),
        manifest_key: key.verifying_key().to_bytes(),
        key_epoch: said.key_epoch.next(said.manifest_key, from, end),
        ..said.clone()
    };
    next.check_shape()?;
    next.succeeds(&said)?;
    if pending.is_some_and(|pending| pending != next) {
        return Err(RotationError::Pending(directory.join(NEXT)));
    }
    announcement::write_next(directory, &next, &endorse(&root, &next))?;
    leave_to_owner(directory, [&name, NEXT])?;
    for other in also {
        copy(&directory.join(&name), &other.join(&name), 0o600)?;
        copy(&directory.join(NEXT), &other.join(NEXT), 0o644)?;
        leave_to_owner(other, [&name, NEXT])?;
    }
    Ok(Made { files: [name, NEXT.to_owned()], first: from, end: next.key_epoch.ends() })
}

/// Leaves files to the owner of a directory, as far as the system allows: a server that runs as a user of its own must read
/// what root has made for it.
fn leave_to_owner(directory: &Path, names: [&str; 2]) -> Result<(), IdentityError> {
    let failed = |path: &Path, source: io::Error| key_error(path, source.into());
    let owner = fs::metadata(directory).map_err(|error| failed(directory, error))?;
    for path in names.map(|name| directory.join(name)) {
        let there = fs::metadata(&path).map_err(|error| failed(&path, error))?;
        if (there.uid(), there.gid()) == (owner.uid(), owner.gid()) {
            continue;
        }
        match chown(&path, Some(owner.uid()), Some(owner.gid())) {
            // Only root gives files away.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(failed(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn said(directory: &Path) -> Result<ServerParameters, RotationError> {
    let said = announcement::said(directory, &root_of(directory)?)?;
    said.ok_or_else(|| RotationError::Silent(directory.to_owned()))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use mpir::noop;
    use sotto_protocol::Round;

    use super::{Made, RotationError, rotate};
    use crate::announcement::tests::say_as;
    use crate::announcement::{ANNOUNCEMENT, NEXT};
    use crate::control::{AskError, OpenRound, Request, Rotated, ask};
    use crate::{Config, Running, ServerEvent};

    fn config(data: &Path) -> Config {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        (config.allow_no_privacy, config.data) = (true, Some(data.to_owned()));
        (config.round_ms, config.deposit_ms, config.lookup_ms, config.query_ms) = (200, 0, 0, 0);
        (config.deposit_spread_ms, config.query_spread_ms) = (Some(0), Some(0));
        config.seed_segments = Some(1);
        config
    }

    async fn asked<T: serde::de::DeserializeOwned + Send + 'static>(
        data: &Path,
        request: Request,
    ) -> Result<T, AskError> {
        let data = data.to_owned();
        let ask = move || ask::<T>(&data, request).map(|(done, _)| done);
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    /// Waits until a round can be retrieved.
    async fn built(running: &Running, least: Round) {
        let mut events = running.events();
        loop {
            match events.recv().await.unwrap() {
                ServerEvent::RoundBuilt { round, .. } if round >= least => return,
                _ => {}
            }
        }
    }

    fn files(data: &Path) -> [bool; 3] {
        ["manifest.key", "manifest-2.key", NEXT].map(|name| data.join(name).exists())
    }

    #[tokio::test]
    async fn a_server_goes_on_over_a_change_of_keys_and_deletes_the_former_one() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let data = directory.path();
        let running = crate::start(noop(), config(data)).unwrap();
        let before = running.parameters().clone();
        built(&running, Round(0)).await;
        let root = elsewhere.path().join("root.key");
        fs::rename(data.join("root.key"), &root).unwrap();

        let refused = asked::<Rotated>(data, Request::Announce).await.unwrap_err().to_string();
        assert!(refused.contains("keys rotate"), "{refused}");
        let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
        let late = rotate(data, Some(&root), Round(open), &[]).unwrap();
        assert_eq!(late.first, Round(open));
        let refused = asked::<Rotated>(data, Request::Announce).await.unwrap_err().to_string();
        assert!(refused.contains("--from"), "{refused}");
        let pending = rotate(data, Some(&root), Round(open + 12), &[]);
        assert!(matches!(pending, Err(RotationError::Pending(_))));
        fs::remove_file(data.join(NEXT)).unwrap();
        let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
        let first = rotate(data, Some(&root), Round(open + 12), &[]).unwrap().first;
        let mode = fs::metadata(data.join("manifest-2.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // Without the secret nothing is announced.
        let kept = elsewhere.path().join("kept");
        fs::rename(data.join("manifest-2.key"), &kept).unwrap();
        let refused = asked::<Rotated>(data, Request::Announce).await.unwrap_err().to_string();
        assert!(refused.contains("manifest-2.key"), "{refused}");
        fs::rename(&kept, data.join("manifest-2.key")).unwrap();
        assert_eq!(asked::<Rotated>(data, Request::Announce).await.unwrap().first, first.0);
        assert_eq!(files(data), [true, true, false]);
        built(&running, Round(first.0 + 6)).await;
        running.shutdown().await.unwrap();
        assert_eq!(files(data), [false, true, false]);

        let again = crate::start(noop(), config(data)).unwrap();
        let after = again.parameters().clone();
        built(&again, Round(first.0 + 8)).await;
        again.shutdown().await.unwrap();
        assert_eq!(
            (after.serial, after.key_epoch.number, after.key_epoch.first),
            (before.serial + 1, 2, first)
        );
        let mut signed = [0, 0];
        for (round, logged) in crate::read_log(data).unwrap() {
            let Some(manifest) = logged.manifest else { continue };
            let key = if round < first { before.manifest_key } else { after.manifest_key };
            assert!(manifest.verify(&key).is_ok(), "round {round}");
            signed[usize::from(round >= first)] += 1;
        }
        assert!(signed[0] > 3 && signed[1] > 3, "{signed:?}");
    }

    /// The log says what is announced, whatever became of the file.
    #[tokio::test]
    async fn a_crash_between_the_log_and_the_file_loses_no_announcement() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let running = crate::start(noop(), config(data)).unwrap();
        built(&running, Round(0)).await;
        let announced = fs::read(data.join(ANNOUNCEMENT)).unwrap();
        let secret = fs::read(data.join("manifest.key")).unwrap();
        let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
        let first = rotate(data, None, Round(open + 8), &[]).unwrap().first;
        asked::<Rotated>(data, Request::Announce).await.unwrap();
        built(&running, first.next()).await;
        running.shutdown().await.unwrap();
        fs::write(data.join(ANNOUNCEMENT), announced).unwrap();
        fs::write(data.join("manifest.key"), secret).unwrap();
        fs::set_permissions(data.join("manifest.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let again = crate::start(noop(), config(data)).unwrap();
        built(&again, Round(first.0 + 4)).await;
        again.shutdown().await.unwrap();
        let after = crate::start(noop(), config(data)).unwrap();
        assert_eq!(after.parameters().key_epoch.number, 2);
        after.shutdown().await.unwrap();
    }

    /// Makes and announces the next key again and again, as soon as it is taken.
    async fn change_at_once(data: &Path) -> Round {
        loop {
            let _ = fs::remove_file(data.join(NEXT));
            let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
            // Not before the one that is announced.
            let Ok(Made { first, .. }) = rotate(data, None, Round(open + 6), &[]) else { continue };
            if asked::<Rotated>(data, Request::Announce).await.is_ok() {
                return first;
            }
        }
    }

    /// An announcement names two keys. While there are rounds of a third, nothing would verify those, and no start would succeed.
    #[tokio::test]
    async fn keys_that_are_changed_as_fast_as_they_can_be_leave_every_round_with_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let running = crate::start(noop(), config(data)).unwrap();
        built(&running, Round(0)).await;
        for _ in 0..2 {
            change_at_once(data).await;
        }
        // Rounds of the first key may still be there.
        running.shutdown().await.unwrap();
        let again = crate::start(noop(), config(data)).unwrap();
        let third = change_at_once(data).await;
        built(&again, third.next()).await;
        again.shutdown().await.unwrap();
        let after = crate::start(noop(), config(data)).unwrap();
        assert_eq!(after.parameters().key_epoch.number, 4);
        built(&after, Round(third.0 + 2)).await;
        after.shutdown().await.unwrap();
    }

    /// Numbers of rounds go on from the log's: after rounds have become longer they are far beyond those by the clock.
    #[tokio::test]
    async fn the_key_of_an_earlier_version_gets_its_end_behind_the_rounds_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let ahead = Round(1 << 40);
        let running = crate::start(noop(), Config { first_round: ahead, ..config(data) }).unwrap();
        built(&running, ahead).await;
        let said = running.parameters().clone();
        running.shutdown().await.unwrap();
        let root = crate::identity::root_of(data).unwrap();
        say_as(3, data, &root.0, &said.encode());
        let again = crate::start(noop(), config(data)).unwrap();
        assert!(again.parameters().key_epoch.end > Round(ahead.0 + 1_000_000));
        built(&again, Round(ahead.0 + 3)).await;
        again.shutdown().await.unwrap();
    }

    /// 'sottod init' signs what its settings announce, and an operator looks through them afterwards.
    #[tokio::test]
    async fn rounds_that_become_shorter_before_the_first_start_leave_the_key_in_its_time() {
        for round_ms in [2000, 50] {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path();
            crate::data::create(data, || Ok(())).unwrap();
            let drafted = Config { round_ms, ..config(data) };
            let opened = crate::data::DataDirectory::open(data, None).unwrap();
            let (first, _) = crate::server::first_rounds(&drafted, crate::unix_now());
            opened.announce(&*noop(), &drafted, first).unwrap();
            drop(opened);
            let running = crate::start(noop(), config(data)).unwrap();
            let (round, epoch) = (running.parameters().seeds.first, running.parameters().key_epoch);
            let left = epoch.end.0 - round.0;
            assert!(round < epoch.end && left < 1 << 30, "{round_ms} ms: {left}");
            built(&running, round).await;
            running.shutdown().await.unwrap();
        }
    }

    fn made() -> (tempfile::TempDir, sotto_protocol::ServerParameters) {
        let directory = tempfile::tempdir().unwrap();
        crate::data::create(directory.path(), || Ok(())).unwrap();
        let opened = crate::data::DataDirectory::open(directory.path(), None).unwrap();
        let announced = opened.announce(&*noop(), &config(directory.path()), Round(1)).unwrap();
        (directory, announced.parameters)
    }

    /// On the machine with the root key nobody takes the file away once its announcement is in the log.
    #[test]
    fn what_was_announced_keeps_nobody_from_making_the_next_key() {
        let (directory, _) = made();
        let data = directory.path();
        rotate(data, None, Round(40), &[]).unwrap();
        assert!(matches!(rotate(data, None, Round(41), &[]), Err(RotationError::Pending(_))));
        // As it is when the announcement of a node is brought here.
        fs::copy(data.join(NEXT), data.join(ANNOUNCEMENT)).unwrap();
        let made = rotate(data, None, Round(80), &[]).unwrap();
        assert_eq!(made.files[0], "manifest-3.key");
        let root = crate::identity::root_of(data).unwrap();
        let next = crate::announcement::next(data, &root).unwrap().unwrap().parameters(&root).unwrap();
        assert_eq!((next.serial, next.key_epoch.number), (3, 3));
    }

    #[test]
    fn a_command_that_was_broken_off_is_completed_by_giving_it_again() {
        let (directory, _) = made();
        let (data, elsewhere) = (directory.path(), tempfile::tempdir().unwrap());
        let others = ["a", "b"].map(|name| elsewhere.path().join(name));
        for other in &others {
            fs::create_dir(other).unwrap();
            fs::copy(data.join("identity"), other.join("identity")).unwrap();
        }
        rotate(data, None, Round(40), &others[..1]).unwrap();
        fs::remove_file(others[0].join(NEXT)).unwrap();
        let kept = [NEXT, "manifest-2.key"].map(|name| fs::read(data.join(name)).unwrap());
        rotate(data, None, Round(40), &others).unwrap();
        for directory in [data, &others[0], &others[1]] {
            let there = [NEXT, "manifest-2.key"].map(|name| fs::read(directory.join(name)).unwrap());
            assert!(there == kept, "{}", directory.display());
        }
        // Without the secret it is not made up.
        fs::remove_file(data.join("manifest-2.key")).unwrap();
        assert!(rotate(data, None, Round(40), &others).is_err());
        assert!(!data.join("manifest-2.key").exists());
    }

    /// No other key could be announced before that round, and a stolen one would go on to sign.
    #[tokio::test]
    async fn a_key_for_a_time_that_nobody_waits_for_is_not_announced() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let running = crate::start(noop(), config(data)).unwrap();
        built(&running, Round(0)).await;
        let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
        rotate(data, None, Round(open * 10), &[]).unwrap();
        let refused = asked::<Rotated>(data, Request::Announce).await.unwrap_err().to_string();
        assert!(refused.contains("--from"), "{refused}");
        running.shutdown().await.unwrap();
    }

    /// As after 'sottod certify' in a copy that was not given what was announced meanwhile.
    #[tokio::test]
    async fn a_server_does_not_go_back_behind_the_key_that_its_log_announces() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let running = crate::start(noop(), config(data)).unwrap();
        built(&running, Round(0)).await;
        let stale = [ANNOUNCEMENT, "manifest.key"].map(|name| (name, fs::read(data.join(name)).unwrap()));
        let open = asked::<OpenRound>(data, Request::Round).await.unwrap().round;
        // Nothing is signed with it yet.
        rotate(data, None, Round(open + 10_000), &[]).unwrap();
        asked::<Rotated>(data, Request::Announce).await.unwrap();
        running.shutdown().await.unwrap();
        for (name, content) in stale {
            fs::write(data.join(name), content).unwrap();
        }
        for retained in [3, 4] {
            let other = || Config { retained, ..config(data) };
            crate::data::certify(&*noop(), data, None, &other(), false).unwrap();
            let mut started = crate::start(noop(), other()).unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(20), started.failed()).await;
            let ended = ended.expect("it ends").to_string();
            assert!(ended.contains("announcement"), "{ended}");
            drop(started.shutdown().await);
        }
    }
}
