//! What a client signs to prove that it holds an account key.

/// Domain of the signature.
pub const DOMAIN: &[u8] = b"sotto v1 register";

/// The bytes to sign: domain, the server's manifest key, the account, the server's nonce.
///
/// The server's key stands in them so that one server cannot pass another's challenge on.
#[must_use]
pub fn message(manifest_key: &[u8; 32], account: &[u8; 32], nonce: &[u8; 32]) -> Vec<u8> {
    [DOMAIN, manifest_key, account, nonce].concat()
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn no_part_can_stand_for_another() {
        let signed = message(&[1; 32], &[2; 32], &[3; 32]);
        assert_eq!(signed.len(), super::DOMAIN.len() + 96);
        assert_ne!(signed, message(&[2; 32], &[1; 32], &[3; 32]));
        assert_ne!(signed, message(&[1; 32], &[3; 32], &[2; 32]));
    }
}
