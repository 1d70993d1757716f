//! The fuzzed function, driven with arbitrary bytes and with a valid encoding that was damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use mutations::damaged;
use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fuzz_round_event(bytes in damaged(vec![
        [&[1, 12, 1][..], &[3; MANIFEST_BYTES + SIGNATURE_BYTES]].concat(),
        [&[200, 16, 32][..], &[3; DIRECTORY_BYTES + SIGNATURE_BYTES]].concat(),
    ])) {
        super::fuzz_round_event(&bytes);
    }
}
