//! The report as one page that needs no other file.

use crate::figures::section::{INTRODUCTION, Section, TITLE};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2127; background: #fff; max-width: 940px;
       margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid #d8dbe0; padding-top: 1.5rem; }
nav a { margin-right: 1rem; }
figure { margin: 1.5rem 0; }
figure svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #e4e6ea; vertical-align: top; }
th { border-bottom: 2px solid #b0b4ba; }
.note { color: #4a4f57; font-size: 14px; }
code { font-size: 90%; }
";

pub(super) fn report(sections: &[Section], machines: &[(String, String)], charts: &[String]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{TITLE}</title>\n\
         <style>{STYLE}</style>\n<h1>{TITLE}</h1>\n"
    );
    page += &paragraph("", INTRODUCTION);
    page += "<nav>";
    for Section { item, .. } in sections {
        page += &format!("<a href=\"#{}\">{}</a>", item.file_stem(), item.name());
    }
    page += "</nav>\n<h2>How they were made</h2>\n<ul>\n";
    for (machine, numbers) in machines {
        page += &format!("<li>Figures {numbers}: {}.</li>\n", text(machine));
    }
    page += "</ul>\n";
    let header = ["figure", "command", "date", "duration", "commit", "size"].map(str::to_owned);
    let made = sections.iter().map(|Section { item, made, .. }| {
        let command = format!("`{}`", made.command);
        [&item.to_string(), &command, &made.date, &made.duration(), made.commit(), made.size()]
            .map(str::to_owned)
            .into()
    });
    page += &table(&header, &made.collect::<Vec<_>>());
    for (section, chart) in sections.iter().zip(charts) {
        let Section { item, table: numbers, .. } = section;
        page += &format!("<h2 id=\"{}\">{}</h2>\n", item.file_stem(), text(&numbers.title));
        page += &paragraph("", &section.shows);
        page += &format!("<figure>{chart}</figure>\n");
        page += &table(&numbers.header, &numbers.rows);
        for note in &numbers.notes {
            page += &paragraph(" class=\"note\"", note);
        }
        page += &format!("<p><strong>Beside the paper.</strong> {}</p>\n", text(&section.differs));
    }
    page + "</html>\n"
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", text(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(|row| line(row, "td")).collect();
    format!("<div class=\"wide\"><table>\n{}{rows}</table></div>\n", line(header, "th"))
}

fn paragraph(attributes: &str, content: &str) -> String {
    format!("<p{attributes}>{}</p>\n", text(content))
}

/// Text with the characters that mean something in HTML replaced, and what stands between backticks as code.
fn text(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let parts = escaped.split('`').enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}
