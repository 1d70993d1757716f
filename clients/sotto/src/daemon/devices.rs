//! The devices that may come to the participant from other machines, on the disk and while it runs.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sotto_protocol::base32::BASE32;
use sotto_protocol::client::check_name;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::message::Private;
use crate::cli::failure::Failure;
use crate::device::code::{Secret, new_secret};
use crate::device::key::{Key, Public};
use crate::device::pairing::Paired;
use crate::store::{DEVICES, seal};
use sotto_participant::host::now;

/// What is told of a device that is none.
pub(crate) fn no_device(name: &str) -> Failure {
    Failure::other(format!("there is no device '{name}'; 'sotto devices' lists those there are"))
        .coded("device-unknown")
}

/// What is told when the list of devices cannot be read or written.
pub(crate) fn unkept(error: io::Error) -> Failure {
    Failure::state(format!("cannot read or keep the devices of this account: {error}"))
}

/// Devices of an account.
pub(crate) const DEVICES_MAX: usize = 16;
/// How long a code serves.
pub(crate) const CODE_LASTS: Duration = Duration::from_secs(10 * 60);
/// Wrong ones after which it serves no more.
const ATTEMPTS: u8 = 5;
/// Before what is sealed.
const VERSION: u8 = 1;
const DOMAIN: &[u8] = b"sotto v1 devices\0";
/// What is sealed has a multiple of so many bytes: all devices have room, so that their number does not show.
const STEP_BYTES: usize = 4096;
/// More than all of them take.
const BYTES_MAX: u64 = 1 << 16;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Its public key, in base32.
    key: String,
    /// When it was paired, milliseconds since the Unix epoch.
    pub(crate) paired_ms: u64,
}

/// What is on the disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The participant's, in base32.
    key: Private,
    devices: Vec<Device>,
}

/// A device that is to come.
struct Pairing {
    secret: Secret,
    until: Instant,
    attempts: u8,
}

#[derive(Default)]
struct Inside {
    kept: Option<Kept>,
    pairing: Option<Pairing>,
}

/// The devices of an account.
pub(crate) struct Devices {
    path: PathBuf,
    seal: Zeroizing<[u8; seal::KEY_BYTES]>,
    inside: Mutex<Inside>,
    /// Told when one is revoked.
    changes: watch::Sender<()>,
}

impl Devices {
    /// Of the account with this seed. Nothing is read yet.
    pub(crate) fn of(directory: &Path, account_seed: &[u8; 32]) -> Self {
        let seal = Sha256::new_with_prefix(DOMAIN).chain_update(account_seed).finalize().into();
        Self {
            path: directory.join(DEVICES),
            seal: Zeroizing::new(seal),
            inside: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// The participant's key for devices, which is made when it is wanted first.
    ///
    /// # Errors
    /// Why it cannot be read, or kept.
    pub(crate) fn key(&self) -> io::Result<Key> {
        let mut inside = self.inside();
        let kept = self.kept(&mut inside)?;
        let key = match decode(&kept.key.0) {
            Some(key) => key,
            None => {
                let key = Key::new();
                kept.key = Private(Zeroizing::new(BASE32.encode(key.secret())));
                self.write(kept)?;
                return Ok(key);
            }
        };
        Ok(Key::from_secret(key))
    }

    /// All devices, in the order in which they were paired.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(crate) fn all(&self) -> io::Result<Vec<Device>> {
        Ok(self.kept(&mut self.inside())?.devices.clone())
    }

    /// The name of a device, if its key is that of one.
    pub(crate) fn name(&self, key: &Public) -> Option<String> {
        let (mut inside, key) = (self.inside(), BASE32.encode(key));
        let kept = self.kept(&mut inside).ok()?;
        kept.devices.iter().find(|device| device.key == key).map(|device| device.name.clone())
    }

    /// Whether a device may come in: one that is known, or any while one is awaited.
    pub(crate) fn lets_in(&self, key: &Public) -> bool {
        self.name(key).is_some() || self.pairing_open(&mut self.inside()).is_some()
    }

    /// Waits for a device, with a secret that serves once. What was waited for before is not any more.
    pub(crate) fn wait(&self) -> Secret {
        let secret = new_secret();
        let until = Instant::now() + CODE_LASTS;
        self.inside().pairing = Some(Pairing { secret: secret.clone(), until, attempts: ATTEMPTS });
        secret
    }

    fn pairing_open<'a>(&self, inside: &'a mut Inside) -> Option<&'a mut Pairing> {
        if inside.pairing.as_ref().is_some_and(|pairing| Instant::now() >= pairing.until) {
            inside.pairing = None;
        }
        inside.pairing.as_mut()
    }

    /// Takes a device that comes with a secret, or refuses it. Who does not know the secret learns nothing else.
    pub(crate) fn pair(&self, key: &Public, secret: &str, name: &str, of: &str) -> Paired {
        let mut inside = self.inside();
        let Some(pairing) = self.pairing_open(&mut inside) else { return Paired::WrongCode };
        let said = Zeroizing::new(BASE32.decode(secret.as_bytes()).unwrap_or_default());
        if !bool::from(said.as_slice().ct_eq(&pairing.secret[..])) {
            pairing.attempts -= 1;
            if pairing.attempts == 0 {
                inside.pairing = None;
            }
            return Paired::WrongCode;
        }
        if check_name(name).is_err() {
            return Paired::NameRefused;
        }
        let Ok(kept) = self.kept(&mut inside) else { return Paired::NotKept };
        let device = Device { name: name.to_owned(), key: BASE32.encode(key), paired_ms: now().0 };
        if kept.devices.iter().any(|other| other.name == name || other.key == device.key) {
            return Paired::NameTaken;
        }
        if kept.devices.len() >= DEVICES_MAX {
            return Paired::Full;
        }
        kept.devices.push(device);
        if self.write(kept).is_err() {
            kept.devices.pop();
            return Paired::NotKept;
        }
        inside.pairing = None;
        Paired::Welcome { of: of.to_owned() }
    }

    /// Forgets a device, and ends what it has open. Whether there was one.
    ///
    /// # Errors
    /// That it is forgotten in this process alone.
    pub(crate) fn revoke(&self, name: &str) -> io::Result<bool> {
        let mut inside = self.inside();
        let kept = self.kept(&mut inside)?;
        let before = kept.devices.len();
        kept.devices.retain(|device| device.name != name);
        let was_there = kept.devices.len() < before;
        if was_there {
            self.changes.send_replace(());
            self.write(kept)?;
        }
        Ok(was_there)
    }

    /// Waits until a device is no longer known.
    pub(crate) async fn revoked(&self, key: &Public) {
        let mut changes = self.changes.subscribe();
        while self.name(key).is_some() {
            // The sender lives as long as this.
            let _ = changes.changed().await;
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing that holds it can leave it half changed.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept<'a>(&self, inside: &'a mut Inside) -> io::Result<&'a mut Kept> {
        match &mut inside.kept {
            Some(kept) => Ok(kept),
            none => Ok(none.insert(self.read()?)),
        }
    }

    fn read(&self) -> io::Result<Kept> {
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "it was changed");
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Kept { key: Private::new(""), devices: Vec::new() });
            }
            file if file.as_ref().is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX) => {}
            file => {
                file?;
                return Err(changed());
            }
        }
        let bytes = fs::read(&self.path)?;
        let Some((&VERSION, sealed)) = bytes.split_first() else { return Err(changed()) };
        let plain = seal::open(&self.seal, DOMAIN, sealed).ok_or_else(changed)?;
        Ok(serde_json::from_slice(&plain)?)
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        let json = Zeroizing::new(serde_json::to_vec(kept)?);
        let mut plain = Zeroizing::new(Vec::with_capacity(json.len().next_multiple_of(STEP_BYTES)));
        plain.extend_from_slice(&json);
        // Blanks behind JSON are none of it.
        plain.resize(json.len().next_multiple_of(STEP_BYTES), b' ');
        let sealed = seal::seal(&self.seal, DOMAIN, &plain);
        sotto_files::replace(&self.path, &[&[VERSION][..], &sealed].concat(), 0o600)
    }
}

fn decode(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let bytes = Zeroizing::new(BASE32.decode(text.as_bytes()).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sotto_protocol::base32::BASE32;
    use tokio::time::advance;

    use super::{ATTEMPTS, CODE_LASTS, DEVICES_MAX, Devices};
    use crate::device::key::Key;
    use crate::device::pairing::Paired;

    fn welcome() -> Paired {
        Paired::Welcome { of: "alice".to_owned() }
    }

    fn devices(directory: &std::path::Path) -> Devices {
        Devices::of(directory, &[1; 32])
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_serves_once_for_some_minutes_and_against_few_guesses() {
        let home = tempfile::tempdir().unwrap();
        let devices = devices(home.path());
        let [phone, other] = [Key::new().public(), Key::new().public()];
        let wrong = BASE32.encode(&[0; 16]);
        assert_eq!(devices.pair(&phone, &wrong, "phone", "alice"), Paired::WrongCode);
        assert!(!devices.lets_in(&phone), "nobody is awaited");

        let secret = BASE32.encode(&devices.wait()[..]);
        assert!(devices.lets_in(&phone) && devices.lets_in(&other));
        for wrong in ["", "x", &wrong, &secret[1..], &format!("{secret}aa")][..ATTEMPTS as usize - 1].iter() {
            assert_eq!(devices.pair(&other, wrong, "other", "alice"), Paired::WrongCode);
        }
        assert_eq!(devices.pair(&phone, &secret, "a\u{1b}b", "alice"), Paired::NameRefused);
        assert_eq!(devices.pair(&phone, &secret, "phone", "alice"), welcome());
        assert_eq!(devices.pair(&other, &secret, "other", "alice"), Paired::WrongCode, "it served once");
        assert!(devices.lets_in(&phone) && !devices.lets_in(&other));

        let secret = BASE32.encode(&devices.wait()[..]);
        assert_eq!(devices.pair(&other, &secret, "phone", "alice"), Paired::NameTaken);
        for _ in 0..ATTEMPTS {
            assert_eq!(devices.pair(&other, &wrong, "other", "alice"), Paired::WrongCode);
        }
        assert_eq!(devices.pair(&other, &secret, "other", "alice"), Paired::WrongCode, "too many guesses");

        let secret = BASE32.encode(&devices.wait()[..]);
        advance(CODE_LASTS).await;
        assert!(!devices.lets_in(&other));
        assert_eq!(devices.pair(&other, &secret, "other", "alice"), Paired::WrongCode, "too late");
        // The next code ends the one before.
        let [first, second] = [(); 2].map(|()| BASE32.encode(&devices.wait()[..]));
        assert_eq!(devices.pair(&other, &first, "other", "alice"), Paired::WrongCode);
        assert_eq!(devices.pair(&other, &second, "other", "alice"), welcome());
    }

    #[tokio::test]
    async fn devices_and_the_key_outlive_the_process_and_nobody_else_reads_them() {
        let home = tempfile::tempdir().unwrap();
        let before = devices(home.path());
        let key = before.key().unwrap().public();
        let phone = Key::new().public();
        assert_eq!(before.pair(&phone, &BASE32.encode(&before.wait()[..]), "phone", "alice"), welcome());
        let after = devices(home.path());
        assert_eq!((after.key().unwrap().public(), after.name(&phone)), (key, Some("phone".to_owned())));
        let on_disk = fs::read(home.path().join("devices")).unwrap();
        assert!(!on_disk.windows(5).any(|window| window == b"phone"));
        assert!(Devices::of(home.path(), &[2; 32]).all().is_err());

        assert!(!after.revoke("tablet").unwrap() && after.revoke("phone").unwrap());
        after.revoked(&phone).await;
        let last = devices(home.path());
        assert!(
            !last.lets_in(&phone) && last.all().unwrap().is_empty() && last.key().unwrap().public() == key
        );
        assert_eq!(on_disk.len(), fs::read(home.path().join("devices")).unwrap().len());

        for number in 0..DEVICES_MAX {
            let secret = BASE32.encode(&last.wait()[..]);
            let paired = last.pair(&Key::new().public(), &secret, &format!("device {number}"), "alice");
            assert_eq!(paired, welcome());
        }
        let secret = BASE32.encode(&last.wait()[..]);
        assert_eq!(last.pair(&phone, &secret, "one more", "alice"), Paired::Full);
        fs::write(home.path().join("devices"), b"\x01not sealed").unwrap();
        assert!(devices(home.path()).all().is_err() && devices(home.path()).key().is_err());
    }
}
