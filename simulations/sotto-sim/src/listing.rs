//! Reports for people: the same fields as in JSON, each on a line of its own.

use serde::Serialize;

use crate::table::short;

/// All fields in their order, what belongs to one of them indented below it; what is measured has three digits, and
/// bytes have decimal units.
pub(crate) fn listing(report: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(report)?;
    let mut lines: Vec<String> = Vec::new();
    // Where a field of bytes stands: what is indented deeper are bytes, too.
    let mut of_bytes = None;
    for line in json.lines() {
        let text = line.trim_start();
        let indent = line.len().saturating_sub(text.len() + 2);
        let (name, value) = text.split_once(": ").unwrap_or(("", text));
        let name = name.trim_matches('"').replace('_', " ");
        let value = value.trim_end_matches(',').trim_matches(['{', '}', '[', ']', '"']);
        if of_bytes.is_none_or(|above| indent <= above) {
            of_bytes = name.contains("bytes").then_some(indent);
        }
        let value = match value.parse::<f64>() {
            Ok(number) if of_bytes.is_some() => bytes(number),
            // A count has no point.
            Ok(measured) if value.contains(['.', 'e']) => short(measured),
            _ if value == "null" => "-".to_owned(),
            _ => value.to_owned(),
        };
        // Nothing is left of a line that ends an object.
        if !name.is_empty() || !value.is_empty() {
            lines.push(format!("{:indent$}{name:34} {value}", "").trim_end().to_owned());
        }
    }
    Ok(lines.join("\n"))
}

fn bytes(value: f64) -> String {
    match value {
        _ if value < 1e6 => format!("{value:.0}"),
        _ if value < 1e9 => format!("{:.1} MB", value / 1e6),
        _ if value < 1e12 => format!("{:.2} GB", value / 1e9),
        _ => format!("{:.2} TB", value / 1e12),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use serde_json::json;

    use super::listing;

    /// What is measured must stand beside its own name, and counts must not be rounded.
    #[test]
    fn every_field_has_its_line() {
        let of_bytes = json!({"keys": 2.5e9, "query": 288});
        let report = json!({"a_code": "cuckoo", "interval": [1e-9, 2.0], "n": 262_144, "of_bytes": of_bytes});
        let listed = listing(&report).unwrap();
        let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            &["a", "code", "cuckoo"][..],
            &["interval"],
            &["1.0e-9"],
            &["2.00"],
            &["n", "262144"],
            &["of", "bytes"],
            &["keys", "2.50", "GB"],
            &["query", "288"],
        ];
        assert_eq!(words, expected);
    }
}
