//! Making the manifest key that follows, with the root key: no server needs to run for that, and no node of a cluster
//! needs the root key.

use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use sotto_protocol::{Round, ServerParameters};
use sotto_wire::root::endorse;

use crate::announcement::{self, NEXT, end_of_key};
use crate::identity::{Identity, root_of};
use crate::manifest_keys::file;
use crate::secrets::{IdentityError, copy, load_or_create};

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
        "{}: a manifest key is about to follow already: announce it with 'sottod keys announce', or remove this file to make \
         another announcement of it", .0.display()
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
    if announcement::next(directory, &public)?.is_some() {
        return Err(RotationError::Pending(directory.join(NEXT)));
    }
    let said = said(directory)?;
    let root = Identity::root_key_for(directory, root)?;
    let name = file(said.key_epoch.number.saturating_add(1));
    let key = SigningKey::from_bytes(&*load_or_create(directory, &name)?);
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
    announcement::write_next(directory, &next, &endorse(&root, &next))?;
    for other in also {
        copy(&directory.join(&name), &other.join(&name), 0o600)?;
        copy(&directory.join(NEXT), &other.join(NEXT), 0o644)?;
    }
    Ok(Made { files: [name, NEXT.to_owned()], first: from, end: next.key_epoch.ends() })
}

fn said(directory: &Path) -> Result<ServerParameters, RotationError> {
    let said = announcement::said(directory, &root_of(directory)?)?;
    said.ok_or_else(|| RotationError::Silent(directory.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use mpir::noop;
    use sotto_protocol::Round;

    use super::{RotationError, rotate};
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
}
