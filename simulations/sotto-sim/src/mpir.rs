//! `sotto-sim mpir`: many private retrievals at once, by any batch code.

mod measure;
mod report;
mod setting;

use anyhow::ensure;

pub(crate) use measure::measure;
pub(crate) use report::Report;
pub(crate) use setting::Setting;

use sotto_measuring::cpu::alone;

use crate::listing::listing;

/// One multi-query of one client, stage by stage, in CPU time of one thread.
///
/// Buckets are set up and answered in groups of 2 GiB of prepared buckets, so that memory stays bounded while no group
/// fits in a cache; buckets of the same content are set up once. Queries are answered one at a time, single ones too,
/// without the tiles that serve several clients in one pass.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// End with one JSON object on the last line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let report = alone(|| measure(&arguments.setting, ""))?;
    println!("Medians over the runs, CPU time of one thread for a whole batch:\n{}", listing(&report)?);
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    }
    ensure!(report.verified, "a retrieved element is not the database's");
    Ok(())
}
