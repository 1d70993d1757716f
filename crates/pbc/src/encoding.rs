//! The result of Encode: which codeword lies where, and its bytes.

use core::ops::Index;

use rayon::prelude::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

use crate::{BucketIndex, Error};

/// The content of one place in a bucket, as the numbers of the elements whose exclusive or it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codeword(Elements);

/// One element is by far the commonest, two come next, and neither needs an allocation. The box around the vector
/// keeps the whole at two words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "a vector or a boxed slice would make every codeword half as large again"
)]
enum Elements {
    None,
    One(u32),
    Two([u32; 2]),
    Several(Box<Vec<u32>>),
}

impl Codeword {
    /// A copy of one element.
    pub const fn copy(element: u32) -> Self {
        Self(Elements::One(element))
    }

    /// All zeros: the exclusive or of no element.
    pub const fn nothing() -> Self {
        Self(Elements::None)
    }

    /// The exclusive or of several elements; of none, the codeword is all zeros.
    pub fn sum(elements: &[u32]) -> Self {
        match elements {
            [] => Self::nothing(),
            [one] => Self::copy(*one),
            [one, other] => Self(Elements::Two([*one, *other])),
            several => Self(Elements::Several(Box::new(several.to_vec()))),
        }
    }

    /// The numbers of the elements.
    pub fn elements(&self) -> &[u32] {
        match &self.0 {
            Elements::None => &[],
            Elements::One(element) => core::slice::from_ref(element),
            Elements::Two(elements) => elements,
            Elements::Several(elements) => elements,
        }
    }
}

/// Which codeword lies at which position of which bucket.
///
/// Several buckets may have the same content, which is held, and made into bytes, only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    elements: usize,
    contents: Vec<Vec<Codeword>>,
    /// Buckets with each content; bucket `i` has content `i / copies`.
    copies: usize,
}

impl Encoding {
    /// The encoding of `elements` elements into these buckets.
    ///
    /// # Errors
    /// [`Error::Shape`] if a codeword names an element that does not exist.
    pub fn new(elements: usize, buckets: Vec<Vec<Codeword>>) -> Result<Self, Error> {
        let exists = |element: &u32| (*element as usize) < elements;
        if !buckets.iter().flatten().flat_map(Codeword::elements).all(exists) {
            return Err(Error::Shape("a codeword of an element that does not exist"));
        }
        Ok(Self { elements, contents: buckets, copies: 1 })
    }

    /// For a code of this crate, whose element numbers are below `elements` by construction.
    pub(crate) const fn of_copies(elements: usize, contents: Vec<Vec<Codeword>>, copies: u32) -> Self {
        Self { elements, contents, copies: copies as usize }
    }

    /// The number `n` of elements encoded.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// The buckets C_0 to C_{b-1}, each a list of codewords.
    pub const fn buckets(&self) -> Buckets<'_> {
        Buckets { contents: self.contents.as_slice(), copies: self.copies }
    }

    /// The different contents; each of them is that of [`Encoding::copies`] buckets that follow each other.
    pub fn contents(&self) -> &[Vec<Codeword>] {
        &self.contents
    }

    /// The number of buckets that share a content: bucket `i` has content `i / copies`.
    pub const fn copies(&self) -> usize {
        self.copies
    }

    /// The total number `m` of codewords in all buckets.
    pub fn codewords(&self) -> usize {
        self.contents.iter().map(Vec::len).sum::<usize>() * self.copies
    }

    /// Codewords in the largest bucket: the least number that all buckets can be padded to.
    pub fn largest(&self) -> usize {
        self.contents.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The bytes of every bucket: its codewords one after the other, then zeros up to `padded` codewords.
    /// Buckets are made in parallel.
    ///
    /// `elements` is the concatenation of all elements in the order of their numbers, `element_bytes` bytes each.
    ///
    /// # Errors
    /// [`Error::Shape`] if that is not its size; [`Error::Capacity`] if `padded` is below [`Encoding::largest`].
    pub fn materialise(
        &self,
        element_bytes: usize,
        elements: &[u8],
        padded: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut contents = Vec::new();
        self.materialise_contents(element_bytes, elements, padded, &mut contents)?;
        if self.copies == 1 {
            return Ok(contents);
        }
        Ok(contents.into_iter().flat_map(|bytes| core::iter::repeat_n(bytes, self.copies)).collect())
    }

    /// The bytes of every one of [`Encoding::contents`], as in [`Encoding::materialise`], into buffers that are used
    /// again: where an operating system is slow to hand out memory, that is most of the time.
    ///
    /// # Errors
    /// As for [`Encoding::materialise`]; the buffers then hold nothing of use.
    pub fn materialise_contents(
        &self,
        element_bytes: usize,
        elements: &[u8],
        padded: usize,
        buffers: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        let size = self.bucket_bytes(element_bytes, elements, padded)?;
        buffers.resize_with(self.contents.len(), Vec::new);
        for (buffer, content) in buffers.iter_mut().zip(&self.contents) {
            prepare(buffer, size, content, padded)?;
        }
        // Codes sort all buckets by the same hash: what stands at the same height is made of the same elements. Window
        // by window, an element is fetched from memory for its first copy, and from the cache for the others.
        let windows = elements.len().div_ceil(WINDOW).max(1);
        for window in 0..windows {
            buffers.par_iter_mut().zip(&self.contents).for_each(|(buffer, content)| {
                let [start, end] = [window, window + 1].map(|window| content.len() * window / windows);
                append(buffer, &content[start..end], element_bytes, elements);
            });
        }
        buffers.iter_mut().for_each(|buffer| buffer.resize(size, 0));
        Ok(())
    }

    /// The bytes of one bucket, as in [`Encoding::materialise`], for a machine that serves only some buckets.
    ///
    /// # Errors
    /// As for [`Encoding::materialise`]; [`Error::Shape`] also if there is no such bucket.
    pub fn materialise_bucket(
        &self,
        bucket: BucketIndex,
        element_bytes: usize,
        elements: &[u8],
        padded: usize,
    ) -> Result<Vec<u8>, Error> {
        let content = self.contents.get(bucket.to_usize() / self.copies);
        let content = content.ok_or(Error::Shape("no such bucket"))?;
        let size = self.bucket_bytes(element_bytes, elements, padded)?;
        let mut bytes = Vec::new();
        prepare(&mut bytes, size, content, padded)?;
        append(&mut bytes, content, element_bytes, elements);
        bytes.resize(size, 0);
        Ok(bytes)
    }

    /// The size of every bucket, if there can be one.
    fn bucket_bytes(&self, element_bytes: usize, elements: &[u8], padded: usize) -> Result<usize, Error> {
        if element_bytes == 0 {
            return Err(Error::Shape("an element has no bytes"));
        }
        if self.elements.checked_mul(element_bytes) != Some(elements.len()) {
            return Err(Error::Shape("as many elements as were encoded, of equal size"));
        }
        padded.checked_mul(element_bytes).ok_or(Error::Shape("a bucket exceeds the memory"))
    }
}

/// Empties a buffer and makes room for a bucket.
fn prepare(buffer: &mut Vec<u8>, size: usize, content: &[Codeword], padded: usize) -> Result<(), Error> {
    if content.len() > padded {
        return Err(Error::Capacity { codewords: content.len(), padded });
    }
    buffer.clear();
    buffer.reserve_exact(size);
    Ok(())
}

/// Appends the bytes of some codewords.
fn append(bytes: &mut Vec<u8>, codewords: &[Codeword], element_bytes: usize, elements: &[u8]) {
    let element = |number: u32| &elements[number as usize * element_bytes..][..element_bytes];
    for codewords in codewords.chunks(AT_ONCE) {
        touch(codewords.iter().flat_map(Codeword::elements).map(|number| element(*number)));
        for codeword in codewords {
            match codeword.elements() {
                [] => bytes.resize(bytes.len() + element_bytes, 0),
                [first, others @ ..] => {
                    let start = bytes.len();
                    bytes.extend_from_slice(element(*first));
                    others.iter().for_each(|number| xor_into(&mut bytes[start..], element(*number)));
                }
            }
        }
    }
}

/// The buckets of an [`Encoding`], in their order.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<'a> {
    contents: &'a [Vec<Codeword>],
    copies: usize,
}

impl<'a> Buckets<'a> {
    /// The number `b` of buckets.
    pub const fn len(&self) -> usize {
        self.contents.len() * self.copies
    }

    /// Whether there is no bucket.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The codewords of every bucket.
    pub fn iter(self) -> impl Iterator<Item = &'a Vec<Codeword>> + 'a {
        self.contents.iter().flat_map(move |content| core::iter::repeat_n(content, self.copies))
    }
}

impl Index<usize> for Buckets<'_> {
    type Output = Vec<Codeword>;

    fn index(&self, bucket: usize) -> &Vec<Codeword> {
        &self.contents[bucket / self.copies]
    }
}

impl<'a> IntoIterator for Buckets<'a> {
    type Item = &'a Vec<Codeword>;
    type IntoIter = Box<dyn Iterator<Item = &'a Vec<Codeword>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// Bytes of the elements that the codewords of one window are made of, about: they fit in a processor's cache.
const WINDOW: usize = 2 << 20;

/// Codewords whose elements are fetched at once.
const AT_ONCE: usize = 16;

/// Loads a byte of every other cache line. No load depends on another, so that the processor waits for all of them
/// together instead of for one element after the other, scattered as they are; it fetches neighbouring lines by itself.
fn touch<'a>(elements: impl Iterator<Item = &'a [u8]>) {
    let mut sum = 0;
    for element in elements {
        for byte in element.iter().step_by(128) {
            sum |= byte;
        }
    }
    core::hint::black_box(sum);
}

fn xor_into(sum: &mut [u8], summand: &[u8]) {
    for (sum, summand) in sum.iter_mut().zip(summand) {
        *sum ^= summand;
    }
}

#[cfg(test)]
mod tests {
    use super::{Codeword, Encoding, WINDOW};
    use crate::{BucketIndex, Error};

    /// A code with coded buckets reads the exclusive or of several elements.
    #[test]
    fn codewords_are_exclusive_ors_at_their_positions() {
        let buckets =
            vec![vec![Codeword::copy(0), Codeword::copy(2)], vec![Codeword::sum(&[0, 1, 2])], vec![]];
        let encoding = Encoding::new(3, buckets).unwrap();
        let bytes = encoding.materialise(2, &[1, 2, 4, 8, 16, 32], 2).unwrap();
        assert_eq!(bytes, [vec![1, 2, 16, 32], vec![21, 42, 0, 0], vec![0; 4]]);
        assert_eq!(Codeword::sum(&[7]), Codeword::copy(7));
    }

    /// Whoever serves some buckets only, or asks what stands in one, must find what all others find there.
    #[test]
    fn every_bucket_with_a_shared_content_is_made_by_itself_too() {
        let contents = vec![
            vec![Codeword::copy(2)],
            vec![Codeword::copy(0), Codeword::copy(1)],
            vec![Codeword::sum(&[0, 1, 2])],
        ];
        let encoding = Encoding::of_copies(3, contents, 2);
        let all = encoding.materialise(1, &[5, 6, 7], 2).unwrap();
        assert_eq!(all, [[7, 0], [7, 0], [5, 6], [5, 6], [4, 0], [4, 0]]);
        for (bucket, bytes) in (0..6).zip(&all) {
            let alone = encoding.materialise_bucket(BucketIndex(bucket), 1, &[5, 6, 7], 2);
            assert_eq!(alone.as_ref(), Ok(bytes), "{bucket}");
            assert_eq!(encoding.buckets()[bucket as usize], encoding.contents()[bucket as usize / 2]);
        }
        let beyond = encoding.materialise_bucket(BucketIndex(6), 1, &[5, 6, 7], 2);
        assert!(matches!(beyond, Err(Error::Shape(_))));
        assert_eq!((encoding.buckets().len(), encoding.buckets().is_empty()), (6, false));
        assert!(Encoding::of_copies(0, vec![], 2).buckets().is_empty());
    }

    /// A large round is made window by window: none of its codewords may be left out, or come twice.
    #[test]
    fn elements_of_several_windows_are_all_there() {
        let element_bytes = WINDOW / 2;
        let contents = vec![
            (0..5).map(Codeword::copy).collect::<Vec<_>>(),
            vec![Codeword::sum(&[0, 4]), Codeword::copy(3), Codeword::copy(1), Codeword::copy(2)],
            vec![Codeword::copy(4)],
        ];
        let encoding = Encoding::new(5, contents).unwrap();
        let elements: Vec<u8> = (0..5).flat_map(|element| vec![1 << element; element_bytes]).collect();
        let all = encoding.materialise(element_bytes, &elements, 5).unwrap();
        let expected = [[1, 2, 4, 8, 16], [17, 8, 2, 4, 0], [16, 0, 0, 0, 0]];
        for (bytes, expected) in all.iter().zip(expected) {
            let held = bytes.chunks(element_bytes).map(|element| element[0]);
            assert!(held.eq(expected) && bytes.len() == 5 * element_bytes);
            assert!(
                bytes.chunks(element_bytes).all(|element| element.iter().all(|byte| *byte == element[0]))
            );
        }
    }

    /// An element number from elsewhere must not read beyond the elements.
    #[test]
    fn codewords_of_missing_elements_are_refused() {
        let beyond = vec![vec![Codeword::sum(&[0, 3])]];
        assert!(matches!(Encoding::new(3, beyond), Err(Error::Shape(_))));
    }

    /// Three codewords per message of a large round: memory matters.
    #[test]
    fn a_copy_needs_no_more_than_two_words() {
        assert!(size_of::<Codeword>() <= 16);
    }
}
