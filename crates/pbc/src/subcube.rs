//! The subcube batch code (paper section 4.1) with l = 2 and two levels: four quarters in nine buckets.

/// The quarters of a collection.
pub(crate) const CELLS: usize = 4;

/// The buckets they are encoded into.
pub(crate) const BUCKETS: usize = 9;

/// A collection is split in halves, each half again, and at both levels the sum of the halves is added: bucket `3 x +
/// y` holds the quarters whose coordinates are `x` and `y`, where coordinate 2 stands for the sum of 0 and 1. Bucket 8
/// is the sum of all quarters. Any four elements can be read, whatever their quarters.
#[derive(Clone)]
pub(crate) struct Subcube {
    /// For every quarter the minimal sets of buckets whose sum it is, as masks, the smallest first.
    recoveries: [Vec<u16>; CELLS],
}

impl Subcube {
    pub(crate) fn new() -> Self {
        // A set is minimal if no part of it sums to nothing.
        let sum =
            |set: u16| (0..BUCKETS).filter(|i| set >> i & 1 == 1).fold(0, |sum, i| sum ^ Self::cells(i));
        let next = |part: u16, set: u16| Some((part - 1) & set).filter(|part| *part != 0);
        let parts = |set: u16| core::iter::successors(Some(set), move |part| next(*part, set));
        let minimal = |set: &u16| parts(*set).all(|part| sum(part) != 0);
        let sets: Vec<u16> = (1..1 << BUCKETS).filter(minimal).collect();
        let recoveries = core::array::from_fn(|cell| {
            let mut recoveries: Vec<u16> =
                sets.iter().copied().filter(|set| sum(*set) == 1 << cell).collect();
            recoveries.sort_by_key(|set| set.count_ones());
            recoveries
        });
        Self { recoveries }
    }

    /// The quarters whose sum a bucket holds, as a mask.
    pub(crate) const fn cells(bucket: usize) -> u8 {
        const COORDINATE: [u8; 3] = [0b01, 0b10, 0b11];
        let (x, y) = (COORDINATE[bucket / 3 % 3], COORDINATE[bucket % 3]);
        ((x & 1) * y) | (((x >> 1) * y) << 2)
    }

    /// The bucket that holds a quarter and nothing else.
    pub(crate) const fn holder(cell: usize) -> usize {
        3 * (cell / 2) + cell % 2
    }

    pub(crate) fn recoveries(&self, cell: usize) -> &[u16] {
        &self.recoveries[cell]
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, CELLS, Subcube};

    fn servable(subcube: &Subcube, cells: &[usize], taken: u16) -> bool {
        let Some((&cell, rest)) = cells.split_first() else { return true };
        subcube.recoveries(cell).iter().any(|set| set & taken == 0 && servable(subcube, rest, taken | set))
    }

    /// A wrong set of buckets decodes to the sum of other people's elements.
    #[test]
    fn buckets_and_recoveries_are_those_of_the_subcube_code() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(Subcube::cells), [1, 2, 3, 4, 8, 12, 5, 10, 15]);
        let subcube = Subcube::new();
        for cell in 0..CELLS {
            assert_eq!(Subcube::cells(Subcube::holder(cell)), 1 << cell);
            let sets = subcube.recoveries(cell);
            assert_eq!(sets[0], 1 << Subcube::holder(cell));
            assert_eq!(sets.iter().filter(|set| set.count_ones() == 2).count(), 2);
            for set in sets {
                let sum =
                    (0..BUCKETS).filter(|i| set >> i & 1 == 1).fold(0, |sum, i| sum ^ Subcube::cells(i));
                assert_eq!(sum, 1 << cell);
                assert!(!sets.iter().any(|other| other != set && other & set == *other), "{set:09b}");
            }
        }
    }

    /// What makes it a batch code: any four, even of one quarter.
    #[test]
    fn any_four_elements_can_be_read() {
        let subcube = Subcube::new();
        for cells in 0..CELLS.pow(4) {
            let cells = [0, 1, 2, 3].map(|i| cells / CELLS.pow(i) % CELLS);
            assert!(servable(&subcube, &cells, 0), "{cells:?}");
        }
        assert!(!servable(&subcube, &[0; 5], 0));
    }
}
