//! What rounds took in a day.

use sotto_protocol::UnixMillis;

const HOURS: usize = 24;
const HOUR_MS: u64 = 60 * 60 * 1000;

/// Bytes by hour, of the newest hour and those before it.
#[derive(Default)]
pub(super) struct Day {
    bytes: [u64; HOURS],
    hour: u64,
}

impl Day {
    /// Takes note of bytes, and says how many there were in this hour and the 23 before it. A clock that is put back makes none of
    /// them later than they were.
    pub(super) fn add(&mut self, now: UnixMillis, bytes: u64) -> u64 {
        let hour = self.hour.max(now.0 / HOUR_MS);
        for passed in (self.hour + 1..=hour).rev().take(HOURS) {
            self.bytes[Self::place(passed)] = 0;
        }
        self.hour = hour;
        let of_hour = &mut self.bytes[Self::place(hour)];
        *of_hour = of_hour.saturating_add(bytes);
        self.bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    fn place(hour: u64) -> usize {
        usize::try_from(hour % HOURS as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::UnixMillis;

    use super::{Day, HOUR_MS};

    #[test]
    fn what_is_older_than_a_day_is_not_counted() {
        let mut day = Day::default();
        let mut add = |hours: u64, bytes| day.add(UnixMillis(1_790_000_000_000 + hours * HOUR_MS), bytes);
        assert_eq!(add(0, 5), 5);
        assert_eq!(add(0, 5), 10);
        assert_eq!(add(1, 100), 110);
        assert_eq!(add(23, 1000), 1110);
        assert_eq!(add(24, 0), 1100, "the first hour has gone by");
        assert_eq!(add(22, 1), 1101, "a clock was put back");
        assert_eq!(add(25, 0), 1001);
        assert_eq!(add(400, 7), 7);
        assert_eq!(add(u64::from(u32::MAX), u64::MAX), u64::MAX);
        assert_eq!(add(u64::from(u32::MAX), 1), u64::MAX);
    }
}
