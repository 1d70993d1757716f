//! What a round costs, from a few constants that are measured on the machine: the laws behind the figure of scaling and
//! the capacity planner.

mod calibrate;
mod constants;
mod fit;
mod sizes;
mod transport;
mod uncertainty;
mod voce;

pub(crate) use calibrate::{Calibration, calibrate};
pub(crate) use constants::Constants;
#[cfg(test)]
pub(crate) use constants::tests;
pub(crate) use fit::residual;
pub(crate) use sizes::{BucketSize, RoundSize, default_code};
pub(crate) use uncertainty::Uncertainty;
