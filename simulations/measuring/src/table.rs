//! Numbers, as CSV for programs and as Markdown for people.

use serde::{Deserialize, Serialize};

/// Rows of cells below a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// For people, above it; not in CSV.
    pub title: String,
    /// The names of the columns.
    pub header: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

/// What stands above a column, and what of a row stands in it.
pub type Column<R> = (&'static str, fn(&R) -> String);

impl Table {
    /// A table of the columns and rows.
    pub fn of<R>(title: &str, columns: &[Column<R>], rows: &[R]) -> Self {
        let mut table = Self::new(title, columns.iter().map(|(name, _)| *name).collect());
        rows.iter().for_each(|row| table.row(columns.iter().map(|(_, cell)| cell(row)).collect()));
        table
    }

    /// One without rows.
    pub fn new(title: &str, header: Vec<&str>) -> Self {
        let header = header.into_iter().map(str::to_owned).collect();
        Self { title: title.to_owned(), header, rows: Vec::new(), notes: Vec::new() }
    }

    /// Another row, of a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// A paragraph below the table; not in CSV.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The header and the cells.
    pub fn csv(&self) -> String {
        let line =
            |cells: &mut dyn Iterator<Item = &str>| cells.map(quoted).collect::<Vec<_>>().join(",") + "\n";
        let header = line(&mut self.header.iter().map(String::as_str));
        let rows = self.rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
        core::iter::once(header).chain(rows).collect()
    }

    /// The title, the cells and the notes.
    pub fn markdown(&self) -> String {
        format!("{}\n\n{}", self.title, self.markdown_body())
    }

    /// The cells and the notes.
    pub fn markdown_body(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut text = line(&mut self.header.iter().map(String::as_str));
        text += &format!("|{}\n", "---|".repeat(self.header.len()));
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }
}

/// Three digits, for people.
pub fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if !(0.01..1e6).contains(&value) => format!("{value:.1e}"),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The same where there is a value.
pub fn short_or_none(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short)
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// A comma in a cell must not shift the columns of whoever reads the file.
    #[test]
    fn cells_with_commas_are_quoted() {
        let mut table = Table::new("Title", vec!["code", "n"]);
        table.row(vec!["cuckoo, w = 3".to_owned(), "1".to_owned()]);
        assert_eq!(table.csv(), "code,n\n\"cuckoo, w = 3\",1\n");
        table.note("A note.".to_owned());
        assert_eq!(table.markdown(), "Title\n\n| code | n |\n|---|---|\n| cuckoo, w = 3 | 1 |\n\nA note.\n");
    }
}
