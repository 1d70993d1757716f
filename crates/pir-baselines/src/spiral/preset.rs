//! The presets: variants of the family, and the gadgets of their keys.

use std::sync::LazyLock;

use pir_core::bfv::{self, Gadget};

use super::lattice::{DEGREE, LEVELS, Lattice};

/// Levels of the tree of the folding bits: at most 256 leaves.
pub(super) const BIT_LEVELS: usize = 8;

/// What a variant consists of.
pub(super) struct Preset {
    pub(super) lattice: Lattice,
    /// Whether queries are uploaded as they are needed, and nothing is expanded.
    pub(super) streams: bool,
    /// n: the dimensions of matrix ciphertexts that are multiplied, ascending.
    pub(super) widths: &'static [usize],
    /// Dimensions of the matrices that answers are packed into, ascending; 1 for no packing.
    pub(super) packs: &'static [usize],
    /// Of the tree of the rows, level by level.
    pub(super) row_gadgets: [Gadget; LEVELS],
    /// Of the tree of the folding bits, at every level.
    pub(super) bit_gadget: Gadget,
    /// Of the conversions of scalar Regev ciphertexts, modulo Q.
    pub(super) conversion: Gadget,
    /// Of packing, modulo q.
    pub(super) packing: Gadget,
    /// Whether trees have as few levels as their leaves need, gadgets of folding drop nothing, and databases are filled up to
    /// powers of two, as in the paper.
    pub(super) as_published: bool,
    /// Bits that are not sent of the coefficients of the ciphertexts of rows and of folding bits.
    pub(super) dropped_bits: [u32; 2],
}

const fn gadget(digits: u32, base_bits: u32) -> Gadget {
    Gadget { digits, base_bits }
}

/// Of all bits of Q, in at most so many digits.
const fn whole(bits: u32, digits: u32) -> Gadget {
    let base_bits = bits.div_ceil(digits);
    gadget(bits.div_ceil(base_bits), base_bits)
}

/// Half of all substitutions happen at the last level, but the noise of the first is doubled most often, as in S2048.
const ROW_GADGETS: [Gadget; LEVELS] = [
    gadget(7, 6),
    gadget(7, 6),
    gadget(7, 6),
    gadget(6, 7),
    gadget(6, 7),
    gadget(6, 7),
    gadget(5, 8),
    gadget(5, 8),
    gadget(4, 10),
    gadget(3, 12),
    gadget(3, 12),
];

static PRESETS: LazyLock<[Preset; 9]> = LazyLock::new(|| {
    let expanding = |widths, packs| Preset {
        lattice: Lattice::switching(),
        streams: false,
        widths,
        packs,
        row_gadgets: ROW_GADGETS,
        bit_gadget: gadget(12, 4),
        conversion: gadget(5, 10),
        packing: gadget(2, 11),
        as_published: false,
        dropped_bits: [20, 10],
    };
    let streaming = |widths, packs| Preset {
        lattice: Lattice::of_one_prime(),
        streams: true,
        conversion: gadget(12, 4),
        packing: gadget(3, 12),
        dropped_bits: [0, 0],
        ..expanding(widths, packs)
    };
    let published = |streams, widths, packs, row_digits: u32, conversion_digits: u32| Preset {
        lattice: Lattice::of_the_paper(),
        streams,
        widths,
        packs,
        row_gadgets: [whole(56, row_digits); LEVELS],
        bit_gadget: whole(56, 56),
        conversion: whole(56, conversion_digits),
        packing: whole(56, conversion_digits),
        as_published: true,
        dropped_bits: [0, 0],
    };
    [
        expanding(&[1, 2], &[1]),
        expanding(&[1], &[2, 4]),
        streaming(&[1, 2], &[1]),
        streaming(&[1], &[2, 4]),
        published(false, &[2], &[1], 8, 4),
        published(false, &[1], &[2, 4, 8], 8, 4),
        published(true, &[2], &[1], 8, 16),
        published(true, &[1], &[4], 8, 56),
        // OnionPIR: the same digits for all that makes selectors of a query.
        Preset {
            lattice: Lattice::of_onionpir(),
            row_gadgets: [whole(60, 10); LEVELS],
            bit_gadget: whole(60, 10),
            conversion: whole(60, 10),
            dropped_bits: [4, 4],
            ..published(false, &[1], &[1], 8, 4)
        },
    ]
});

/// The names of all presets, in their order.
pub(super) const NAMES: [&str; 9] = [
    "spiral",
    "spiral-pack",
    "spiral-stream",
    "spiral-stream-pack",
    "spiral-paper",
    "spiral-pack-paper",
    "spiral-stream-paper",
    "spiral-stream-pack-paper",
    "onionpir-paper",
];

impl Preset {
    /// The preset of a number below 9.
    pub(super) fn of(number: usize) -> &'static Self {
        &PRESETS[number]
    }

    /// By the rule of [`bfv::Parameters`], for Q.
    pub(super) fn security_bits(&self) -> u32 {
        bfv::security_bits(DEGREE, self.lattice.key.bits())
    }

    /// The largest n, and the largest dimension of packing.
    pub(super) fn largest(&self) -> [usize; 2] {
        [self.widths, self.packs].map(|all| all.last().copied().unwrap_or(1))
    }

    /// Secrets of a client: one for each row of the largest matrix.
    pub(super) fn secrets(&self) -> usize {
        let [width, pack] = self.largest();
        width.max(pack)
    }

    /// Whether rows and folding bits are scalar Regev ciphertexts that the server converts.
    pub(super) fn converts(&self, width: usize) -> bool {
        !self.streams || width > 1
    }
}

#[cfg(test)]
mod tests {
    use super::PRESETS;

    #[test]
    fn presets_have_the_security_that_is_told() {
        let bits = PRESETS.each_ref().map(super::Preset::security_bits);
        assert_eq!(bits, [137, 137, 137, 137, 113, 113, 113, 113, 113]);
    }
}
