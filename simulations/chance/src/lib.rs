//! The chance that a process gets from its system, from a seed: so that a simulation is repeated to the last step.
//!
//! A simulation draws from a seed of its own. Libraries do not: hash maps of the standard library are keyed by the system, and
//! whatever chooses fairly between several futures that are ready (`select!` of futures and of tokio) is seeded by such keys.
//! Which task runs first is then another matter in each process. A program that this is linked to has its own `getrandom`, the
//! one of the C library, through which the standard library and most others draw. With `SOTTO_SEED=N` in its environment that
//! gives what follows from N. **For tests alone**: keys drawn so are known to everybody.
//!
//! What threads draw depends on who comes first, so this says something of processes in which one thread draws: a single test
//! by name, for example.
#![deny(unsafe_op_in_unsafe_fn)]

/// Whether this process draws from a seed. On other systems than Linux it never does.
#[must_use]
pub fn is_seeded() -> bool {
    system::is_seeded()
}

#[cfg(target_os = "linux")]
mod system {
    #![allow(unsafe_code, reason = "a function of the C library is replaced")]

    use core::mem::MaybeUninit;
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::sync::OnceLock;

    use rustix::rand::GetRandomFlags;

    /// How many words were drawn.
    static DRAWN: AtomicU64 = AtomicU64::new(0);

    pub(super) fn is_seeded() -> bool {
        // The keys of a map come from here, if the standard library has found this `getrandom`.
        let _ = std::hash::RandomState::new();
        seed().is_some() && DRAWN.load(Ordering::Relaxed) > 0
    }

    fn seed() -> Option<u64> {
        static SEED: OnceLock<Option<u64>> = OnceLock::new();
        *SEED.get_or_init(|| std::env::var("SOTTO_SEED").ok()?.parse().ok())
    }

    /// The next word of a seed: SplitMix64 of how many there were.
    fn draw(seed: u64) -> [u8; 8] {
        let number = DRAWN.fetch_add(1, Ordering::Relaxed);
        let word = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    }

    /// `getrandom` of the C library.
    ///
    /// # Safety
    /// `buffer` is valid for writes of `length` bytes.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn getrandom(buffer: *mut MaybeUninit<u8>, length: usize, flags: u32) -> isize {
        // SAFETY: that is what the caller promises; of no bytes, nothing is touched.
        let buffer = match length {
            0 => &mut [],
            _ => unsafe { core::slice::from_raw_parts_mut(buffer, length) },
        };
        let Some(seed) = seed() else {
            let flags = GetRandomFlags::from_bits_retain(flags);
            // Who is refused asks the system by another way.
            return rustix::rand::getrandom(buffer, flags).map_or(-1, |(drawn, _)| drawn.len().cast_signed());
        };
        for chunk in buffer.chunks_mut(8) {
            for (byte, drawn) in chunk.iter_mut().zip(draw(seed)) {
                byte.write(drawn);
            }
        }
        length.cast_signed()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn is_seeded() -> bool {
        false
    }
}
