//! SHA-256's compression of sixteen messages at a time, for hashing a whole collection.
//!
//! The words of sixteen states stand side by side, so that every step is one vector instruction, or a few, of whatever
//! width the machine has; which it is, is found at run time. Single keys are hashed by the `sha2` crate, and tests
//! hold the two together.

use core::array::from_fn;

use pulp::{Arch, Simd, WithSimd};

/// Messages compressed side by side.
pub(crate) const LANES: usize = 16;

/// One word of each of the messages.
pub(crate) type Word = [u32; LANES];

const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[rustfmt::skip]
const ROUND: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// The state after a first block common to all messages.
pub(crate) fn state_after(first: &[u8; 64]) -> [u32; 8] {
    let states = compress(&INITIAL, &transposed(&[*first; LANES]));
    states.map(|word| word[0])
}

/// The digests of messages that have led to `state` and end with these blocks, padding included.
pub(crate) fn digests(state: &[u32; 8], blocks: &[[u8; 64]; LANES]) -> [[u8; 32]; LANES] {
    let states = compress(state, &transposed(blocks));
    from_fn(|lane| {
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(&states) {
            *bytes = word[lane].to_be_bytes();
        }
        digest
    })
}

fn transposed(blocks: &[[u8; 64]; LANES]) -> [Word; 16] {
    from_fn(|word| {
        from_fn(|lane| {
            let bytes = &blocks[lane];
            u32::from_be_bytes([
                bytes[4 * word],
                bytes[4 * word + 1],
                bytes[4 * word + 2],
                bytes[4 * word + 3],
            ])
        })
    })
}

fn compress(state: &[u32; 8], block: &[Word; 16]) -> [Word; 8] {
    let mut states = [[0; LANES]; 8];
    Arch::new().dispatch(Compression { initial: state, block, states: &mut states });
    states
}

struct Compression<'a> {
    initial: &'a [u32; 8],
    block: &'a [Word; 16],
    states: &'a mut [Word; 8],
}

impl WithSimd for Compression<'_> {
    type Output = ();

    /// A vector holds a divisor of sixteen words on every machine; each vector's messages are a compression of their
    /// own.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for vector in 0..LANES / S::U32_LANES {
            let schedule = from_fn(|i| S::as_simd_u32s(&self.block[i]).0[vector]);
            let states = rounds(simd, self.initial.map(|word| simd.splat_u32s(word)), schedule);
            for (word, state) in self.states.iter_mut().zip(states) {
                S::as_mut_simd_u32s(word).0[vector] = state;
            }
        }
    }
}

/// FIPS 180-4, section 6.2.2. Inlined, like what it calls, so that it is compiled for each instruction set.
#[inline(always)]
fn rounds<S: Simd>(simd: S, initial: [S::u32s; 8], mut schedule: [S::u32s; 16]) -> [S::u32s; 8] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = initial;
    for constants in ROUND.as_chunks::<16>().0 {
        for i in 0..16 {
            let choice = simd.xor_u32s(g, simd.and_u32s(e, simd.xor_u32s(f, g)));
            let sigma = xor(simd, [rotated(simd, e, 6), rotated(simd, e, 11), rotated(simd, e, 25)]);
            let first = sum(simd, [h, simd.splat_u32s(constants[i]), schedule[i], choice, sigma]);
            let majority = simd.or_u32s(simd.and_u32s(a, b), simd.and_u32s(c, simd.or_u32s(a, b)));
            let sigma = xor(simd, [rotated(simd, a, 2), rotated(simd, a, 13), rotated(simd, a, 22)]);
            (h, g, f, e) = (g, f, e, simd.add_u32s(d, first));
            (d, c, b, a) = (c, b, a, sum(simd, [first, sigma, majority]));
        }
        for i in 0..16 {
            let (older, newer) = (schedule[(i + 1) % 16], schedule[(i + 14) % 16]);
            let low = xor(simd, [rotated(simd, older, 7), rotated(simd, older, 18), shifted(simd, older, 3)]);
            let high =
                xor(simd, [rotated(simd, newer, 17), rotated(simd, newer, 19), shifted(simd, newer, 10)]);
            schedule[i] = sum(simd, [schedule[i], low, schedule[(i + 9) % 16], high]);
        }
    }
    let worked = [a, b, c, d, e, f, g, h];
    from_fn(|i| simd.add_u32s(initial[i], worked[i]))
}

#[inline(always)]
fn sum<S: Simd, const N: usize>(simd: S, summands: [S::u32s; N]) -> S::u32s {
    summands[1..].iter().fold(summands[0], |sum, summand| simd.add_u32s(sum, *summand))
}

#[inline(always)]
fn xor<S: Simd>(simd: S, [a, b, c]: [S::u32s; 3]) -> S::u32s {
    simd.xor_u32s(simd.xor_u32s(a, b), c)
}

#[inline(always)]
fn shifted<S: Simd>(simd: S, word: S::u32s, bits: u32) -> S::u32s {
    simd.wrapping_dyn_shr_u32s(word, simd.splat_u32s(bits))
}

/// To the right, within every lane; the vector library's own rotation moves lanes.
#[inline(always)]
fn rotated<S: Simd>(simd: S, word: S::u32s, bits: u32) -> S::u32s {
    simd.or_u32s(shifted(simd, word, bits), simd.wrapping_dyn_shl_u32s(word, simd.splat_u32s(32 - bits)))
}
