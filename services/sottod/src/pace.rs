//! How slow a peer may be.

use core::time::Duration;

/// How long a peer may still take that has moved `bytes` while it was waited for `waited` in all: it may fall `stall`
/// behind `rate` bytes per second, and one that is ahead gains nothing by it.
pub(crate) fn patience(waited: Duration, bytes: usize, rate: usize, stall: Duration) -> Duration {
    let earned = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
    stall.saturating_add(earned).saturating_sub(waited).min(stall)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::patience;

    const STALL: Duration = Duration::from_secs(10);
    const RATE: usize = 32 << 10;

    #[test]
    fn a_peer_that_drips_holds_its_place_no_longer_than_a_silent_one() {
        let mut waited = Duration::ZERO;
        // One byte each time just before the patience ends.
        for bytes in 1..=10 {
            waited += patience(waited, bytes, RATE, STALL).mul_f64(0.99);
        }
        assert!(waited < STALL + Duration::from_millis(10), "{waited:?}");
    }

    #[test]
    fn a_steady_peer_is_never_given_up() {
        for seconds in 0..100 {
            let waited = Duration::from_secs(seconds);
            assert_eq!(patience(waited, RATE * seconds as usize, RATE, STALL), STALL);
        }
        assert_eq!(patience(Duration::ZERO, usize::MAX, RATE, STALL), STALL);
    }
}
