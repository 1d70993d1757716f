//! Registration tokens: what admits a new account, and who made it is all that can be told from one.
//!
//! A token is 16 random bytes, which name it, and the first 16 bytes of HMAC-SHA-256 over a domain and those bytes under
//! the server's token key. So tokens can be made while the server runs or not, none is stored before it is spent, and
//! a new key takes all unspent ones out of use.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::Sha256;
use sotto_log::TokenId;
use sotto_wire::Token;
use sotto_wire::token::TOKEN_BYTES;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const DOMAIN: &[u8] = b"sotto v1 registration token";
const ID_BYTES: usize = 16;

/// The key of one server's tokens.
pub(crate) struct TokenKey(Zeroizing<[u8; 32]>);

impl TokenKey {
    pub(crate) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self(seed)
    }

    /// A new token; `None` if the operating system gives no randomness.
    pub(crate) fn issue(&self) -> Option<Token> {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        let (id, tag) = bytes.split_at_mut(ID_BYTES);
        SysRng.try_fill_bytes(id).ok()?;
        tag.copy_from_slice(&self.tag(id));
        Some(Token::new(*bytes))
    }

    /// What names a token that this key has made.
    pub(crate) fn check(&self, token: &[u8; TOKEN_BYTES]) -> Option<TokenId> {
        let (id, tag) = token.split_at(ID_BYTES);
        let genuine = bool::from(self.tag(id).as_slice().ct_eq(tag));
        genuine.then(|| core::array::from_fn(|at| id[at]))
    }

    fn tag(&self, id: &[u8]) -> [u8; TOKEN_BYTES - ID_BYTES] {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("a key of HMAC has any size");
        let tag = mac.chain_update(DOMAIN).chain_update(id).finalize().into_bytes();
        core::array::from_fn(|at| tag[at])
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use zeroize::Zeroizing;

    use super::TokenKey;

    /// By another program's HMAC.
    #[test]
    fn tokens_that_were_made_before_stay_good() {
        let key = TokenKey::new(Zeroizing::new([1; 32]));
        let tag = HEXLOWER.decode(b"9073f00cea5731267bcf3cfd89b9f7ac").unwrap();
        let token: [u8; 32] = [vec![7; 16], tag].concat().try_into().unwrap();
        assert_eq!(key.check(&token), Some([7; 16]));
    }

    #[test]
    fn only_what_the_key_made_is_a_token() {
        let (key, other) = (TokenKey::new(Zeroizing::new([1; 32])), TokenKey::new(Zeroizing::new([2; 32])));
        let (one, two) = (key.issue().unwrap(), key.issue().unwrap());
        assert_eq!(key.check(one.bytes()).unwrap()[..], one.bytes()[..16]);
        assert_ne!(key.check(one.bytes()), key.check(two.bytes()));
        assert_eq!(other.check(one.bytes()), None);
        for byte in 0..32 {
            let mut forged = *one.bytes();
            forged[byte] ^= 1;
            assert_eq!(key.check(&forged), None, "byte {byte}");
        }
    }
}
