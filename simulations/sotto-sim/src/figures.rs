//! `sotto-sim figures`: figures of the paper, measured again, with its values beside ours.

mod chart;
mod figure12;
mod figure15;
mod figure5;
mod table;

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};

/// Figures of the paper, measured again, with its values beside ours.
///
/// On one core that nothing else uses, figure 5 takes a minute, figure 15 half a minute, and figure 12 six minutes. Figure 12 keeps what
/// it has measured in figure-12.measured.jsonl beside its table, and a run that was interrupted goes on from there;
/// delete that file to measure anew. What would read more than 6 GB of buckets for one multi-query is left out.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of the paper's figures, separated by commas: 5, 12, 15.
    #[arg(long, value_delimiter = ',', default_values_t = [5, 12, 15])]
    only: Vec<u8>,
    /// The directory to write to, made if need be: for each figure a table as CSV and Markdown, and a chart as SVG.
    #[arg(long)]
    out: PathBuf,
    /// Smaller collections and fewer batches, to see that everything works.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = &arguments.out;
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for figure in &arguments.only {
        // Each on a thread of its own: a thread can be the only one of one pool.
        let made = std::thread::scope(|scope| scope.spawn(|| make(*figure, arguments)).join());
        let (table, svg) = made.map_err(|_| anyhow!("figure {figure} panicked"))??;
        let name = format!("figure-{figure}");
        for (extension, content) in [("csv", table.csv()), ("md", table.markdown()), ("svg", svg)] {
            let path = out.join(&name).with_extension(extension);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            println!("{}", path.display());
        }
        println!("\n{}", table.markdown());
    }
    Ok(())
}

fn make(figure: u8, arguments: &Arguments) -> anyhow::Result<(table::Table, String)> {
    match figure {
        5 => figure5::make(arguments.quick),
        12 => figure12::make(arguments.quick, &arguments.out),
        15 => figure15::make(arguments.quick),
        _ => bail!("figure {figure} is not among those that can be made: 5, 12, 15"),
    }
}
