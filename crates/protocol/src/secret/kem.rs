//! ML-KEM-768 (FIPS 203): a secret that two people agree on, and that a computer which solves discrete logarithms does not
//! find out.
//!
//! One makes a key pair from a seed `d | z` of 64 bytes and hands out the *encapsulation key*; the other makes of it, with 32
//! bytes of randomness, a *ciphertext* and the shared secret, which the first takes out of the ciphertext again. Nothing
//! else here knows the library.

use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::{B32, DecapsulationKey768, EncapsulationKey768, Seed};
use zeroize::Zeroize;

use super::Secret;
use crate::Error;
use crate::error::Malformed;

/// Bytes of an encapsulation key.
pub(crate) const ENCAPSULATION_KEY_BYTES: usize = 1184;

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// The seed of a key pair. The pair itself is made of it when it is needed, which takes less than an agreement by X25519.
pub(crate) struct KemSeed {
    d: Secret,
    z: Secret,
}

impl KemSeed {
    pub(crate) fn new(d: Secret, z: Secret) -> Self {
        Self { d, z }
    }

    fn key(&self) -> DecapsulationKey768 {
        let mut seed = Seed::default();
        let (d, z) = seed.split_at_mut(32);
        d.copy_from_slice(self.d.bytes());
        z.copy_from_slice(self.z.bytes());
        let key = DecapsulationKey768::from_seed(seed);
        seed.as_mut_slice().zeroize();
        key
    }

    /// What the other one needs; it is not secret.
    pub(crate) fn encapsulation_key(&self) -> [u8; ENCAPSULATION_KEY_BYTES] {
        self.key().encapsulation_key().to_bytes().into()
    }

    /// The shared secret of a ciphertext. Of one that was not made with this key it is a secret that nobody else has, in
    /// the same time.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not 1,088 bytes long.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret, Error> {
        let ciphertext = ciphertext.try_into().map_err(|_| MALFORMED)?;
        Ok(secret(self.key().decapsulate(&ciphertext)))
    }
}

/// A ciphertext for the holder of an encapsulation key, and the secret that both then share. The same randomness gives the
/// same.
///
/// # Errors
/// [`Error::Malformed`] if it is no encapsulation key: of another length, or with a coefficient that is not reduced.
pub(crate) fn encapsulate(key: &[u8], randomness: &Secret) -> Result<(Vec<u8>, Secret), Error> {
    let key = EncapsulationKey768::new(key.try_into().map_err(|_| MALFORMED)?).map_err(|_| MALFORMED)?;
    let mut coins = B32::from(*randomness.bytes());
    let (ciphertext, shared) = key.encapsulate_deterministic(&coins);
    coins.as_mut_slice().zeroize();
    Ok((ciphertext.to_vec(), secret(shared)))
}

fn secret(mut shared: ml_kem::SharedKey) -> Secret {
    let secret = Secret::new(shared.into());
    shared.as_mut_slice().zeroize();
    secret
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::{KemSeed, encapsulate};
    use crate::secret::Secret;

    fn secret(first: u8) -> Secret {
        Secret::new(core::array::from_fn(|at| first + u8::try_from(at).unwrap()))
    }

    fn seed() -> KemSeed {
        KemSeed::new(secret(0), secret(32))
    }

    fn digest(bytes: &[u8]) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
    }

    fn hex(secret: &Secret) -> String {
        data_encoding::HEXLOWER.encode(secret.bytes())
    }

    /// Made by another implementation (kyber-py 1.2.0) from the seed of bytes 0 to 63 and the randomness of bytes 64 to 95.
    #[test]
    fn keys_ciphertext_and_secret_are_those_of_the_standard() {
        let key = seed().encapsulation_key();
        assert_eq!(digest(&key), "0b7934c83125c788995e2ba6bd761e33046b3e40571be53e023309a29f398cc9");
        let (ciphertext, shared) = encapsulate(&key, &secret(64)).unwrap();
        assert_eq!(digest(&ciphertext), "dbf4e9aa48b078ad46ec1c9c47bda8c2d2fec9d0e7a21bd48d2238a2abedb856");
        assert_eq!(hex(&shared), "9cddd089ffe70e3996e76f7c8d06746df34d07e8657bc0fcf2bb0e1c3084aea1");
        assert_eq!(hex(&seed().decapsulate(&ciphertext).unwrap()), hex(&shared));
        // The secret of one that was altered, which FIPS 203 calls implicit rejection.
        let mut altered = ciphertext;
        altered[7] ^= 1;
        assert_eq!(
            hex(&seed().decapsulate(&altered).unwrap()),
            "5597dbf8a155b9101f8c0fa53c814adc6d739b54e6ce9120d5b76e1b43a70337"
        );
    }

    /// A key whose coefficients are not reduced would tell by the answer how its reader computes.
    #[test]
    fn what_is_no_key_and_no_ciphertext_is_refused() {
        let key = seed().encapsulation_key();
        for length in [0, 32, key.len() - 1] {
            assert!(encapsulate(&key[..length], &secret(64)).is_err());
        }
        assert!(encapsulate(&[&key[..], &[0]].concat(), &secret(64)).is_err());
        let mut unreduced = key;
        unreduced[..3].fill(0xff);
        assert!(encapsulate(&unreduced, &secret(64)).is_err());
        for length in [0, 1087, 1089] {
            assert!(seed().decapsulate(&vec![0; length]).is_err());
        }
    }
}
