//! Columns that signs take on a terminal. Terminals differ in what they take for one sign, and in how wide that is: this is the
//! most that one takes. Where less is taken there is a gap; where more is, rows are broken by the terminal, and what somebody
//! wrote stands where another's line may begin.

use unicode_width::UnicodeWidthChar as _;

/// Makes the sign before it a picture, in two columns where it had one.
const PICTURE: char = '\u{fe0f}';

/// Of a text, or a part of one.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(of_sign).sum()
}

/// Of a sign by itself, whatever stands beside it.
pub(crate) fn of_sign(sign: char) -> usize {
    match sign {
        ' '..='~' => 1,
        PICTURE => 1,
        '\u{302e}'..='\u{302f}' | '\u{16ff0}'..='\u{16ff1}' | '\u{3248}'..='\u{324f}' => 2,
        _ if is_drawn_beside(sign) => 1,
        _ => sign.width().unwrap_or(1),
    }
}

/// Vowels and other signs that are part of the letter before them, by Unicode's rules for what a person takes for one sign, and that
/// terminals draw in a column of their own: found by comparing all signs with what `wcwidth` and a terminal make of them.
fn is_drawn_beside(sign: char) -> bool {
    matches!(
        sign,
        '\u{605}'
            | '\u{70f}'
            | '\u{8e2}'
            | '\u{9be}'
            | '\u{9d7}'
            | '\u{b3e}'
            | '\u{b57}'
            | '\u{bbe}'
            | '\u{bd7}'
            | '\u{cc0}'
            | '\u{cc2}'
            | '\u{cc7}'..='\u{cc8}'
            | '\u{cca}'..='\u{ccb}'
            | '\u{cd5}'..='\u{cd6}'
            | '\u{d3e}'
            | '\u{d4e}'
            | '\u{d57}'
            | '\u{dcf}'
            | '\u{ddf}'
            | '\u{1715}'
            | '\u{1734}'
            | '\u{1b35}'
            | '\u{1b3b}'
            | '\u{1b3d}'
            | '\u{1b43}'..='\u{1b44}'
            | '\u{1baa}'
            | '\u{1bf2}'..='\u{1bf3}'
            | '\u{a8fa}'
            | '\u{a953}'
            | '\u{a9c0}'
            | '\u{111c0}'
            | '\u{111c2}'..='\u{111c3}'
            | '\u{11235}'
            | '\u{1133e}'
            | '\u{1134d}'
            | '\u{11357}'
            | '\u{113b8}'..='\u{113cf}'
            | '\u{114b0}'
            | '\u{114bd}'
            | '\u{115af}'
            | '\u{116b6}'
            | '\u{11930}'
            | '\u{1193d}'
            | '\u{1193f}'
            | '\u{11941}'
            | '\u{11a84}'..='\u{11a89}'
            | '\u{11d46}'
            | '\u{11f02}'
            | '\u{1d165}'..='\u{1d166}'
            | '\u{1d16d}'..='\u{1d172}'
    )
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn a_sign_takes_as_much_as_a_terminal_may_give_it() {
        for (text, most) in [
            ("Grüße", 5),
            ("e\u{301}", 1),
            ("你好", 4),
            ("நான்", 3),
            ("কা", 2),
            ("हिन्दी", 5),
            ("\u{3248}", 2),
            ("x\u{302e}", 3),
            ("\u{2764}\u{fe0f}", 2),
            ("👩\u{200d}👧", 4),
            ("🇪🇺", 2),
            ("👋🏽", 4),
        ] {
            assert_eq!(columns(text), most, "{text}");
        }
    }
}
