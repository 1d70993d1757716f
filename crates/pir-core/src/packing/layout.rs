//! How elements lie in plaintexts.

use subtle::ConditionallySelectable;
use zeroize::Zeroizing;

use crate::constant_time::equal;
use crate::{Error, bfv};

/// How elements lie in plaintexts: several in one, or each in several, which are numbered by their *group*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    elements: usize,
    element_bytes: usize,
    /// 1 if an element spans several plaintexts.
    elements_per_plaintext: usize,
    /// Not counting groups.
    plaintexts: usize,
    groups: usize,
}

impl Packing {
    /// The packing of `elements` elements of `element_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is no element, an element is empty, or all of them have more than 2^44 bytes.
    pub fn new(elements: usize, element_bytes: usize) -> Result<Self, Error> {
        if elements == 0 || element_bytes == 0 {
            return Err(Error::Shape("an empty database"));
        }
        // Far above any use, and far below where a size could overflow.
        let bytes = elements.checked_mul(element_bytes).filter(|bytes| *bytes <= 1 << 44);
        bytes.ok_or(Error::Shape("database too large"))?;
        let groups = element_bytes.div_ceil(plaintext_bytes());
        let elements_per_plaintext = (plaintext_bytes() / element_bytes).max(1);
        let plaintexts = elements.div_ceil(elements_per_plaintext);
        Ok(Self { elements, element_bytes, elements_per_plaintext, plaintexts, groups })
    }

    /// Number of elements n.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Bytes per element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Elements in one plaintext.
    #[must_use]
    pub fn elements_per_plaintext(&self) -> usize {
        self.elements_per_plaintext
    }

    /// Plaintexts of one group: `ceil(n / elements_per_plaintext)`.
    #[must_use]
    pub fn plaintexts(&self) -> usize {
        self.plaintexts
    }

    /// Plaintexts that one element spans; an answer holds a result for each.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Appends the bytes of one slot of a plaintext, touching those of all slots.
    pub(crate) fn select(&self, bytes: &[u8], group: usize, slot: usize, element: &mut Vec<u8>) {
        let size = self.bytes_in_group(group);
        let mut chosen = Zeroizing::new(vec![0; size]);
        for (candidate, bytes) in bytes.chunks_exact(size).take(self.elements_per_plaintext).enumerate() {
            let choice = equal(candidate, slot);
            chosen.iter_mut().zip(bytes).for_each(|(out, byte)| out.conditional_assign(byte, choice));
        }
        element.extend_from_slice(&chosen);
    }

    /// Bytes of an element in group `group`: those of a full plaintext, fewer in the last.
    fn bytes_in_group(&self, group: usize) -> usize {
        (self.element_bytes - group * plaintext_bytes()).min(plaintext_bytes())
    }
}

/// Bytes that fit a plaintext: `N log2(t) / 8`.
#[must_use]
pub fn plaintext_bytes() -> usize {
    let bfv = bfv::Parameters::s2048();
    bfv.degree() * bfv.plaintext_bits() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::{Packing, plaintext_bytes};

    /// Eight elements of 288 bytes fill a plaintext; a number that a server announces must not overflow.
    #[test]
    fn elements_lie_in_as_few_plaintexts_as_hold_them() {
        assert_eq!(plaintext_bytes(), 2304);
        for (elements, bytes, expected) in [
            (17, 288, [8, 3, 1]),
            (16, 288, [8, 2, 1]),
            (3, 2304, [1, 3, 1]),
            (3, 2305, [1, 3, 2]),
            (3, 4608, [1, 3, 2]),
            (5, 769, [2, 3, 1]),
        ] {
            let packing = Packing::new(elements, bytes).unwrap();
            let found = [packing.elements_per_plaintext(), packing.plaintexts(), packing.groups()];
            assert_eq!(found, expected, "{elements} of {bytes}");
            assert_eq!((packing.elements(), packing.element_bytes()), (elements, bytes));
        }
        let spread = Packing::new(1, 5000).unwrap();
        assert_eq!([0, 1, 2].map(|group| spread.bytes_in_group(group)), [2304, 2304, 392]);
        assert!(Packing::new(1 << 22, 1 << 22).is_ok());
        for (elements, bytes) in [((1 << 22) + 1, 1 << 22), (0, 1), (1, 0), (usize::MAX, 2)] {
            assert!(Packing::new(elements, bytes).is_err(), "{elements} of {bytes}");
        }
    }
}
