//! Bytes that only the holder of a key can read, or have made: XChaCha20-Poly1305 under a random nonce.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rand::Rng as _;
use zeroize::Zeroizing;

pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const NONCE_BYTES: usize = 24;
pub(crate) const TAG_BYTES: usize = 16;

/// `nonce (24) | ciphertext | tag (16)`. Nonces are random: of 2^64 bytes strings under one key two have the same with 2^-65.
pub(crate) fn seal(key: &[u8; KEY_BYTES], associated: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut nonce);
    seal_under(&nonce, key, associated, plain)
}

fn seal_under(nonce: &[u8; NONCE_BYTES], key: &[u8; KEY_BYTES], associated: &[u8], plain: &[u8]) -> Vec<u8> {
    let payload = Payload { msg: plain, aad: associated };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(*nonce), payload);
    let sealed = sealed.expect("a vector grows, and has less than the 256 GiB that one nonce serves");
    [&nonce[..], &sealed].concat()
}

/// What [`seal`] made under the same key with the same associated data, and None of anything else.
pub(crate) fn open(key: &[u8; KEY_BYTES], associated: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg: ciphertext, aad: associated };
    XChaCha20Poly1305::new(key.into()).decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::{open, seal, seal_under};

    #[test]
    fn nobody_else_reads_or_changes_it() {
        let (key, text) = ([7; 32], b"precious".as_slice());
        let sealed = seal(&key, b"here", text);
        assert_eq!(open(&key, b"here", &sealed).unwrap()[..], *text);
        assert!(open(&[8; 32], b"here", &sealed).is_none() && open(&key, b"there", &sealed).is_none());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(open(&key, b"here", &changed).is_none(), "{place}");
            assert!(open(&key, b"here", &sealed[..place]).is_none(), "{place}");
        }
        assert_ne!(seal(&key, b"here", text), sealed);
    }

    /// The example of draft-irtf-cfrg-xchacha, A.3.1.
    #[test]
    fn it_is_the_cipher_that_others_know() {
        let key = core::array::from_fn(|i| 0x80 + i as u8);
        let nonce = core::array::from_fn(|i| 0x40 + i as u8);
        let associated = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let text =
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                     sunscreen would be it.";
        let sealed = seal_under(&nonce, &key, &associated, text);
        let tag =
            [0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79, 0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49];
        assert_eq!(sealed[24..28], [0xbd, 0x6d, 0x17, 0x9d]);
        assert_eq!(sealed[sealed.len() - 16..], tag);
    }
}
