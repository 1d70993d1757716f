//! What things cost.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

/// Hours of a month.
pub(crate) const MONTH_HOURS: f64 = 730.0;

/// In any currency, the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Prices {
    /// A core for an hour.
    pub(crate) core_hour: f64,
    /// 10^9 bytes sent to users; what they send is free.
    pub(crate) gb_egress: f64,
    /// 10^9 bytes of memory for an hour.
    pub(crate) gb_memory_hour: f64,
    /// 10^9 bytes of disk for a month.
    pub(crate) gb_disk_month: f64,
}

/// Nobody's price list, but of the order of what rented machines cost.
impl Default for Prices {
    fn default() -> Self {
        Self { core_hour: 0.03, gb_egress: 0.02, gb_memory_hour: 0.004, gb_disk_month: 0.08 }
    }
}

#[derive(clap::Args)]
pub(crate) struct PriceArguments {
    /// Prices as a JSON object with any of core_hour, gb_egress, gb_memory_hour and gb_disk_month.
    #[arg(long)]
    prices: Option<PathBuf>,
    /// A core for an hour [default: 0.03, an assumption].
    #[arg(long)]
    core_hour: Option<f64>,
    /// 10^9 bytes sent to users [default: 0.02, an assumption].
    #[arg(long)]
    gb_egress: Option<f64>,
    /// 10^9 bytes of memory for an hour [default: 0.004, an assumption].
    #[arg(long)]
    gb_memory_hour: Option<f64>,
    /// 10^9 bytes of disk for a month [default: 0.08, an assumption].
    #[arg(long)]
    gb_disk_month: Option<f64>,
}

impl PriceArguments {
    /// Those of the command line, before those of the file, before the defaults.
    pub(crate) fn read(&self) -> anyhow::Result<Prices> {
        let file = match &self.prices {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                serde_json::from_str(&text).with_context(|| format!("{} holds no prices", path.display()))?
            }
            None => Prices::default(),
        };
        let price = |given: Option<f64>, file: f64| {
            let price = given.unwrap_or(file);
            ensure!(price.is_finite() && price >= 0.0, "a price must be 0 or above, and not {price}");
            Ok(price)
        };
        Ok(Prices {
            core_hour: price(self.core_hour, file.core_hour)?,
            gb_egress: price(self.gb_egress, file.gb_egress)?,
            gb_memory_hour: price(self.gb_memory_hour, file.gb_memory_hour)?,
            gb_disk_month: price(self.gb_disk_month, file.gb_disk_month)?,
        })
    }
}
