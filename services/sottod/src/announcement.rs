//! What a server announces, signed by the root key of its cluster: parameters, and the seeds of its rounds.
//!
//! The root key signs again whenever anything of it changes, under a higher number. A server whose root key is in its data
//! directory does so by itself when it starts; otherwise `sottod certify` does.

use std::fs;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use sotto_files::replace;
use sotto_protocol::base32::BASE32;
use sotto_protocol::manifest::seed::{SEGMENT_ROUNDS, SeedTree};
use sotto_protocol::negotiation::ANNOUNCEMENT_BYTES;
use sotto_protocol::server::SeedChain;
use sotto_protocol::{CodeKind, KeyEpoch, Round, RoundMode, ServerParameters};
use sotto_wire::root::endorse;
use sotto_wire::{Announced as Told, Endorsement, RootKey};
use zeroize::Zeroizing;

use crate::secrets::{self, IdentityError, load_or_create, root_key, secret};
use crate::seeds;

/// The file.
pub(crate) const ANNOUNCEMENT: &str = "announcement";
/// What is to be announced next: a manifest key that follows.
pub(crate) const NEXT: &str = "announcement.next";
pub(crate) const SEEDS: &str = "seeds";
pub(crate) const SEED_KEY: &str = "seed.key";
/// Where the manifest key stands in what is signed.
const MANIFEST_KEY_AT: usize = 10;
/// How long a manifest key signs rounds unless another one follows on it: two years, ms.
const KEY_LIFE_MS: u64 = 2 * 366 * 86_400_000;
/// Longer than any announcement.
const BYTES_MAX: u64 = 4096;

/// What is announced, and the seeds that it promises.
pub(crate) struct Announced {
    pub(crate) parameters: ServerParameters,
    pub(crate) endorsement: Endorsement,
    pub(crate) seeds: SeedChain,
}

/// What an operator wants announced.
pub(crate) struct Wanted {
    /// The parameters; their number, their seeds and the time of their manifest key do not count.
    pub(crate) parameters: ServerParameters,
    /// Segments, if seeds are made.
    pub(crate) segments: u32,
    /// Where seeds begin, if they are made.
    pub(crate) first: Round,
    /// Make seeds for this round too, if there are none.
    pub(crate) covers: Option<Round>,
    /// Make more seeds than there are.
    pub(crate) more: bool,
}

/// What was signed last, by this version or the one before.
struct Signed {
    serial: u64,
    text: Vec<u8>,
    endorsement: Endorsement,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What is signed, base32.
    parameters: String,
    /// The signature, base32.
    signature: String,
}

/// For a server that keeps nothing.
pub(crate) fn ephemeral(
    root: &SigningKey,
    secret: Zeroizing<[u8; 32]>,
    wanted: Wanted,
) -> Result<Announced, IdentityError> {
    let Wanted { parameters, segments, first, .. } = wanted;
    let tree = seeds::tree(&secret, beginning(first), Vec::new(), segments).map_err(IdentityError::Seeds)?;
    let seeds = SeedChain::new(secret, tree).map_err(IdentityError::Seeds)?;
    let parameters = ServerParameters { serial: 1, seeds: seeds.tree().commitment(), ..parameters };
    Ok(Announced { endorsement: endorse(root, &parameters), parameters, seeds })
}

/// The manifest key that a directory announces, and its number, if it announces one.
pub(crate) fn manifest_key(
    directory: &Path,
    root: &RootKey,
) -> Result<Option<([u8; 32], u32)>, IdentityError> {
    let signed = read(directory, root)?;
    // Every version has the key there, and those before had one.
    let key = |signed: Signed| {
        let number = ServerParameters::decode(&signed.text).map_or(1, |said| said.key_epoch.number);
        Some((*signed.text.get(MANIFEST_KEY_AT..)?.first_chunk()?, number))
    };
    Ok(signed.and_then(key))
}

/// The parameters that a directory announces, if it announces any of this version.
pub(crate) fn said(directory: &Path, root: &RootKey) -> Result<Option<ServerParameters>, IdentityError> {
    let signed = read(directory, root)?;
    Ok(signed.and_then(|signed| ServerParameters::decode(&signed.text).ok()))
}

/// Under which number a directory announces what it does, if the root key has signed anything there.
pub(crate) fn serial(directory: &Path, root: &RootKey) -> Result<Option<u64>, IdentityError> {
    Ok(read(directory, root)?.map(|signed| signed.serial))
}

/// Whether a directory has seeds.
pub(crate) fn has_seeds(directory: &Path) -> bool {
    directory.join(SEEDS).exists()
}

/// Gives a directory what another one announces.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), IdentityError> {
    for (name, mode) in [(SEED_KEY, 0o600), (SEEDS, 0o644), (ANNOUNCEMENT, 0o644)] {
        secrets::copy(&from.join(name), &to.join(name), mode)?;
    }
    Ok(())
}

/// Takes up what a directory announces. What is wanted and not signed is signed with the root key, of this file or in the
/// directory, if it is there.
pub(crate) fn take_up(
    directory: &Path,
    root: &RootKey,
    root_file: Option<&Path>,
    wanted: Wanted,
) -> Result<Announced, IdentityError> {
    let Wanted { parameters, segments, first, covers, more } = wanted;
    let signed = read(directory, root)?;
    // Only if it is needed.
    let key = || root_key(directory, root_file, root)?.ok_or(IdentityError::Unsigned);
    let path = directory.join(SEEDS);
    let known = seeds::load(&path)?;
    let missing = |tree: &SeedTree| covers.is_some_and(|round| tree.commitment().place(round).is_none());
    let seeds = match known {
        None if signed.is_some() => return Err(IdentityError::Missing(path)),
        Some(tree) if !more && !missing(&tree) => {
            let secret = secret(directory, SEED_KEY)?;
            SeedChain::new(secret, tree).map_err(|_| IdentityError::Mismatch(directory.join(SEED_KEY)))?
        }
        known => {
            key()?;
            let secret = load_or_create(directory, SEED_KEY)?;
            tracing::info!("seeds of rounds are being made, which takes some seconds");
            let tree = grown(&secret, known, first, segments)?;
            seeds::store(&path, &tree)?;
            tracing::info!(
                rounds = u64::from(tree.commitment().segments) * SEGMENT_ROUNDS,
                "seeds were made"
            );
            SeedChain::new(secret, tree).map_err(IdentityError::Seeds)?
        }
    };
    let serial = signed.as_ref().map_or(1, |signed| signed.serial);
    let kept = signed.as_ref().and_then(|signed| ServerParameters::decode(&signed.text).ok());
    // The keys of versions before had no end.
    let key_epoch = kept.map_or_else(|| first_epoch(&parameters, first), |kept| kept.key_epoch);
    let key_epoch = covers.map_or(key_epoch, |round| reaching(key_epoch, &parameters, round));
    let seeded = seeds.tree().commitment();
    let mut parameters = ServerParameters { serial, seeds: seeded, key_epoch, ..parameters };
    // Before it is signed: nobody would take it.
    if CodeKind::epoch(parameters.code, seeded.first) != seeded.first {
        return Err(IdentityError::Epochs);
    }
    if let Some(signed) = &signed {
        if signed.text == parameters.encode() {
            return Ok(Announced { endorsement: signed.endorsement, parameters, seeds });
        }
        parameters.serial =
            serial.checked_add(1).ok_or_else(|| IdentityError::Malformed(directory.into()))?;
    }
    let endorsement = endorse(&key()?, &parameters);
    write(directory, &parameters, &endorsement)?;
    tracing::info!(serial = parameters.serial, "the root key has signed what is announced");
    Ok(Announced { parameters, endorsement, seeds })
}

/// The time of the first manifest key, with which nothing was signed before this round.
fn first_epoch(parameters: &ServerParameters, round: Round) -> KeyEpoch {
    match parameters.mode {
        // Nobody knows how long rounds are, and no such server lives long.
        RoundMode::ClosedLoop => KeyEpoch::ENDLESS,
        RoundMode::Deadline => KeyEpoch::first(end_of_key(parameters, round)),
    }
}

/// The epoch of a key that is to sign rounds from this one on, wherever the clock has led: rounds may have become shorter, or
/// longer, since its end was fixed.
fn reaching(epoch: KeyEpoch, parameters: &ServerParameters, round: Round) -> KeyEpoch {
    let end = end_of_key(parameters, round);
    let most = Round(end.0.saturating_add(end.0 - round.0));
    let is_near = |ends: Round| round < ends && ends <= most;
    match epoch.ends() {
        Some(ends) if !is_near(ends) => KeyEpoch { end, ..epoch },
        _ => epoch,
    }
}

/// When a manifest key ends that begins to sign with this round.
pub(crate) fn end_of_key(parameters: &ServerParameters, first: Round) -> Round {
    let rounds = KEY_LIFE_MS / u64::from(parameters.round_ms.max(1));
    Round(first.0.saturating_add(rounds))
}

/// More seeds than there are, from where those begin; or others, if those could never reach as far as is wanted.
fn grown(
    secret: &[u8; 32],
    known: Option<SeedTree>,
    first: Round,
    segments: u32,
) -> Result<SeedTree, IdentityError> {
    let near = |tree: &SeedTree| {
        let (begin, end) = (tree.commitment().first, tree.commitment().end());
        begin <= first && first.0 - end.0.min(first.0) < u64::from(segments) * SEGMENT_ROUNDS
    };
    match known.filter(near) {
        Some(tree) => {
            let have = tree.commitment().segments;
            let behind = first.0.saturating_sub(tree.commitment().end().0) / SEGMENT_ROUNDS;
            let all = u64::from(have) + behind + u64::from(segments);
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            seeds::tree(secret, tree.commitment().first, tree.ends().to_vec(), all)
        }
        None => seeds::tree(secret, beginning(first), Vec::new(), segments),
    }
    .map_err(IdentityError::Seeds)
}

/// Where seeds begin that are to serve from a round on: at the beginning of an epoch, so that queries can stand one day.
const fn beginning(first: Round) -> Round {
    CodeKind::Standing.epoch(first)
}

/// What was signed last in a directory, if anything was; the signature holds.
fn read(directory: &Path, root: &RootKey) -> Result<Option<Signed>, IdentityError> {
    read_from(&directory.join(ANNOUNCEMENT), root)
}

fn read_from(path: &Path, root: &RootKey) -> Result<Option<Signed>, IdentityError> {
    let failed =
        |source: std::io::Error| IdentityError::File { path: path.to_owned(), source: source.into() };
    let malformed = || IdentityError::Malformed(path.to_owned());
    match fs::metadata(path) {
        Ok(found) if found.len() > BYTES_MAX => return Err(malformed()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let File { parameters, signature } = toml::from_str(&text).map_err(|_| malformed())?;
    let decode = |text: &str| BASE32.decode(text.as_bytes()).map_err(|_| malformed());
    let text = decode(&parameters)?;
    let endorsement: Endorsement = decode(&signature)?.try_into().map_err(|_| malformed())?;
    let checked = if let Ok(text) = <&[u8; ANNOUNCEMENT_BYTES]>::try_from(text.as_slice()) {
        root.check_encoded(text, &endorsement)
    } else {
        root.check_former(&text, &endorsement)
    };
    checked.map_err(|_| IdentityError::Mismatch(path.to_owned()))?;
    let serial = text.first_chunk().map_or(0, |serial| u64::from_le_bytes(*serial));
    Ok(Some(Signed { serial, text, endorsement }))
}

/// Writes down what is announced, in place of what was.
pub(crate) fn write(
    directory: &Path,
    parameters: &ServerParameters,
    endorsement: &Endorsement,
) -> Result<(), IdentityError> {
    write_to(directory.join(ANNOUNCEMENT), parameters, endorsement)
}

/// Writes down what is to be announced next.
pub(crate) fn write_next(
    directory: &Path,
    parameters: &ServerParameters,
    endorsement: &Endorsement,
) -> Result<(), IdentityError> {
    write_to(directory.join(NEXT), parameters, endorsement)
}

/// What is to be announced next, if something is.
pub(crate) fn next(directory: &Path, root: &RootKey) -> Result<Option<Told>, IdentityError> {
    let path = directory.join(NEXT);
    let Some(signed) = read_from(&path, root)? else { return Ok(None) };
    let text = signed.text.try_into().map_err(|_| IdentityError::Malformed(path))?;
    Ok(Some(Told { announcement: text, endorsement: signed.endorsement }))
}

/// Removes what was to be announced next.
pub(crate) fn forget_next(directory: &Path) -> Result<(), IdentityError> {
    let path = directory.join(NEXT);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(IdentityError::File { path, source: error.into() })
        }
        _ => Ok(()),
    }
}

fn write_to(
    path: PathBuf,
    parameters: &ServerParameters,
    endorsement: &Endorsement,
) -> Result<(), IdentityError> {
    let file =
        File { parameters: BASE32.encode(&parameters.encode()), signature: BASE32.encode(endorsement) };
    let text = toml::to_string(&file).map_err(|_| IdentityError::Malformed(path.clone()))?;
    replace(&path, text.as_bytes(), 0o644)
        .map_err(|source| IdentityError::File { path, source: source.into() })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use ed25519_dalek::{Signer, SigningKey};
    use mpir::noop;
    use sotto_protocol::base32::BASE32;
    use sotto_protocol::manifest::seed::SEGMENT_ROUNDS;
    use sotto_protocol::{CodeKind, Round, ServerParameters};

    use super::{
        ANNOUNCEMENT, Announced, File, SEED_KEY, SEEDS, Wanted, beginning, load_or_create, manifest_key,
        seeds, take_up,
    };
    use crate::config::Config;
    use crate::identity::Identity;
    use crate::secrets::IdentityError;

    const FIRST: Round = Round(1000);

    fn wanted(identity: &Identity, change: fn(&mut Config)) -> Wanted {
        let mut config = Config::deadline(([127, 0, 0, 1], 0).into());
        (config.allow_no_privacy, config.retrieve) = (true, 4);
        change(&mut config);
        let parameters = config.parameters(&*noop(), identity.manifest.verifying_key().to_bytes()).unwrap();
        Wanted { parameters, segments: 2, first: FIRST, covers: Some(FIRST), more: false }
    }

    fn made(directory: &Path) -> Identity {
        Identity::create(directory).unwrap();
        Identity::load(directory, None).unwrap()
    }

    /// What was announced can be taken over by whoever keeps what was announced before.
    fn succeeds(now: &Announced, before: &ServerParameters, identity: &Identity) {
        identity.root.check(&now.parameters, &now.endorsement).unwrap();
        assert_eq!(now.parameters.succeeds(before), Ok(sotto_protocol::Succession::Later));
        assert!(before.succeeds(&now.parameters).is_err());
    }

    #[test]
    fn a_change_is_signed_once_under_a_higher_number_and_needs_the_root_key_for_it() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, identity) = (directory.path(), made(directory.path()));
        let root = &identity.root;
        let first = take_up(path, root, None, wanted(&identity, |_| {})).unwrap();
        assert_eq!(first.parameters.serial, 1);
        root.check(&first.parameters, &first.endorsement).unwrap();
        assert_eq!(fs::metadata(path.join(SEED_KEY)).unwrap().permissions().mode() & 0o777, 0o600);

        let kept = elsewhere.path().join("root.key");
        fs::rename(path.join("root.key"), &kept).unwrap();
        let again = take_up(path, root, None, wanted(&identity, |_| {})).unwrap();
        assert_eq!((&again.parameters, again.endorsement), (&first.parameters, first.endorsement));

        let change: fn(&mut Config) = |config| {
            (config.retrieve, config.buckets, config.round_ms) = (8, Some(24), 1500);
            (config.deposit_ms, config.lookup_ms, config.query_ms) = (100, 150, 400);
        };
        let unsigned = take_up(path, root, None, wanted(&identity, change)).err().unwrap();
        assert!(matches!(unsigned, IdentityError::Unsigned) && unsigned.to_string().contains("certify"));
        let second = take_up(path, root, Some(&kept), wanted(&identity, change)).unwrap();
        succeeds(&second, &first.parameters, &identity);
        assert_eq!((second.parameters.serial, second.parameters.seeds), (2, first.parameters.seeds));
        assert_eq!(
            take_up(path, root, None, wanted(&identity, change)).unwrap().parameters,
            second.parameters
        );
        // Back to what was before is a change like any other.
        let third = take_up(path, root, Some(&kept), wanted(&identity, |_| {})).unwrap();
        succeeds(&third, &second.parameters, &identity);
    }

    /// Accounts pin the root key, and whoever had taken over what an earlier version announced takes this over.
    #[test]
    fn what_earlier_versions_announced_is_announced_anew_under_the_next_number() {
        for version in [2, 3, 4] {
            announced_anew(version);
        }
    }

    /// Has a directory announce as a server of an earlier version did; what stands there then.
    pub(crate) fn say_as(version: u16, path: &Path, public: &[u8; 32], now: &[u8]) -> Vec<u8> {
        // The layouts of then: up to version 3 without the time of the key, and in version 2 without the two spreads.
        let mut then = if version < 4 { now[..153].to_vec() } else { now.to_vec() };
        if version == 2 {
            then.drain(101..109);
        }
        then[8..10].copy_from_slice(&version.to_le_bytes());
        let root = SigningKey::from_bytes(&super::secret(path, "root.key").unwrap());
        let domain = format!("sotto v{version} announcement");
        store(path, &then, &root.sign(&[domain.as_bytes(), public, &then].concat()).to_bytes());
        then
    }

    fn store(path: &Path, text: &[u8], signature: &[u8]) {
        let encode = |bytes: &[u8]| BASE32.encode(bytes);
        let file = File { parameters: encode(text), signature: encode(signature) };
        fs::write(path.join(ANNOUNCEMENT), toml::to_string(&file).unwrap()).unwrap();
    }

    fn announced_anew(version: u16) {
        let directory = tempfile::tempdir().unwrap();
        let (path, identity) = (directory.path(), made(directory.path()));
        let first = take_up(path, &identity.root, None, wanted(&identity, |_| {})).unwrap();
        let now = first.parameters.encode();
        let then = say_as(version, path, &identity.root.0, &now);
        let root = SigningKey::from_bytes(&super::secret(path, "root.key").unwrap());
        assert_eq!(manifest_key(path, &identity.root).unwrap(), Some((first.parameters.manifest_key, 1)));
        let second = take_up(path, &identity.root, None, wanted(&identity, |_| {})).unwrap();
        assert_eq!(second.parameters, ServerParameters { serial: 2, ..first.parameters });
        identity.root.check(&second.parameters, &second.endorsement).unwrap();
        // Under the domain of now it is none, nor is one of now under that of then.
        let other: &[u8] = if version < 4 { b"sotto v4 announcement" } else { b"sotto v3 announcement" };
        let signed = [other, &identity.root.0, &then].concat();
        store(path, &then, &root.sign(&signed).to_bytes());
        let forged = take_up(path, &identity.root, None, wanted(&identity, |_| {})).err().unwrap();
        assert!(matches!(forged, IdentityError::Mismatch(_)));
    }

    /// Seeds of before may begin anywhere, and whoever is asked to let queries stand under them signs nothing.
    #[test]
    fn queries_do_not_stand_under_seeds_that_begin_in_the_middle_of_an_epoch() {
        for (ahead, stands) in [(0, true), (3, false), (8, true)] {
            let directory = tempfile::tempdir().unwrap();
            let (path, identity) = (directory.path(), made(directory.path()));
            let secret = load_or_create(path, SEED_KEY).unwrap();
            let first = Round(beginning(FIRST).0 - ahead);
            seeds::store(&path.join(SEEDS), &seeds::tree(&secret, first, Vec::new(), 2).unwrap()).unwrap();
            let standing = |config: &mut Config| config.code = CodeKind::Standing;
            let taken = take_up(path, &identity.root, None, wanted(&identity, standing));
            assert_eq!(taken.is_ok(), stands, "{ahead}");
            assert_eq!(path.join(ANNOUNCEMENT).exists(), stands);
            assert!(taken.err().is_none_or(|error| matches!(error, IdentityError::Epochs)));
            let slots = |config: &mut Config| config.code = CodeKind::Partitioned;
            assert!(take_up(path, &identity.root, None, wanted(&identity, slots)).is_ok());
        }
    }

    #[test]
    fn more_seeds_begin_where_those_end_that_there_are() {
        let directory = tempfile::tempdir().unwrap();
        let (path, identity) = (directory.path(), made(directory.path()));
        let mut before = take_up(path, &identity.root, None, wanted(&identity, |_| {})).unwrap();
        let more = |first, more, covers| {
            let wanted = Wanted { first, more, covers, ..wanted(&identity, |_| {}) };
            take_up(path, &identity.root, None, wanted).unwrap()
        };
        let mut after = more(Round(FIRST.0 + 100), true, None);
        succeeds(&after, &before.parameters, &identity);
        let (old, new) = (before.parameters.seeds, after.parameters.seeds);
        assert_eq!((new.first, new.segments), (old.first, 4));
        for round in [FIRST, old.end().back(1), old.end(), new.end().back(1)] {
            let seed = after.seeds.seed(round).unwrap();
            new.verify(round, &seed, &after.seeds.tree().of(round).unwrap()).unwrap();
            // What clients have seen stays as it was.
            assert!(before.seeds.seed(round).is_none_or(|known| known == seed));
        }
        assert_eq!((after.seeds.seed(new.end()), before.seeds.seed(old.end())), (None, None));
        // Where no seeds lead that go on from these, others begin.
        let far = Round(new.end().0 + 1000 * SEGMENT_ROUNDS);
        let other = more(far, true, None);
        assert_eq!((other.parameters.seeds.first, other.parameters.seeds.segments), (far, 2));
        succeeds(&other, &after.parameters, &identity);
        assert_eq!(more(far, false, Some(far)).parameters, other.parameters, "nothing is missing");
    }

    #[test]
    fn what_is_there_is_not_made_anew_and_not_taken_from_others() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let both = [ours.path(), theirs.path()].map(|path| {
            let identity = made(path);
            take_up(path, &identity.root, None, wanted(&identity, |_| {})).unwrap();
            identity
        });
        let (identity, path) = (&both[0], ours.path());
        for name in [SEEDS, SEED_KEY] {
            let kept = fs::read(path.join(name)).unwrap();
            fs::remove_file(path.join(name)).unwrap();
            let missing = take_up(path, &identity.root, None, wanted(identity, |_| {})).err().expect(name);
            assert!(matches!(missing, IdentityError::Missing(path) if path.ends_with(name)));
            fs::write(path.join(name), kept).unwrap();
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        for name in [SEED_KEY, ANNOUNCEMENT] {
            let kept = fs::read(path.join(name)).unwrap();
            fs::copy(theirs.path().join(name), path.join(name)).unwrap();
            let foreign = take_up(path, &identity.root, None, wanted(identity, |_| {})).err().expect(name);
            assert!(matches!(foreign, IdentityError::Mismatch(path) if path.ends_with(name)));
            fs::write(path.join(name), kept).unwrap();
        }
        take_up(path, &identity.root, None, wanted(identity, |_| {})).unwrap();
    }

    /// `cargo test --release -p sottod --lib time_of_all_seeds -- --ignored --nocapture`
    #[test]
    #[ignore = "measures"]
    fn time_of_all_seeds() {
        let began = std::time::Instant::now();
        seeds::tree(&[7; 32], FIRST, Vec::new(), seeds::SEGMENTS).unwrap();
        println!("{} segments: {:?}", seeds::SEGMENTS, began.elapsed());
    }
}
