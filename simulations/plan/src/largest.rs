//! The most users that a machine can serve.

use anyhow::{Context, ensure};
use sotto_protocol::manifest::ENTRIES_MAX;

use crate::estimate::Need;

/// What does not allow more users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    Memory,
    Cores,
    /// The protocol or the engine.
    Size,
}

/// The largest number of users whose need fits into so many bytes of memory and, if rounds have a length, into so many
/// cores; and what bounds it.
pub(crate) fn find(
    need: &dyn Fn(usize) -> anyhow::Result<Need>,
    cores: f64,
    memory: f64,
    round: Option<f64>,
) -> anyhow::Result<(usize, Bound)> {
    let exceeded = |users: usize| match need(users) {
        Err(_) => Some(Bound::Size),
        Ok(need) if need.memory.total() > memory => Some(Bound::Memory),
        Ok(need) if round.is_some_and(|round| need.cores(round) > cores) => Some(Bound::Cores),
        Ok(_) => None,
    };
    need(1).context("these messages cannot be retrieved at all")?;
    let too_small = exceeded(1);
    ensure!(too_small.is_none(), "not even one user fits: too little {too_small:?}");
    let (mut fits, mut too_many, mut bound) = (1, ENTRIES_MAX as usize + 1, Bound::Size);
    while too_many - fits > 1 {
        // By ratios first: few numbers of many digits are large.
        let middle = ((fits as f64 * too_many as f64).sqrt() as usize).clamp(fits + 1, too_many - 1);
        match exceeded(middle) {
            None => fits = middle,
            Some(by) => (too_many, bound) = (middle, by),
        }
        if too_many - fits <= fits / 1000 {
            break;
        }
    }
    Ok((fits, bound))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{Bound, find};
    use crate::estimate::tests::need;

    /// One more than a thousandth above must not fit, and what is found must.
    #[test]
    fn what_is_found_fits_and_little_more_does_not() {
        let of = |users| Ok(need(users, 16));
        let memory = 64e9;
        let (users, bound) = find(&of, 1.0, memory, None).unwrap();
        assert_eq!(bound, Bound::Memory);
        assert!(
            need(users, 16).memory.total() <= memory && need(users + users / 500, 16).memory.total() > memory
        );
        let (users, bound) = find(&of, 8.0, memory, Some(30.0)).unwrap();
        assert_eq!(bound, Bound::Cores);
        assert!(need(users, 16).cores(30.0) <= 8.0 && need(users + users / 500, 16).cores(30.0) > 8.0);
        let (users, bound) = find(&of, 1e12, 1e18, Some(1.0)).unwrap();
        assert!(bound == Bound::Size && users > (1 << 24) / 1001 * 1000, "{users}");
        assert!(find(&of, 1.0, 1e6, None).is_err());
    }
}
