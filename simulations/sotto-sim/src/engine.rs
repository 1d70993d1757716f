//! The engines that can be measured, by name.

use std::sync::Arc;

use clap::ValueEnum;
use mpir::{Engines, PerBucket};
use pir_baselines::{PaperSealPir, Xpir, paper, xpir};
use pir_core::dimensions::Stage;
use pir_core::{Error, Scheme, SealPir, sealpir};
use serde::{Deserialize, Serialize};

use crate::cpu::milliseconds;

/// An engine on the command line and in measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum EngineName {
    /// SealPIR on S2048: what Sotto runs.
    #[default]
    #[serde(rename = "sealpir")]
    Sealpir,
    /// XPIR in two dimensions: selectors sent one by one.
    #[value(name = "xpir-2")]
    #[serde(rename = "xpir-2")]
    Xpir2,
    /// XPIR in three dimensions.
    #[value(name = "xpir-3")]
    #[serde(rename = "xpir-3")]
    Xpir3,
    /// SealPIR as the paper has it, with log t = 20: 113 bits of security, for comparison only.
    #[value(name = "paper-t20")]
    #[serde(rename = "paper-t20")]
    PaperT20,
    /// The same with log t = 23.
    #[value(name = "paper-t23")]
    #[serde(rename = "paper-t23")]
    PaperT23,
}

/// The engines that servers may run.
pub(crate) fn engines() -> Engines {
    Engines::default().with(Arc::new(PerBucket::<Xpir<2>>::new())).with(Arc::new(PerBucket::<Xpir<3>>::new()))
}

/// How a database is arranged.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Arrangement {
    pub(crate) dimensions: usize,
    pub(crate) rows: usize,
    /// Of one part.
    pub(crate) columns: usize,
    /// Sets of columns under the same selectors, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<usize>,
    /// Of a third dimension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planes: Option<usize>,
    /// Of EXPAND; for the rows if those and the columns are expanded apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) levels: Option<u32>,
    /// log2 of a plaintext modulus that depends on the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plaintext_bits: Option<u32>,
}

/// A scheme whose stages can be timed.
pub(crate) trait Engine: Scheme {
    /// Clients whose queries are worth answering in one pass.
    const TILE: usize = 16;
    /// Whether [`Stage::Expanded`] ends an expansion; otherwise, queries are only parsed.
    const EXPANDS: bool;

    /// The parameters that are measured: [`Scheme::parameters`], but for an engine that refuses them as insecure.
    ///
    /// # Errors
    /// Those of [`Scheme::parameters`].
    fn parameters_to_measure(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        Self::parameters(elements, element_bytes)
    }

    /// [`Scheme::answer_tile`], telling when a stage has ended.
    fn answer_observed(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>>;

    /// Size of a prepared database in memory, bytes.
    fn database_bytes(database: &Self::Database) -> usize;

    fn arrangement(parameters: &Self::Parameters) -> Arrangement;
}

/// CPU time of the stages of one or more answers, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageTimes {
    /// Parsing and, where there is one, the expansion.
    pub(crate) expand: f64,
    pub(crate) first_dimension: f64,
    /// Those and whatever follows.
    pub(crate) total: f64,
}

impl StageTimes {
    /// Answers in one pass, and adds the time it takes.
    pub(crate) fn answer<E: Engine>(
        &mut self,
        database: &E::Database,
        queries: &[(&E::PublicKeys, &[u8])],
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.observe::<E>(database, queries).into_iter().collect()
    }

    /// The same, with an error for each malformed query.
    pub(crate) fn observe<E: Engine>(
        &mut self,
        database: &E::Database,
        queries: &[(&E::PublicKeys, &[u8])],
    ) -> Vec<Result<Vec<u8>, Error>> {
        let start = milliseconds();
        let mut last = start;
        let answers = E::answer_observed(database, queries, &mut |stage| {
            let now = milliseconds();
            match stage {
                Stage::Expanded => self.expand += now - last,
                Stage::FirstDimension => self.first_dimension += now - last,
                _ => {}
            }
            last = now;
        });
        self.total += milliseconds() - start;
        answers
    }
}

impl Engine for SealPir {
    const EXPANDS: bool = true;

    fn answer_observed(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        sealpir::answer_tile_observed(database, queries, observe)
    }

    fn database_bytes(database: &Self::Database) -> usize {
        database.bytes()
    }

    fn arrangement(parameters: &Self::Parameters) -> Arrangement {
        Arrangement {
            dimensions: parameters.dimensions(),
            rows: parameters.rows(),
            columns: parameters.columns(),
            parts: Some(parameters.parts()).filter(|parts| *parts > 1),
            planes: None,
            levels: Some(parameters.levels()),
            plaintext_bits: None,
        }
    }
}

impl<const D: usize> Engine for Xpir<D> {
    const EXPANDS: bool = false;

    fn answer_observed(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        xpir::answer_tile_observed(database, queries, observe)
    }

    fn database_bytes(database: &Self::Database) -> usize {
        database.bytes()
    }

    fn arrangement(parameters: &Self::Parameters) -> Arrangement {
        let shape = parameters.shape();
        Arrangement {
            dimensions: D,
            rows: shape[0],
            columns: shape[1],
            parts: None,
            planes: shape.get(2).copied(),
            levels: None,
            plaintext_bits: None,
        }
    }
}

impl<const T: u32> Engine for PaperSealPir<T> {
    const TILE: usize = 1;
    const EXPANDS: bool = true;

    fn parameters_to_measure(elements: usize, element_bytes: usize) -> Result<Self::Parameters, Error> {
        paper::Parameters::new_allowing_insecure_parameters(elements, element_bytes, 2)
    }

    fn answer_observed(
        database: &Self::Database,
        queries: &[(&Self::PublicKeys, &[u8])],
        observe: &mut dyn FnMut(Stage),
    ) -> Vec<Result<Vec<u8>, Error>> {
        paper::answer_tile_observed(database, queries, observe)
    }

    fn database_bytes(database: &Self::Database) -> usize {
        database.bytes()
    }

    fn arrangement(parameters: &Self::Parameters) -> Arrangement {
        Arrangement {
            dimensions: parameters.dimensions(),
            rows: parameters.rows(),
            columns: parameters.columns(),
            parts: None,
            planes: None,
            levels: Some(parameters.levels()[0]),
            plaintext_bits: Some(parameters.plaintext_bits()),
        }
    }
}
