//! The one error type of the crate.

/// Why an operation was refused. No variant carries a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A bucket holds more codewords than it is to be padded to.
    #[error("a bucket holds {codewords} codewords, more than the {padded} it is padded to")]
    Capacity {
        /// Codewords in the bucket.
        codewords: usize,
        /// Codewords there is room for.
        padded: usize,
    },
    /// Decode was given another number of codewords than the code reads for one element, or unequal ones.
    #[error("these codewords do not make an element")]
    Codewords,
    /// These bytes are not a mapping, or not one of this code.
    #[error("not a mapping of this code")]
    Mapping,
    /// No such code: the numbers of keys, buckets and candidates do not go together.
    #[error("no such batch code: {0}")]
    Parameters(&'static str),
    /// The bytes given are not the elements that were encoded.
    #[error("the bytes are not those of the encoded elements: {0}")]
    Shape(&'static str),
}
