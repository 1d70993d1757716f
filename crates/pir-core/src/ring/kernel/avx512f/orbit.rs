//! The walk along automorphisms, step by step.

use super::super::moves::{self, next_sum, orbit_walk_by_steps};
use super::super::rows::{Lanes, OrbitWalk};
use super::{forward, inverse, round_digits};
use crate::ring::tables::NttTables;

orbit_walk_by_steps!(
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(in super::super) fn orbit_walk
);
