//! What may be a name.

/// Whether a name has 1 to `bytes_max` bytes and nothing in it that a terminal would obey, that turns the direction of
/// writing around, or that breaks a line or takes no room: with those one name could be made to look like another.
pub(crate) fn is_name(name: &str, bytes_max: usize) -> bool {
    !name.is_empty() && name.len() <= bytes_max && !name.chars().any(is_deceptive)
}

/// The two joiners, U+200C and U+200D, are not among them: some languages cannot be written without.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_that_would_show_as_another_is_refused() {
        for good in ["bob", "Zo\u{eb}", "\u{645}\u{6cc}\u{200c}\u{62e}", "a b", "1234567890123456"] {
            assert!(is_name(good, 16), "{good}");
        }
        for bad in [
            "",
            "12345678901234567",
            "b\u{7f}",
            "a\nb",
            "\u{202e}bob",
            "bo\u{200b}b",
            "\u{2066}x",
            "b\u{feff}",
            "\u{61c}",
        ] {
            assert!(!is_name(bad, 16), "{bad:?}");
        }
    }
}
