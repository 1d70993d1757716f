//! The fuzzed functions, driven with arbitrary bytes and with valid encodings that were damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use proptest::prelude::{ProptestConfig, proptest};

use super::valid;
use mutations::damaged;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn fuzz_manifest(bytes in damaged(valid("manifest"))) {
        super::fuzz_manifest(&bytes);
    }

    #[test]
    fn fuzz_directory(bytes in damaged(valid("directory"))) {
        super::fuzz_directory(&bytes);
    }

    #[test]
    fn fuzz_manifest_chain(bytes in damaged(valid("manifest_chain"))) {
        super::fuzz_manifest_chain(&bytes);
    }

    #[test]
    fn fuzz_mapping(bytes in damaged(valid("mapping"))) {
        super::fuzz_mapping(&bytes);
    }

    #[test]
    fn fuzz_deposit(bytes in damaged(valid("deposit"))) {
        super::fuzz_deposit(&bytes);
    }

    #[test]
    fn fuzz_table(bytes in damaged(valid("table"))) {
        super::fuzz_table(&bytes);
    }

    #[test]
    fn fuzz_message(bytes in damaged(valid("message"))) {
        super::fuzz_message(&bytes);
    }

    #[test]
    fn fuzz_box(bytes in damaged(valid("box"))) {
        super::fuzz_box(&bytes);
    }

    #[test]
    fn fuzz_pair(bytes in damaged(valid("pair"))) {
        super::fuzz_pair(&bytes);
    }

    #[test]
    fn fuzz_group(bytes in damaged(valid("group"))) {
        super::fuzz_group(&bytes);
    }

    #[test]
    fn fuzz_invitation(bytes in damaged(valid("invitation"))) {
        super::fuzz_invitation(&bytes);
    }

    #[test]
    fn fuzz_card(bytes in damaged(valid("card"))) {
        super::fuzz_card(&bytes);
    }

    #[test]
    fn fuzz_announcement(bytes in damaged(valid("announcement"))) {
        super::fuzz_announcement(&bytes);
    }

    #[test]
    fn fuzz_client_state(bytes in damaged(valid("client_state"))) {
        super::fuzz_client_state(&bytes);
    }

    #[test]
    fn fuzz_answers(bytes in damaged(valid("answers"))) {
        super::fuzz_answers(&bytes);
    }
}

/// A decoder that refuses everything would pass all others.
#[test]
fn valid_encodings_are_what_they_claim_to_be() {
    use crate::{Client, GroupCard, Invitation, Manifest};

    let text = |decoder: &str| String::from_utf8(valid(decoder).remove(0)).unwrap();
    assert!(text("invitation").parse::<Invitation>().is_ok());
    assert!(text("card").parse::<GroupCard>().is_ok());
    assert!(Client::restore(&valid("client_state")[0]).is_ok());
    for signed in valid("directory") {
        let (directory, signature) = signed.split_at(super::DIRECTORY_BYTES);
        let key = super::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
        let signed = crate::SignedDirectory::from_parts(directory, signature).unwrap();
        assert!(signed.verify(&[0; 32], &key).is_ok());
    }
    assert!(crate::ServerParameters::decode(&valid("announcement")[0]).is_ok());
    for round in valid("mapping") {
        let (manifest, mapping) = round.split_at(super::MANIFEST_BYTES);
        let manifest = Manifest::decode(manifest).unwrap();
        if manifest.code.has_slots() {
            assert!(mapping.is_empty() && manifest.table().is_some() && manifest.slot_code().is_ok());
        } else {
            assert!(crate::BloomMapping::decode(mapping, &manifest).is_ok());
        }
    }
    let messages = valid("message");
    let readable = messages.iter().filter(|message| {
        message.len() == super::PLAINTEXT_BYTES
            && super::Frame::decode(&super::plaintext(message), crate::Round(20)).is_ok()
    });
    assert_eq!(readable.count(), 6);
}
