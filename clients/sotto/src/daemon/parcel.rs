//! Files on their way: cut into texts, each of which says which part of which file it is. They are sent like other texts of their
//! length, in the conversation's turns, and nothing tells them from those but what they say.
//!
//! ```text
//! part    = U+0002 "f" | file (16) | "." | number, decimal | "." | parts, decimal | U+0003 | content, base64 without padding
//! end     = the same, with the number of parts as its number, and for the content: size, decimal | "." | name
//! file    = 16 characters of base 32, the first 80 bits of SHA-256("sotto v1 file" | 0 | length of the name, u64 | name | content)
//! ```
//!
//! Parts are numbered from 0 and have 1,536 bytes, but for the last. The end comes behind all of them.

use data_encoding::BASE64_NOPAD;
use sha2::{Digest as _, Sha256};
use sotto_protocol::base32::BASE32;
use zeroize::Zeroizing;

use super::reply::canonical;

/// The longest file.
pub(crate) const FILE_BYTES_MAX: usize = 64 * 1024;
const PART_BYTES: usize = 1536;
/// Of the longest file, without its end.
pub(crate) const PARTS_MAX: u16 = FILE_BYTES_MAX.div_ceil(PART_BYTES) as u16;
const NAME_BYTES_MAX: usize = 255;
const FILE_CHARACTERS: usize = 16;
const DOMAIN: &[u8] = b"sotto v1 file\0";
const BEGIN: &str = "\u{2}f";
const END: char = '\u{3}';

/// A file as it is sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Parcel {
    name: String,
    content: Zeroizing<Vec<u8>>,
}

/// A text that is a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: String,
    pub(crate) number: u16,
    pub(crate) parts: u16,
    pub(crate) says: Says,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Content(Vec<u8>),
    /// All parts are there.
    End {
        size: u32,
        name: String,
    },
}

impl Parcel {
    /// None of a file that is empty or too long, or whose name is.
    pub(crate) fn new(name: &str, content: Vec<u8>) -> Option<Self> {
        let fits =
            (1..=FILE_BYTES_MAX).contains(&content.len()) && (1..=NAME_BYTES_MAX).contains(&name.len());
        fits.then(|| Self { name: name.to_owned(), content: Zeroizing::new(content) })
    }

    /// The file whose parts these are, if they are all of the one that the end names.
    pub(crate) fn of(
        file: &str,
        size: u32,
        name: &str,
        parts: impl Iterator<Item = Vec<u8>>,
    ) -> Option<Self> {
        let parcel = Self::new(name, parts.flatten().collect())?;
        (parcel.content.len() == size as usize && parcel.file() == file).then_some(parcel)
    }

    /// What it is called on its way.
    pub(crate) fn file(&self) -> String {
        let digest = Sha256::new_with_prefix(DOMAIN)
            .chain_update((self.name.len() as u64).to_le_bytes())
            .chain_update(&self.name)
            .chain_update(&self.content[..])
            .finalize();
        BASE32.encode(&digest).chars().take(FILE_CHARACTERS).collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Without the end.
    pub(crate) fn parts(&self) -> u16 {
        parts(self.content.len())
    }

    /// What is sent, by number up to that of the end.
    pub(crate) fn text(&self, number: u16) -> Zeroizing<String> {
        let head = format!("{BEGIN}{}.{number}.{}{END}", self.file(), self.parts());
        Zeroizing::new(match self.content.chunks(PART_BYTES).nth(number.into()) {
            Some(part) => format!("{head}{}", BASE64_NOPAD.encode(part)),
            None => format!("{head}{}.{}", self.content.len(), self.name),
        })
    }

    /// Messages that all of it takes, of so many bytes each.
    pub(crate) fn messages(&self, each: usize) -> u64 {
        lengths(self.content.len(), self.name.len()).map(|length| length.div_ceil(each.max(1)) as u64).sum()
    }
}

/// Parts of a file of so many bytes, without the end.
pub(crate) fn parts(size: usize) -> u16 {
    // At most 43.
    size.div_ceil(PART_BYTES) as u16
}

/// Bytes of the texts by which a file of so many bytes is sent, whose name has so many.
pub(crate) fn lengths(size: usize, name: usize) -> impl Iterator<Item = usize> {
    let parts = parts(size);
    let digits = |number: usize| number.to_string().len();
    (0..=parts).map(move |number| {
        let head = BEGIN.len() + FILE_CHARACTERS + digits(number.into()) + digits(parts.into()) + "..".len();
        let part = size.saturating_sub(usize::from(number) * PART_BYTES).min(PART_BYTES);
        let said = if number == parts { digits(size) + ".".len() + name } else { (4 * part).div_ceil(3) };
        head + END.len_utf8() + said
    })
}

/// Takes a text apart that is a part of a file.
pub(crate) fn read(text: &str) -> Option<Part> {
    let (head, rest) = text.strip_prefix(BEGIN)?.split_once(END)?;
    let (file, numbers) = head.split_once('.')?;
    let (number, parts) = numbers.split_once('.')?;
    let (number, parts) = (canonical(number)?, canonical(parts)?);
    let named = file.len() == FILE_CHARACTERS && file.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !named || !(1..=PARTS_MAX).contains(&parts) || number > parts {
        return None;
    }
    let says = if number == parts {
        let (size, name) = rest.split_once('.')?;
        let size: u32 = canonical(size)?;
        if size as usize > FILE_BYTES_MAX || !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return None;
        }
        Says::End { size, name: name.to_owned() }
    } else {
        Says::Content(BASE64_NOPAD.decode(rest.as_bytes()).ok().filter(|part| part.len() <= PART_BYTES)?)
    };
    Some(Part { file: file.to_owned(), number, parts, says })
}

/// Whether a text is for no person: a part of a file, but for its end, which tells of the whole.
pub(crate) fn is_content(text: &str) -> bool {
    matches!(read(text), Some(Part { says: Says::Content(_), .. }))
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES_MAX, PARTS_MAX, Parcel, Says, is_content, lengths, read};

    #[test]
    fn a_file_is_what_its_parts_say_and_nothing_else() {
        for size in [1, 1535, 1536, 1537, FILE_BYTES_MAX] {
            let content: Vec<u8> = (0..size).map(|at| (at * 7 / 3) as u8).collect();
            let parcel = Parcel::new("a.name with . and é", content.clone()).unwrap();
            let texts: Vec<_> = (0..=parcel.parts()).map(|number| parcel.text(number)).collect();
            assert!(texts.iter().all(|text| text.len() <= 2100) && texts.len() <= usize::from(PARTS_MAX) + 1);
            let mut contents = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                let part = read(text).unwrap();
                assert_eq!((usize::from(part.number), part.parts), (number, parcel.parts()));
                match part.says {
                    Says::Content(content) => contents.push(content),
                    Says::End { size: said, name } => {
                        assert_eq!(said as usize, size);
                        let all = contents.clone().into_iter();
                        assert!(
                            Parcel::of(&part.file, said, &name, all).is_some_and(|whole| whole == parcel)
                        );
                        let some = contents.clone().into_iter().skip(1);
                        assert!(Parcel::of(&part.file, said, &name, some).is_none());
                        let all = contents.clone().into_iter();
                        assert!(Parcel::of(&part.file, said, "another", all).is_none());
                    }
                }
            }
            assert!(texts[..texts.len() - 1].iter().all(|text| is_content(text)));
            assert!(!is_content(texts.last().unwrap()));
            let said: Vec<usize> = texts.iter().map(|text| text.len()).collect();
            assert_eq!(lengths(size, parcel.name().len()).collect::<Vec<_>>(), said);
            assert!(parcel.messages(232) >= (size * 4 / 3 / 232) as u64);
        }
        assert!(Parcel::new("empty", Vec::new()).is_none() && Parcel::new("", vec![1]).is_none());
        assert!(Parcel::new("long", vec![1; FILE_BYTES_MAX + 1]).is_none());
        let file = "a".repeat(16);
        for none in [
            "f".to_owned(),
            format!("\u{2}f{file}.0.1"),
            format!("\u{2}f{file}.2.1\u{3}AAAA"),
            format!("\u{2}f{file}.0.0\u{3}1.name"),
            format!("\u{2}f{file}.0.44\u{3}AAAA"),
            format!("\u{2}f{file}.0.1\u{3}not base64"),
            format!("\u{2}f{file}.1.1\u{3}99999999.name"),
            format!("\u{2}f{file}.1.1\u{3}5."),
            format!("\u{2}f{file}.01.1\u{3}5.name"),
            format!("\u{2}f{file}.1.1\u{3}+5.name"),
            format!("\u{2}f{}.0.1\u{3}AAAA", &file[1..]),
        ] {
            assert_eq!(read(&none), None, "{none}");
        }
    }
}
