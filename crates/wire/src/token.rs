//! Registration tokens as people pass them on.

use core::fmt;
use core::str::FromStr;

use sotto_protocol::base32::BASE32;
use zeroize::Zeroizing;

use crate::Malformed;

const PREFIX: &str = "sotto-token-1-";
/// Bytes of a token: what names it, then what only the server that issued it can make.
pub const TOKEN_BYTES: usize = 32;
const CHARACTERS: usize = 52;

/// What admits one new account: `sotto-token-1-` and 52 characters of lower-case base32 without padding. Whoever has it
/// can use it, once. It names nobody.
#[derive(Clone)]
pub struct Token(Zeroizing<[u8; TOKEN_BYTES]>);

impl Token {
    /// A token of these bytes, of which only its server can tell whether it is one.
    #[must_use]
    pub fn new(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes as they are sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }
}

impl FromStr for Token {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("token: it is sotto-token-1- and 52 letters and digits; copy all of it");
        let rest =
            text.trim().strip_prefix(PREFIX).filter(|rest| rest.len() == CHARACTERS).ok_or(malformed)?;
        let bytes = Zeroizing::new(BASE32.decode(rest.as_bytes()).map_err(|_| malformed)?);
        Ok(Self::new(bytes.as_slice().try_into().map_err(|_| malformed)?))
    }
}

/// The text that people pass on.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE32.encode(self.0.as_slice()))
    }
}

// Whoever reads it can use it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{TOKEN_BYTES, Token};

    proptest! {
        #[test]
        fn a_token_reads_back_as_itself(bytes in any::<[u8; TOKEN_BYTES]>()) {
            let text = Token::new(bytes).to_string();
            prop_assert_eq!(*text.parse::<Token>().unwrap().bytes(), bytes);
            prop_assert_eq!(*format!("  {text}\n").parse::<Token>().unwrap().bytes(), bytes);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "(sotto-token-1-)?.{0,60}") {
            let _ = text.parse::<Token>();
        }
    }

    #[test]
    fn a_token_does_not_show_in_what_is_logged() {
        assert_eq!(format!("{:?}", Token::new([7; TOKEN_BYTES])), "Token");
    }
}
