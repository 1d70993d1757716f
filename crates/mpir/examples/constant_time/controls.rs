//! Code that leaks, each in one of the ways that the method must see.

use core::hint::black_box;

use crate::memcheck::secret;

/// A branch on a secret bit.
pub(crate) fn branch() {
    #[inline(never)]
    fn one() {
        black_box(1);
    }
    #[inline(never)]
    fn other() {
        black_box(2);
    }
    if black_box(secret(5_u64)) & 1 == 1 { one() } else { other() }
}

/// A table that is read where a secret says.
pub(crate) fn table() {
    let table: [u8; 256] = core::array::from_fn(|i| i as u8 ^ 0x5a);
    black_box(black_box(&table)[usize::from(black_box(secret(7_u8)))]);
}

/// A comparison that ends at the first difference.
pub(crate) fn comparison() {
    let secrets: [u8; 32] = secret([3; 32]);
    black_box(black_box(&secrets[..]) == black_box(&[3; 32][..]));
}

/// A loop that runs as long as a secret says.
pub(crate) fn length() {
    (0..black_box(secret(9_u64))).for_each(|i| {
        black_box(i);
    });
}
