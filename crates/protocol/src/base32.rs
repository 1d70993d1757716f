//! The base32 of all strings that people copy and of the files that keep keys.

use std::sync::LazyLock;

use data_encoding::{BitOrder, Encoding, Specification};

/// RFC 4648 in lower case and without padding; letters are read in either case. What has bits left over that are not
/// zero is refused, so that no two strings of one case mean the same bytes.
pub static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    specification.translate.from.push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    specification.translate.to.push_str("abcdefghijklmnopqrstuvwxyz");
    specification.bit_order = BitOrder::MostSignificantFirst;
    specification.encoding().expect("32 different symbols, and every capital stands for one of them")
});

#[cfg(test)]
mod tests {
    use data_encoding::BASE32_NOPAD;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::BASE32;

    proptest! {
        #[test]
        fn bytes_are_written_as_the_standard_says_in_lower_case(bytes in vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(BASE32.encode(&bytes), BASE32_NOPAD.encode(&bytes).to_ascii_lowercase());
        }

        #[test]
        fn a_string_is_read_in_either_case_and_as_the_standard_says(text in "[A-Za-z0-9=\\- \n]{0,12}|[a-zA-Z2-7]{0,60}") {
            let standard = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes());
            prop_assert_eq!(BASE32.decode(text.as_bytes()).ok(), standard.ok());
        }
    }
}
