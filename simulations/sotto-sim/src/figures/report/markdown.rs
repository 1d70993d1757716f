//! The report in Markdown, its charts in files beside it.

use crate::figures::section::{INTRODUCTION, Section, TITLE};

pub(super) fn report(sections: &[Section], machines: &[(String, String)]) -> String {
    let mut text = format!("# {TITLE}\n\n{INTRODUCTION}\n\n## How they were made\n\n");
    for (machine, numbers) in machines {
        text += &format!("* Figures {numbers}: {machine}.\n");
    }
    text += "\n| figure | command | date | duration | commit | size |\n|---|---|---|---|---|---|\n";
    for section in sections {
        let made = &section.made;
        text += &format!(
            "| {} | `{}` | {} | {} | {} | {} |\n",
            section.item,
            made.command,
            made.date,
            made.duration(),
            made.commit(),
            made.size()
        );
    }
    for section in sections {
        let title = &section.table.title;
        text += &format!("\n## {title}\n\n{}\n\n![{title}]({})\n\n", section.shows, section.svg_name());
        text += &section.table.markdown_body();
        text += &format!("\n**Beside the paper.** {}\n", section.differs);
    }
    text
}
