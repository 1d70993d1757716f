//! The batch codes by name.

use anyhow::{Context, ensure};
use clap::ValueEnum;
use pbc::{
    BatchCode, CuckooCode, Family, HybridCode, PartitionedCode, RandomBatch, ReplicationCode, Search,
    ShardingCode, TwoChoiceCode, choose_buckets, cuckoo_bound_log2, partitioned_bound_log2, sharding_failure,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeName {
    /// Every bucket holds everything.
    Replication,
    /// One hash, shards in several copies.
    Sharding,
    /// Two hashes, shards in several copies.
    TwoChoice,
    /// Two hashes, nine buckets of the subcube code.
    Hybrid,
    /// w hashes, buckets for one key each.
    Cuckoo,
    /// Cuckoo over indices, with one bucket in each of w groups.
    Partitioned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchName {
    Matching,
    RandomWalk,
}

/// Which code, and its dimensions.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Dimensions {
    /// The batch code.
    #[arg(long, value_enum, default_value_t = CodeName::Cuckoo)]
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
pub(crate) enum Code {
    Replication(ReplicationCode),
    Sharding(ShardingCode),
    TwoChoice(TwoChoiceCode),
    Hybrid(HybridCode),
    Cuckoo(CuckooCode, Search),
    Partitioned(PartitionedCode, usize),
}

impl Code {
    pub(crate) fn new(dimensions: Dimensions, seed: [u8; 32]) -> anyhow::Result<Self> {
        let Dimensions { code, n, k, b, w, copies, search, displacements } = dimensions;
        let shards = |copies: usize| -> anyhow::Result<usize> {
            let b = b.unwrap_or(k * copies);
            ensure!(copies > 0 && b % copies == 0, "b is the number of shards times the copies");
            Ok(b / copies)
        };
        Ok(match code {
            CodeName::Replication => {
                ensure!(b.is_none_or(|b| b == k), "replication has k buckets");
                Self::Replication(ReplicationCode::new(k, seed)?)
            }
            CodeName::Sharding => Self::Sharding(match copies {
                Some(copies) => ShardingCode::new(k, shards(copies)?, copies, seed)?,
                None => {
                    let paper = ShardingCode::of_paper(k, seed)?;
                    let copies = paper.copies();
                    if b.is_none() { paper } else { ShardingCode::new(k, shards(copies)?, copies, seed)? }
                }
            }),
            CodeName::TwoChoice => Self::TwoChoice(match copies {
                Some(copies) => TwoChoiceCode::new(k, shards(copies)?, copies, seed)?,
                None => {
                    let paper = TwoChoiceCode::of_paper(k, seed)?;
                    let copies = paper.copies();
                    if b.is_none() { paper } else { TwoChoiceCode::new(k, shards(copies)?, copies, seed)? }
                }
            }),
            CodeName::Hybrid => {
                let b = b.unwrap_or(9 * k);
                ensure!(b.is_multiple_of(9), "the hybrid has nine buckets for each cube");
                Self::Hybrid(HybridCode::new(k, b / 9, seed)?)
            }
            CodeName::Cuckoo => {
                let b = b.or_else(|| pbc::recommended_buckets(k, w));
                let b =
                    b.context("no number of buckets is recommended for these k and w; give one with --b")?;
                let search = match search {
                    SearchName::Matching => Search::Matching,
                    SearchName::RandomWalk => Search::RandomWalk { displacements },
                };
                Self::Cuckoo(
                    CuckooCode::new(k, b, if b == 1 { 1 } else { w }, seed)?.with_search(search),
                    search,
                )
            }
            CodeName::Partitioned => {
                let target = if w == 3 { -20.0 } else { -40.0 };
                let chosen =
                    || choose_buckets(Family::Partitioned, k, w, target).map(|choice| choice.buckets);
                let b =
                    b.or_else(chosen).context("no number of buckets is known for these k and w; give --b")?;
                Self::Partitioned(PartitionedCode::new(k, b, w, n, seed)?, w)
            }
        })
    }

    pub(crate) fn batch(&self) -> &dyn RandomBatch {
        match self {
            Self::Replication(code) => code,
            Self::Sharding(code) => code,
            Self::TwoChoice(code) => code,
            Self::Hybrid(code) => code,
            Self::Cuckoo(code, _) => code,
            Self::Partitioned(code, _) => code,
        }
    }

    /// Keys that name elements; only the partitioned code cares which.
    pub(crate) fn elements(&self) -> Option<usize> {
        match self {
            Self::Partitioned(code, _) => Some(code.elements()),
            _ => None,
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Replication(_) => "replication",
            Self::Sharding(_) => "sharding",
            Self::TwoChoice(_) => "two-choice",
            Self::Hybrid(_) => "hybrid",
            Self::Cuckoo(..) => "cuckoo",
            Self::Partitioned(..) => "partitioned",
        }
    }

    /// Hashes of a key.
    pub(crate) const fn choices(&self) -> usize {
        match self {
            Self::Replication(_) | Self::Sharding(_) => 1,
            Self::TwoChoice(_) | Self::Hybrid(_) => 2,
            Self::Cuckoo(code, _) => code.choices(),
            Self::Partitioned(_, w) => *w,
        }
    }

    /// Buckets of the same content.
    pub(crate) fn copies(&self) -> usize {
        match self {
            Self::Replication(code) => code.batch_size(),
            Self::Sharding(code) => code.copies(),
            Self::TwoChoice(code) => code.copies(),
            _ => 1,
        }
    }

    pub(crate) fn search(&self) -> String {
        match self {
            Self::Cuckoo(_, Search::RandomWalk { displacements }) => {
                format!("random walk, at most {displacements} displacements")
            }
            Self::Hybrid(_) => "moves between cubes".to_owned(),
            _ => "matching".to_owned(),
        }
    }

    /// A rigorous bound on the failure probability.
    pub(crate) fn bound_log2(&self) -> Option<f64> {
        let batch = self.batch();
        match self {
            Self::Cuckoo(code, Search::Matching) => {
                Some(cuckoo_bound_log2(batch.batch_size(), batch.bucket_count(), code.choices()))
            }
            Self::Partitioned(_, w) => {
                Some(partitioned_bound_log2(batch.batch_size(), batch.bucket_count(), *w))
            }
            _ => None,
        }
    }

    /// The failure probability, where it is known.
    pub(crate) fn exact_failure(&self) -> Option<f64> {
        match self {
            Self::Replication(_) => Some(0.0),
            Self::Sharding(code) => {
                Some(sharding_failure(code.batch_size(), code.bucket_count() / code.copies(), code.copies()))
            }
            _ => None,
        }
    }
}
