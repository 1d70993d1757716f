//! The result of Encode: which codeword lies where, and its bytes.

use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::{BucketIndex, Error};

/// The content of one place in a bucket, as the numbers of the elements whose exclusive or it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codeword(Elements);

/// One element is by far the commonest, and needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Elements {
    One(u32),
    Several(Box<[u32]>),
}

impl Codeword {
    /// A copy of one element.
    pub const fn copy(element: u32) -> Self {
        Self(Elements::One(element))
    }

    /// The exclusive or of several elements; of none, the codeword is all zeros.
    pub fn sum(elements: &[u32]) -> Self {
        match elements {
            [one] => Self::copy(*one),
            several => Self(Elements::Several(several.into())),
        }
    }

    /// The numbers of the elements.
    pub fn elements(&self) -> &[u32] {
        match &self.0 {
            Elements::One(element) => core::slice::from_ref(element),
            Elements::Several(elements) => elements,
        }
    }
}

/// Which codeword lies at which position of which bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    elements: usize,
    buckets: Vec<Vec<Codeword>>,
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
        Ok(Self { elements, buckets })
    }

    /// For a code of this crate, whose element numbers are below `elements` by construction.
    pub(crate) const fn of_existing(elements: usize, buckets: Vec<Vec<Codeword>>) -> Self {
        Self { elements, buckets }
    }

    /// The number `n` of elements encoded.
    pub const fn elements(&self) -> usize {
        self.elements
    }

    /// The buckets C_0 to C_{b-1}, each a list of codewords.
    pub fn buckets(&self) -> &[Vec<Codeword>] {
        &self.buckets
    }

    /// The total number `m` of codewords.
    pub fn codewords(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    /// Codewords in the largest bucket: the least number that all buckets can be padded to.
    pub fn largest(&self) -> usize {
        self.buckets.iter().map(Vec::len).max().unwrap_or(0)
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
        self.buckets
            .par_iter()
            .map(|bucket| self.bucket_bytes(bucket, element_bytes, elements, padded))
            .collect()
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
        let bucket = self.buckets.get(bucket.to_usize()).ok_or(Error::Shape("no such bucket"))?;
        self.bucket_bytes(bucket, element_bytes, elements, padded)
    }

    fn bucket_bytes(
        &self,
        bucket: &[Codeword],
        element_bytes: usize,
        elements: &[u8],
        padded: usize,
    ) -> Result<Vec<u8>, Error> {
        if element_bytes == 0 {
            return Err(Error::Shape("an element has no bytes"));
        }
        if self.elements.checked_mul(element_bytes) != Some(elements.len()) {
            return Err(Error::Shape("as many elements as were encoded, of equal size"));
        }
        if bucket.len() > padded {
            return Err(Error::Capacity { codewords: bucket.len(), padded });
        }
        let size = padded.checked_mul(element_bytes).ok_or(Error::Shape("a bucket exceeds the memory"))?;

        let mut bytes = vec![0; size];
        let element = |number: u32| &elements[number as usize * element_bytes..][..element_bytes];
        for (place, codeword) in bytes.chunks_exact_mut(element_bytes).zip(bucket) {
            match codeword.elements() {
                [one] => place.copy_from_slice(element(*one)),
                several => several.iter().for_each(|number| xor_into(place, element(*number))),
            }
        }
        Ok(bytes)
    }
}

fn xor_into(sum: &mut [u8], summand: &[u8]) {
    for (sum, summand) in sum.iter_mut().zip(summand) {
        *sum ^= summand;
    }
}

#[cfg(test)]
mod tests {
    use super::{Codeword, Encoding};
    use crate::Error;

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
