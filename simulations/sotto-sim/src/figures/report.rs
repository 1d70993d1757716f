//! The report: all figures that lie in a directory, in Markdown, with their charts beside it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sotto_measuring::machine::Machine;

use super::item::Item;
use super::section::{Figure, Section};

const HEAD: &str = "# Figures of the paper, measured again

The figures of \"PIR with compressed queries and amortized query processing\" that are made \
    by this project's own code, with the paper's values beside ours. Times depend on the machine; the paper's servers \
    had 16 cores at 3.6 GHz (Intel Xeon E5-2667), its clients 16 at 2.4 GHz.

## How they were made

";

/// Writes the report on all figures in the directory, and returns its file.
pub(super) fn write(out: &Path) -> anyhow::Result<PathBuf> {
    let path = out.join("README.md");
    let report = markdown(&sections(out)?);
    fs::write(&path, report).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn markdown(sections: &[Section]) -> String {
    let mut text = HEAD.to_owned();
    for (machine, numbers) in machines(sections) {
        text += &format!("* Figures {numbers}: {machine}.\n");
    }
    text += "\n| figure | command | date | duration | commit | size |\n|---|---|---|---|---|---|\n";
    for Section { item, made, .. } in sections {
        let (duration, commit, size) = (made.duration(), made.commit(), made.size());
        let (command, date) = (&made.command, &made.date);
        text += &format!("| {item} | `{command}` | {date} | {duration} | {commit} | {size} |\n");
    }
    for Section { item, figure: Figure { table, shows, differs, .. }, .. } in sections {
        let (title, chart) = (&table.title, item.file_stem());
        text += &format!("\n## {title}\n\n{shows}\n\n![{title}]({chart}.svg)\n\n{}", table.markdown_body());
        text += &format!("\n**Beside the paper.** {differs}\n");
    }
    text
}

/// All sections that lie there, in the order of the figures.
fn sections(out: &Path) -> anyhow::Result<Vec<Section>> {
    let mut sections = Vec::new();
    for entry in fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if !Item::names_file(name) || path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        let context =
            || format!("{} is not a figure's part of a report; make that figure anew", path.display());
        let text = fs::read_to_string(&path).with_context(context)?;
        sections.push(serde_json::from_str::<Section>(&text).with_context(context)?);
    }
    sections.sort_by_key(|section| section.item);
    Ok(sections)
}

/// Every machine, described, with the numbers of its figures.
fn machines(sections: &[Section]) -> Vec<(String, String)> {
    let mut machines: Vec<(&Machine, Vec<String>)> = Vec::new();
    for section in sections {
        let number = section.item.to_string();
        match machines.iter_mut().find(|(machine, _)| *machine == &section.made.machine) {
            Some((_, numbers)) => numbers.push(number),
            None => machines.push((&section.made.machine, vec![number])),
        }
    }
    machines.into_iter().map(|(machine, numbers)| (machine.describe(), numbers.join(", "))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use core::time::Duration;
    use std::fs;

    use sotto_measuring::table::Table;

    use super::{Figure, Item, Section, write};

    fn section(item: Item, cell: &str) -> Section {
        let mut table = Table::new(&format!("{}: costs", item.name()), vec!["n", "ms"]);
        table.row(vec![cell.to_owned(), "1.5".to_owned()]);
        let figure =
            Figure { table, svg: String::new(), shows: "It shows.".into(), differs: "It differs.".into() };
        Section::new(item, figure, Duration::from_secs(60), true)
    }

    /// Making one figure again must not lose the others from the report, nor mix up their order.
    #[test]
    fn the_report_holds_all_figures_of_the_directory_in_their_order() {
        let out = tempfile::tempdir().unwrap();
        let put = |item: Item, cell: &str| {
            let path = out.path().join(item.file_stem()).with_extension("json");
            fs::write(path, serde_json::to_string(&section(item, cell)).unwrap()).unwrap();
            write(out.path()).unwrap();
        };
        put(Item::Scaling, "scaled");
        put(Item::Figure15, "fifteen");
        put(Item::Figure9, "nine");
        put(Item::Figure15, "anew");
        let text = fs::read_to_string(out.path().join("README.md")).unwrap();
        assert!(text.find("Figure 9: costs").unwrap() < text.find("Figure 15: costs").unwrap());
        assert!(text.find("Figure 15: costs").unwrap() < text.find("Scaling: costs").unwrap());
        assert!(text.contains("nine") && text.contains("anew") && !text.contains("fifteen"));
        assert!(text.contains("It differs.") && text.contains("kernel") && text.contains("](figure-15.svg)"));
    }

    /// A part of another version must be named, not left out silently.
    #[test]
    fn a_part_that_cannot_be_read_is_named() {
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join("figure-9.json"), "{}").unwrap();
        let error = write(out.path()).unwrap_err().to_string();
        assert!(error.contains("figure-9.json") && error.contains("anew"), "{error}");
    }
}
