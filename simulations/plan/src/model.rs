//! What a round costs, from a few constants that are measured on the machine: the laws behind the figure of scaling and
//! the capacity planner.

mod calibrate;
mod constants;
mod fit;
mod sizes;
mod transport;
mod uncertainty;
mod voce;

pub use calibrate::{Calibration, calibrate};
pub use constants::Constants;
#[cfg(test)]
pub(crate) use constants::tests;
pub use fit::residual;
pub use sizes::{BucketSize, RoundSize, default_code};
pub use uncertainty::Uncertainty;
