//! A measurement beside the model.

use sotto_measuring::cpu::Stages;
use sotto_plan::model::RoundSize;

use crate::mpir::Report;

/// A measurement, and what the model says of the same n and k.
pub(super) struct Point {
    pub(super) measured: Report,
    pub(super) theory: Theory,
}

/// What the model predicts of a round.
pub(super) struct Theory {
    pub(super) size: RoundSize,
    pub(super) answer: Stages,
    pub(super) setup_ms: f64,
}

/// Measurements of which one number grows, and the model's line through it.
pub(super) struct Group {
    /// What tells it from others.
    pub(super) label: String,
    pub(super) points: Vec<Point>,
    pub(super) line: Vec<Theory>,
}
