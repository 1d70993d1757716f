//! Reading the log's own formats: little-endian, and nothing is allocated that is not there.

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(super) &'static str);

/// What is not there stands as zeros, so that there is one way to write everything.
pub(super) const NONE_IS_ZERO: Malformed = Malformed("there is something where there is nothing");

/// The rest of an encoding.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number (u32) of things that take at least `bytes` each, all of which are there.
    pub(super) fn count(&mut self, bytes: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        let there = count.checked_mul(bytes).is_some_and(|needed| needed <= self.0.len());
        if there { Ok(count) } else { Err(Malformed("it announces more than there is")) }
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn finish(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed("it is too long")) }
    }
}

/// Writes a count that [`Reader::count`] reads.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("every list is bounded far below 2^32");
    out.extend_from_slice(&count.to_le_bytes());
}

/// Refuses what does not belong behind the last of an ascending list.
pub(super) fn ascends<T: Ord>(last: Option<&T>, next: &T) -> Result<(), Malformed> {
    if last.is_none_or(|last| last < next) { Ok(()) } else { Err(NOT_ASCENDING) }
}

const NOT_ASCENDING: Malformed = Malformed("a list is not in ascending order");

/// Reads a list in which everything is higher than what stands before it.
pub(super) fn take_ascending<const N: usize>(reader: &mut Reader<'_>) -> Result<Vec<[u8; N]>, Malformed> {
    let count = reader.count(N)?;
    let (list, _) = reader.take(count * N)?.as_chunks();
    if list.is_sorted_by(|before, after| before < after) { Ok(list.to_vec()) } else { Err(NOT_ASCENDING) }
}
