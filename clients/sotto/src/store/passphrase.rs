//! What closes a state file to whoever takes the disk.

use core::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use rand::Rng as _;
use zeroize::{Zeroize as _, Zeroizing};

use super::format::{Beginning, Problem};
use super::seal::{self, KEY_BYTES, NONCE_BYTES, TAG_BYTES};

const SALT_BYTES: usize = 16;
const COST_AND_SALT_BYTES: usize = 4 + 4 + SALT_BYTES;
/// What making a key costs: somebody who guesses pays it for every guess. More than the second choice of RFC 9106, section 4
/// (64 MiB, three passes), in memory.
const MEMORY_KIB: u32 = 128 * 1024;
const PASSES: u32 = 3;
/// What a file may ask for at most, so that one that was put there cannot take all memory, or hours.
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const PASSES_MAX: u32 = 16;
/// A closed body is made longer to a multiple of so many bytes: otherwise its size would tell how many contacts there are, and
/// how long the texts that wait.
const STEP_BYTES: usize = 16 * 1024;
const LENGTH_BYTES: usize = 8;
/// More than anybody types.
pub(crate) const PASSPHRASE_BYTES_MAX: usize = 1024;
/// Shorter ones are guessed, whatever a guess costs.
pub(crate) const PASSPHRASE_CHARACTERS_MIN: usize = 8;

/// What a person remembers.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes over what was typed, without the end of its line. It is the bytes that count: nothing is normalised.
    #[must_use]
    pub fn new(typed: Zeroizing<String>) -> Self {
        Self(typed)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Clone for Passphrase {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// Made of a passphrase, with what to make it again from.
pub(crate) struct Key {
    cost_and_salt: [u8; COST_AND_SALT_BYTES],
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl Key {
    /// With a salt of its own.
    ///
    /// # Errors
    /// [`Problem::Memory`].
    pub(super) fn new(passphrase: &Passphrase) -> Result<Self, Problem> {
        let mut salt = [0; SALT_BYTES];
        rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut salt);
        Self::derive(passphrase, MEMORY_KIB, PASSES, salt)
    }

    fn derive(
        passphrase: &Passphrase,
        memory: u32,
        passes: u32,
        salt: [u8; SALT_BYTES],
    ) -> Result<Self, Problem> {
        const COST: Problem = Problem::Damaged("what its passphrase costs is out of bounds");
        if memory > MEMORY_KIB_MAX || passes > PASSES_MAX {
            return Err(COST);
        }
        let parameters = Params::new(memory, passes, 1, Some(KEY_BYTES)).map_err(|_| COST)?;
        let blocks = parameters.block_count();
        let mut memory_blocks = Vec::new();
        memory_blocks.try_reserve_exact(blocks).map_err(|_| Problem::Memory(memory / 1024))?;
        memory_blocks.resize(blocks, argon2::Block::default());
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
        let made = argon2.hash_password_into_with_memory(
            passphrase.0.as_bytes(),
            &salt,
            &mut key[..],
            &mut memory_blocks,
        );
        // The key can be made of what is left here.
        memory_blocks.iter_mut().for_each(|block| block.zeroize());
        made.map_err(|_| COST)?;
        let mut cost_and_salt = [0; COST_AND_SALT_BYTES];
        cost_and_salt[..4].copy_from_slice(&memory.to_le_bytes());
        cost_and_salt[4..8].copy_from_slice(&passes.to_le_bytes());
        cost_and_salt[8..].copy_from_slice(&salt);
        Ok(Self { cost_and_salt, key })
    }

    /// What stands behind the checksum of a closed file with that beginning.
    pub(super) fn close(&self, beginning: Beginning, body: &[u8]) -> Vec<u8> {
        let associated = beginning.associated(&self.cost_and_salt);
        let bytes = (LENGTH_BYTES + body.len()).next_multiple_of(STEP_BYTES);
        let mut padded = Zeroizing::new(Vec::with_capacity(bytes));
        padded.extend((body.len() as u64).to_le_bytes());
        padded.extend(body);
        padded.resize(bytes, 0);
        [&self.cost_and_salt[..], &seal::seal(&self.key, &associated, &padded)].concat()
    }
}

/// What stands behind the checksum of a closed file, taken apart.
pub(crate) struct Closed<'a> {
    beginning: Beginning,
    memory: u32,
    passes: u32,
    salt: [u8; SALT_BYTES],
    sealed: &'a [u8],
}

impl<'a> Closed<'a> {
    pub(super) fn decode(beginning: Beginning, rest: &'a [u8]) -> Result<Self, Problem> {
        let short = Problem::Damaged("it is cut short");
        let Some((memory, rest)) = rest.split_first_chunk() else { return Err(short) };
        let Some((passes, rest)) = rest.split_first_chunk() else { return Err(short) };
        let Some((salt, sealed)) = rest.split_first_chunk() else { return Err(short) };
        if sealed.len() < NONCE_BYTES + TAG_BYTES {
            return Err(short);
        }
        let [memory, passes] = [memory, passes].map(|field| u32::from_le_bytes(*field));
        Ok(Self { beginning, memory, passes, salt: *salt, sealed })
    }

    /// Its body, and the key under which it is closed. It takes some tenths of a second.
    ///
    /// # Errors
    /// [`Problem::Passphrase`]; [`Problem::Damaged`] if it asks for more memory or time than any file does.
    pub(super) fn open(&self, passphrase: &Passphrase) -> Result<(Key, Zeroizing<Vec<u8>>), Problem> {
        let key = Key::derive(passphrase, self.memory, self.passes, self.salt)?;
        let associated = self.beginning.associated(&key.cost_and_salt);
        let padded = seal::open(&key.key, &associated, self.sealed).ok_or(Problem::Passphrase)?;
        let body = padded
            .split_first_chunk()
            .and_then(|(length, body)| body.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?));
        let body = body.ok_or(Problem::Damaged("what is closed in it is cut short"))?;
        Ok((key, Zeroizing::new(body.to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use zeroize::Zeroizing;

    use super::super::format::{HEAD_BYTES, checked};
    use super::super::{Store, StoreError};
    use super::Passphrase;
    use crate::testing::address;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(Zeroizing::new(text.to_owned()))
    }

    fn file(home: &Path) -> Vec<u8> {
        fs::read(home.join("state")).unwrap()
    }

    fn closed(home: &Path) -> Vec<u8> {
        let mut store = Store::create(home, address()).unwrap();
        store.set_passphrase(Some(&passphrase("correct horse"))).unwrap();
        store.save(b"the account of alice").unwrap();
        file(home)
    }

    #[test]
    fn what_is_closed_opens_with_its_passphrase_and_stays_closed_with_whatever_is_saved() {
        let home = tempfile::tempdir().unwrap();
        let first = closed(home.path());
        let right = passphrase("correct horse");
        let (store, snapshot) = Store::open_with(home.path(), Some(&right)).unwrap();
        assert_eq!((store.address(), &snapshot[..]), (&address(), &b"the account of alice"[..]));
        store.save(b"the same of alice, a year on").unwrap();
        drop(store);
        let second = file(home.path());
        for bytes in [&first, &second] {
            let shows = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
            assert!(!shows(b"alice") && !shows(b"127.0.0.1") && !shows(b"correct"));
        }
        assert_eq!(first.len(), second.len(), "sizes of what is small are equal");
        let (head, salt) = (HEAD_BYTES + 8, HEAD_BYTES + 24);
        assert_eq!(first[head..salt], second[head..salt], "the key is made once");
        assert_ne!(first[salt..salt + 24], second[salt..salt + 24], "a nonce serves once");

        let (server, snapshot) = Store::read(home.path(), Some(&right)).unwrap();
        assert_eq!((server, &snapshot[..]), (address(), &b"the same of alice, a year on"[..]));
        assert!(matches!(Store::open(home.path()), Err(StoreError::Closed(_))));
        assert!(Store::is_closed(home.path()).unwrap());
        for wrong in ["", "correct horsf", "correct horse ", "Correct horse"] {
            let refused = Store::open_with(home.path(), Some(&passphrase(wrong)));
            assert!(matches!(refused, Err(StoreError::Passphrase(_))), "{wrong}");
        }
    }

    #[test]
    fn a_passphrase_is_changed_and_taken_away() {
        let home = tempfile::tempdir().unwrap();
        closed(home.path());
        let [old, new] = ["correct horse", "battery staple"].map(passphrase);
        let (mut store, snapshot) = Store::open_with(home.path(), Some(&old)).unwrap();
        store.set_passphrase(Some(&new)).unwrap();
        store.save(&snapshot).unwrap();
        drop(store);
        assert!(matches!(Store::open_with(home.path(), Some(&old)), Err(StoreError::Passphrase(_))));
        let (mut store, snapshot) = Store::open_with(home.path(), Some(&new)).unwrap();
        store.set_passphrase(None).unwrap();
        store.save(&snapshot).unwrap();
        drop(store);
        assert_eq!(Store::open(home.path()).unwrap().1[..], *b"the account of alice");
        assert!(!Store::is_closed(home.path()).unwrap());
        // Who has a passphrase expects it to be needed: an open state may be somebody else's, or an old one.
        assert!(matches!(Store::open_with(home.path(), Some(&new)), Err(StoreError::Open(_))));
        assert!(matches!(Store::read(home.path(), Some(&new)), Err(StoreError::Open(_))));
    }

    /// Whoever can write to the disk gets no other account under the passphrase, and no key under a cheaper one.
    #[test]
    fn a_closed_state_that_was_changed_is_not_opened() {
        let home = tempfile::tempdir().unwrap();
        let whole = closed(home.path());
        let write = |bytes: &[u8]| fs::write(home.path().join("state"), bytes).unwrap();
        let open = || Store::open_with(home.path(), Some(&passphrase("correct horse"))).map(|_| ());
        for cut in (0..whole.len()).step_by(61) {
            write(&whole[..cut]);
            assert!(matches!(open(), Err(StoreError::Damaged { .. })), "cut at {cut}");
        }
        let rest = &whole[HEAD_BYTES..];
        for cut in 0..24 + 24 + 16 {
            write(&checked(2, &rest[..cut]));
            assert!(matches!(open(), Err(StoreError::Damaged { .. })), "cut at {cut}");
        }
        let with = |place: usize, bytes: &[u8]| {
            let mut changed = rest.to_vec();
            changed[place..place + bytes.len()].copy_from_slice(bytes);
            write(&checked(2, &changed));
            open()
        };
        let passes = |passes: u32| with(4, &passes.to_le_bytes());
        assert!(matches!(passes(2), Err(StoreError::Passphrase(_))));
        assert!(matches!(passes(0), Err(StoreError::Damaged { .. })));
        assert!(matches!(passes(17), Err(StoreError::Damaged { .. })));
        assert!(matches!(passes(u32::MAX), Err(StoreError::Damaged { .. })));
        let memory = |memory: u32| with(0, &memory.to_le_bytes());
        assert!(matches!(memory(64), Err(StoreError::Passphrase(_))));
        assert!(matches!(memory(7), Err(StoreError::Damaged { .. })));
        assert!(matches!(memory(u32::MAX), Err(StoreError::Damaged { .. })));
        for place in [8, 24, 48, rest.len() - 1] {
            let refused = with(place, &[rest[place] ^ 1]);
            assert!(matches!(refused, Err(StoreError::Passphrase(_))), "{place}");
        }
        // An open state in the place of a closed one is another account, and nothing of this one.
        write(&checked(1, rest));
        assert!(matches!(open(), Err(StoreError::Damaged { .. })));
        write(&checked(0, rest));
        assert!(matches!(open(), Err(StoreError::Damaged { .. })));
    }

    /// A file of the first version that could be closed, which every later one opens: made by other implementations of Argon2id and
    /// XChaCha20-Poly1305 (8 MiB, two passes).
    #[test]
    fn a_closed_state_of_before_opens() {
        let home = tempfile::tempdir().unwrap();
        let golden = include_str!("closed.hex").trim();
        let bytes = data_encoding::HEXLOWER.decode(golden.as_bytes()).unwrap();
        fs::write(home.path().join("state"), bytes).unwrap();
        let (server, snapshot) = Store::read(home.path(), Some(&passphrase("correct horse"))).unwrap();
        assert_eq!((server, &snapshot[..]), (address(), &b"the account of alice"[..]));
    }
}
