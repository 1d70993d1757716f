//! What may be a name.

/// Whether a name has 1 to `bytes_max` bytes and nothing in it that a terminal would obey, that turns the direction of
/// writing around, or that breaks a line or takes no room: with those one name could be made to look like another.
///
/// Letters that look alike in two scripts remain: to tell them apart would take tables that change every year, and
/// whether two names are one person is decided by identity keys.
pub(crate) fn is_name(name: &str, bytes_max: usize) -> bool {
    !name.is_empty()
        && name.len() <= bytes_max
        && !name.chars().any(is_deceptive)
        && name.trim() == name
        && !name.contains("  ")
        && joins_only_words(name)
}

/// Whether a name that somebody else has chosen can stand among what programs show beside names: before a colon, behind a mark. It
/// has nothing of what they put there, or looks like it, and does not say that it is the reader.
pub(crate) fn is_name_of_others(name: &str, bytes_max: usize) -> bool {
    is_name(name, bytes_max) && !name.chars().any(is_sign) && !is_same_name(name, "you")
}

/// Signs that are no part of names anywhere: of ASCII and of the symbols and punctuation of others, but for apostrophes, hyphens, full
/// stops and the like.
fn is_sign(character: char) -> bool {
    match character {
        '\'' | '-' | '.' | '_' | '&' | '+' | '\u{2010}'..='\u{2011}' | '\u{2019}' => false,
        '\u{aa}' | '\u{b7}' | '\u{ba}' | '\u{3005}'..='\u{3007}' => false,
        _ => {
            character.is_ascii_punctuation()
                || matches!(
                    character,
                    '\u{a1}'..='\u{bf}'
                        | '\u{d7}'
                        | '\u{f7}'
                        | '\u{2c2}'..='\u{2df}'
                        | '\u{2e5}'..='\u{2ff}'
                        | '\u{37e}'
                        | '\u{387}'
                        | '\u{589}'
                        | '\u{5c0}'
                        | '\u{5c3}'
                        | '\u{60c}'
                        | '\u{61b}'
                        | '\u{61f}'
                        | '\u{66a}'..='\u{66d}'
                        | '\u{703}'..='\u{709}'
                        | '\u{1360}'..='\u{1368}'
                        | '\u{16eb}'..='\u{16ed}'
                        | '\u{1801}'..='\u{1809}'
                        | '\u{2010}'..='\u{2bff}'
                        | '\u{2e00}'..='\u{2e7f}'
                        | '\u{3001}'..='\u{303f}'
                        | '\u{a4fd}'..='\u{a4ff}'
                        | '\u{a789}'..='\u{a78a}'
                        | '\u{fe10}'..='\u{fe1f}'
                        | '\u{fe30}'..='\u{fe6f}'
                        | '\u{ff01}'..='\u{ff0f}'
                        | '\u{ff1a}'..='\u{ff20}'
                        | '\u{ff3b}'..='\u{ff40}'
                        | '\u{ff5b}'..='\u{ff65}'
                        | '\u{ffe0}'..='\u{ffef}'
                )
        }
    }
}

/// What takes no room, or looks like a blank and is none. The two joiners, U+200C and U+200D, are not among them: some
/// languages cannot be written without.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || (character.is_whitespace() && character != ' ')
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether joiners stand between characters beyond ASCII only, where they can show.
fn joins_only_words(name: &str) -> bool {
    let joins = |character: &char| matches!(character, '\u{200c}' | '\u{200d}');
    let characters: Vec<char> = name.chars().collect();
    (0..characters.len()).filter(|place| characters.get(*place).is_some_and(joins)).all(|place| {
        let shows = |neighbour: Option<usize>| {
            let neighbour = neighbour.and_then(|place| characters.get(place));
            neighbour.is_some_and(|neighbour| !neighbour.is_ascii() && !joins(neighbour))
        };
        shows(place.checked_sub(1)) && shows(place.checked_add(1))
    })
}

/// Whether people would take two names for one, but for letters that look alike in two scripts.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{is_name, is_name_of_others, is_same_name, is_sign};

    #[test]
    fn a_name_that_would_show_as_another_is_refused() {
        for good in ["bob", "Zo\u{eb}", "\u{645}\u{6cc}\u{200c}\u{62e}", "a b", "1234567890123456"] {
            assert!(is_name(good, 16), "{good}");
        }
        for bad in ["", "12345678901234567", "b\u{7f}", "a\nb", " bob", "bob ", "a  b"] {
            assert!(!is_name(bad, 16), "{bad:?}");
        }
        assert!(is_same_name("Bob", "bob") && !is_same_name("bob", "rob"));
    }

    #[test]
    fn a_name_on_a_card_looks_like_nothing_that_programs_say() {
        for good in
            ["bob", "Zo\u{eb}", "O'Brien", "O\u{2019}Brien", "J.-P. K", "\u{30b8}\u{30e7}\u{30f3}\u{30fb}D"]
        {
            assert!(is_name_of_others(good, 64), "{good}");
        }
        for bad in [
            "* ALARM",
            "Bob: ok",
            "Bob\u{ff1a}",
            "Bob\u{a789}",
            "you",
            "You",
            "[arrived] you",
            "a@b",
            "(you)",
            "#1",
            "\u{2713} me",
            "\u{2022} x",
            "! x",
            "> x",
            "a|b",
            " bob",
        ] {
            assert!(!is_name_of_others(bad, 64), "{bad}");
        }
    }

    /// What the specification lists, and nothing else.
    #[test]
    fn signs_on_a_card_are_those_of_the_specification() {
        let ranges = [
            (0xa1, 0xbf),
            (0xd7, 0xd7),
            (0xf7, 0xf7),
            (0x2c2, 0x2df),
            (0x2e5, 0x2ff),
            (0x37e, 0x37e),
            (0x387, 0x387),
            (0x589, 0x589),
            (0x5c0, 0x5c0),
            (0x5c3, 0x5c3),
            (0x60c, 0x60c),
            (0x61b, 0x61b),
            (0x61f, 0x61f),
            (0x66a, 0x66d),
            (0x703, 0x709),
            (0x1360, 0x1368),
            (0x16eb, 0x16ed),
            (0x1801, 0x1809),
            (0x2010, 0x2bff),
            (0x2e00, 0x2e7f),
            (0x3001, 0x303f),
            (0xa4fd, 0xa4ff),
            (0xa789, 0xa78a),
            (0xfe10, 0xfe1f),
            (0xfe30, 0xfe6f),
            (0xff01, 0xff0f),
            (0xff1a, 0xff20),
            (0xff3b, 0xff40),
            (0xff5b, 0xff65),
            (0xffe0, 0xffef),
        ];
        let names = "'-._&+\u{aa}\u{b7}\u{ba}\u{2010}\u{2011}\u{2019}\u{3005}\u{3006}\u{3007}";
        for character in '\0'..=char::MAX {
            let code = u32::from(character);
            let listed = ranges.iter().any(|(first, last)| (first..=last).contains(&&code));
            let expected = (listed || character.is_ascii_punctuation()) && !names.contains(character);
            assert_eq!(is_sign(character), expected, "U+{code:04X}");
        }
    }

    /// All that the specification lists, the first and the last of every range, anywhere in a name.
    #[test]
    fn what_cannot_be_seen_is_no_part_of_a_name() {
        let ranges = [
            (0x0, 0x1f),
            (0x7f, 0xa0),
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x1680, 0x1680),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x2000, 0x200b),
            (0x200e, 0x200f),
            (0x2028, 0x202f),
            (0x205f, 0x206f),
            (0x2800, 0x2800),
            (0x3000, 0x3000),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff0, 0xfffb),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
        ];
        for (first, last) in ranges {
            for code in first..=last {
                let hidden = char::from_u32(code).unwrap();
                for name in [format!("bo{hidden}b"), format!("{hidden}bob"), format!("bob{hidden}")] {
                    assert!(!is_name(&name, 64), "{name:?}");
                }
            }
        }
        for joiner in ['\u{200c}', '\u{200d}'] {
            for name in [
                format!("bo{joiner}b"),
                format!("\u{645}{joiner}"),
                format!("\u{645}{joiner}{joiner}\u{645}"),
            ] {
                assert!(!is_name(&name, 64), "{name:?}");
            }
        }
    }
}
