//! The fuzzed functions, driven with arbitrary bytes and with valid encodings that were damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fuzz_address(bytes in damaged(valid())) {
        super::fuzz_address(&bytes);
    }

    #[test]
    fn fuzz_state_file(bytes in damaged(valid())) {
        super::fuzz_state_file(&bytes);
    }

    #[test]
    fn fuzz_history(bytes in damaged(valid())) {
        super::fuzz_history(&bytes);
    }

    #[test]
    fn fuzz_text(bytes in damaged(valid())) {
        super::fuzz_text(&bytes);
    }

    #[test]
    fn fuzz_proof(bytes in damaged(valid())) {
        super::fuzz_proof(&bytes);
    }
}

/// A decoder that refuses everything would pass all others.
#[test]
fn valid_encodings_are_what_they_claim_to_be() {
    let valid = valid();
    assert!(core::str::from_utf8(&valid[0]).unwrap().parse::<crate::Address>().is_ok());
    assert!(crate::store::format::decode(&valid[1]).is_ok());
    assert!(crate::store::format::decode(&crate::store::format::checked(1, &valid[2])).is_ok());
    assert!(sotto_participant::audit::Proof::decode(&valid[6].clone().into()).is_ok());
    let several = core::str::from_utf8(&valid[7]).unwrap().parse::<crate::Address>().unwrap();
    assert_eq!(several.authorities().count(), 3);
}
