//! A string as a QR code of half blocks: two modules to a character, which on a terminal is about twice as high as wide.

use core::fmt::Write as _;

use qrcode::{Color, EcLevel, QrCode};
use zeroize::Zeroizing;

/// Modules around a code that stay light. The standard asks for four, readers take two, and rows are few on a terminal.
const QUIET: usize = 2;

/// Black on white, whatever the terminal's colours are: of the palette of 256, in which these two are always the same.
pub(crate) const BLACK: u8 = 16;
pub(crate) const WHITE: u8 = 231;

/// A QR code, with what stays light around it.
pub(crate) struct Qr {
    /// Modules of a side, without what is around it.
    width: usize,
    /// Row by row. Wiped: it says what the string says.
    dark: Zeroizing<Vec<bool>>,
}

/// What the terminal's own colours are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Characters are dark, on light: with the colours of [`BLACK`] and [`WHITE`].
    Dark,
    /// Characters are light, on dark: without colours, as most terminals are. On one that is light the code is inverted, which
    /// most readers take.
    Light,
}

impl Qr {
    /// Of a string in which the case of letters does not matter: in capitals it takes a third less room. None if it is longer
    /// than a code can hold.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut capitals = Zeroizing::new(text.to_owned());
        capitals.make_ascii_uppercase();
        let code = QrCode::with_error_correction_level(capitals.as_bytes(), EcLevel::L).ok()?;
        let width = code.width();
        let dark = code.into_colors().into_iter().map(|color| color == Color::Dark).collect();
        Some(Self { width, dark: Zeroizing::new(dark) })
    }

    /// Columns and rows of characters that it takes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let side = self.width + 2 * QUIET;
        (side, side.div_ceil(2))
    }

    /// The rows of characters.
    pub(crate) fn rows(&self, ink: Ink) -> Zeroizing<Vec<String>> {
        let (columns, rows) = self.size();
        let is_inked = |x, y| self.is_dark(x, y) == (ink == Ink::Dark);
        let character = |x: usize, row: usize| match (is_inked(x, 2 * row), is_inked(x, 2 * row + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        let row = |row: usize| (0..columns).map(|x| character(x, row)).collect();
        Zeroizing::new((0..rows).map(row).collect())
    }

    /// The same for standard output, each row with its end.
    pub(crate) fn printed(&self, colors: bool) -> Zeroizing<String> {
        let mut printed = Zeroizing::new(String::new());
        for row in self.rows(if colors { Ink::Dark } else { Ink::Light }).iter() {
            // Writing to a string does not fail.
            let _ = match colors {
                true => writeln!(printed, "\u{1b}[38;5;{BLACK};48;5;{WHITE}m{row}\u{1b}[0m"),
                false => writeln!(printed, "{row}"),
            };
        }
        printed
    }

    /// By its place with what is around it.
    fn is_dark(&self, x: usize, y: usize) -> bool {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < self.width);
        let place = inside(x).zip(inside(y)).map(|(x, y)| y * self.width + x);
        place.and_then(|place| self.dark.get(place)).is_some_and(|dark| *dark)
    }
}

/// What a reader makes of rows of half blocks.
#[cfg(test)]
pub(crate) fn read(rows: &[String], ink: Ink) -> Option<String> {
    /// Pixels of a module's side.
    const SCALE: usize = 4;
    let rows: Vec<Vec<char>> = rows.iter().map(|row| row.chars().collect()).collect();
    let width = rows.iter().map(Vec::len).max()?;
    let is_dark = |x: usize, y: usize| {
        let character = rows.get(y / 2).and_then(|row| row.get(x)).copied().unwrap_or(' ');
        let inked = character == '█' || character == if y.is_multiple_of(2) { '▀' } else { '▄' };
        inked == (ink == Ink::Dark)
    };
    let pixel = |x: usize, y: usize| if is_dark(x / SCALE, y / SCALE) { 0 } else { 255 };
    let mut image = rqrr::PreparedImage::prepare_from_greyscale(width * SCALE, rows.len() * 2 * SCALE, pixel);
    Some(image.detect_grids().first()?.decode().ok()?.1)
}

#[cfg(test)]
mod tests {
    use super::{Ink, Qr, read};

    #[test]
    fn a_reader_finds_the_string_with_and_without_colours() {
        for length in [1, 40, 117, 228, 330, 1000] {
            let text = "sotto://chat.example.org:7370/abcdefghijklmnopqrstuvwxyz234567";
            let text: String = text.chars().cycle().take(length).collect();
            let qr = Qr::of(&text).unwrap();
            for ink in [Ink::Dark, Ink::Light] {
                let rows = qr.rows(ink);
                assert_eq!((rows[0].chars().count(), rows.len()), qr.size());
                assert_eq!(read(&rows, ink), Some(text.to_uppercase()), "{length} {ink:?}");
            }
        }
    }

    #[test]
    fn an_invitation_needs_a_terminal_that_is_higher_than_usual_and_a_string_without_end_none() {
        // With a server of a usual name.
        let (columns, rows) = Qr::of(&"A".repeat(312)).unwrap().size();
        assert!(columns == 57 && rows == 29, "{columns} {rows}");
        assert!(Qr::of(&"A".repeat(5000)).is_none());
    }

    #[test]
    fn what_is_printed_in_colours_is_black_on_white_and_ends_with_its_row() {
        let qr = Qr::of("abc").unwrap();
        let (plain, colored) = (qr.printed(false), qr.printed(true));
        assert!(!plain.contains('\u{1b}') && plain.lines().count() == qr.size().1);
        let framed = |line: &str| line.starts_with("\u{1b}[38;5;16;48;5;231m") && line.ends_with("\u{1b}[0m");
        assert!(colored.lines().all(framed) && colored.lines().count() == qr.size().1);
    }
}
