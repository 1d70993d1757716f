//! The batch codes, made from their names and dimensions.

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use pbc::{
    CuckooCode, Family, HybridCode, PartitionedCode, RandomBatch, ReplicationCode, Search, ShardingCode,
    TwoChoiceCode, choose_buckets, cuckoo_bound_log2, partitioned_bound_log2, sharding_failure,
};
use sotto_measuring::code::CodeName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchName {
    Matching,
    RandomWalk,
}

/// Which code, and its dimensions.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Dimensions {
    /// The batch code.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) code: CodeName,
    /// Elements of the collection; only the partitioned code depends on it.
    #[arg(long, default_value_t = 262_144)]
    pub(crate) n: usize,
    /// Keys in a batch.
    #[arg(long)]
    pub(crate) k: usize,
    /// Buckets; if it is left out, those of the paper, or for the cuckoo codes those of the table for 2^-20 (w = 3) or
    /// 2^-40 (w = 4).
    #[arg(long)]
    pub(crate) b: Option<usize>,
    /// Candidate buckets of a key (cuckoo), or groups (partitioned).
    #[arg(long, default_value_t = 3)]
    pub(crate) w: usize,
    /// Buckets of the same content (sharding, two-choice); if it is left out, the paper's number.
    #[arg(long)]
    pub(crate) copies: Option<usize>,
    /// How keys are placed (cuckoo).
    #[arg(long, value_enum, default_value_t = SearchName::Matching)]
    pub(crate) search: SearchName,
    /// Displacements that the random walk may make in one batch.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) displacements: u32,
}

impl Dimensions {
    /// A code with the numbers that the command takes where none are given.
    pub(crate) const fn of(code: CodeName, k: usize) -> Self {
        let search = SearchName::Matching;
        Self { code, n: 262_144, k, b: None, w: 3, copies: None, search, displacements: 1_000 }
    }
}

/// A batch code whose failures can be counted.
pub(crate) struct Code {
    pub(crate) name: CodeName,
    pub(crate) batch: Box<dyn RandomBatch>,
    /// Hashes of a key.
    pub(crate) choices: usize,
    /// Buckets of the same content.
    pub(crate) copies: usize,
    /// How keys are placed, where there is more than one way.
    search: Search,
    /// The code, if it computes positions by itself: its keys name elements.
    pub(crate) partitioned: Option<PartitionedCode>,
}

impl Code {
    pub(crate) fn new(dimensions: Dimensions, seed: [u8; 32]) -> anyhow::Result<Self> {
        let Dimensions { code: name, n, k, b, w, copies, search, displacements } = dimensions;
        let shards = |copies: usize| {
            let b = b.unwrap_or(k * copies);
            ensure!(copies > 0 && b % copies == 0, "b is the number of shards times the copies");
            Ok(b / copies)
        };
        let search = match search {
            SearchName::RandomWalk if name == CodeName::Cuckoo => Search::RandomWalk { displacements },
            _ => Search::Matching,
        };
        let mut partitioned = None;
        let (batch, choices, copies): (Box<dyn RandomBatch>, _, _) = match name {
            CodeName::Single => bail!("single queries are no batch code"),
            CodeName::Replication => {
                ensure!(b.is_none_or(|b| b == k), "replication has k buckets");
                (Box::new(ReplicationCode::new(k, seed)?), 1, k)
            }
            CodeName::Sharding => {
                let copies = match copies {
                    Some(copies) => copies,
                    None => ShardingCode::of_paper(k, seed)?.copies(),
                };
                (Box::new(ShardingCode::new(k, shards(copies)?, copies, seed)?), 1, copies)
            }
            CodeName::TwoChoice => {
                let copies = match copies {
                    Some(copies) => copies,
                    None => TwoChoiceCode::of_paper(k, seed)?.copies(),
                };
                (Box::new(TwoChoiceCode::new(k, shards(copies)?, copies, seed)?), 2, copies)
            }
            CodeName::Hybrid => {
                let b = b.unwrap_or(9 * k);
                ensure!(b.is_multiple_of(9), "the hybrid has nine buckets for each cube");
                (Box::new(HybridCode::new(k, b / 9, seed)?), 2, 1)
            }
            CodeName::Cuckoo => {
                let b = b.or_else(|| pbc::recommended_buckets(k, w));
                let b =
                    b.context("no number of buckets is recommended for these k and w; give one with --b")?;
                let choices = if b == 1 { 1 } else { w };
                (Box::new(CuckooCode::new(k, b, choices, seed)?.with_search(search)), choices, 1)
            }
            CodeName::Partitioned | CodeName::Standing => {
                let target = if w == 3 { -20.0 } else { -40.0 };
                let chosen =
                    || choose_buckets(Family::Partitioned, k, w, target).map(|choice| choice.buckets);
                let b =
                    b.or_else(chosen).context("no number of buckets is known for these k and w; give --b")?;
                let code = PartitionedCode::new(k, b, w, n, seed)?;
                partitioned = Some(code.clone());
                (Box::new(code), w, 1)
            }
        };
        Ok(Self { name, batch, choices, copies, search, partitioned })
    }

    /// For people.
    pub(crate) fn search(&self) -> String {
        match self.search {
            Search::RandomWalk { displacements } => {
                format!("random walk, at most {displacements} displacements")
            }
            _ if self.name == CodeName::Hybrid => "moves between cubes".to_owned(),
            _ => "matching".to_owned(),
        }
    }

    /// A rigorous bound on the failure probability.
    pub(crate) fn bound_log2(&self) -> Option<f64> {
        let (k, b, w) = (self.batch.batch_size(), self.batch.bucket_count(), self.choices);
        match (self.name, self.search) {
            (CodeName::Cuckoo, Search::Matching) => Some(cuckoo_bound_log2(k, b, w)),
            (CodeName::Partitioned | CodeName::Standing, _) => Some(partitioned_bound_log2(k, b, w)),
            _ => None,
        }
    }

    /// The failure probability, where it is known.
    pub(crate) fn exact_failure(&self) -> Option<f64> {
        let (k, b, copies) = (self.batch.batch_size(), self.batch.bucket_count(), self.copies);
        match self.name {
            CodeName::Replication => Some(0.0),
            CodeName::Sharding => Some(sharding_failure(k, b / copies, copies)),
            _ => None,
        }
    }
}
