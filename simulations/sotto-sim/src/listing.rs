//! Reports for people: the same fields as in JSON, each on a line of its own.

use serde::Serialize;
use sotto_measuring::table::short;

/// All fields in their order, what belongs to one of them indented below it, and measured values with three digits.
pub(crate) fn listing(report: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(report)?;
    Ok(json.lines().filter_map(line).collect::<Vec<_>>().join("\n"))
}

/// A line of JSON without what only programs need; nothing is left of a bracket.
fn line(json: &str) -> Option<String> {
    let text = json.trim_start();
    let indent = json.len().saturating_sub(text.len() + 2);
    let (name, value) = text.split_once(": ").unwrap_or(("", text));
    let name = name.trim_matches('"').replace('_', " ");
    let value = value.trim_end_matches(',').trim_matches(['{', '}', '[', ']', '"']);
    let value = match value.parse::<f64>() {
        // A count has no point.
        Ok(measured) if value.contains(['.', 'e']) => short(measured),
        _ => value.to_owned(),
    };
    let shown = !name.is_empty() || !value.is_empty();
    shown.then(|| format!("{:indent$}{name:34} {value}", "").trim_end().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use serde_json::json;

    use super::listing;

    /// What is measured must stand beside its own name, and counts must not be rounded.
    #[test]
    fn every_field_has_its_line() {
        let report =
            json!({"a_code": "cuckoo", "interval": [1e-9, 2.0], "n": 262_144, "of": {"cpu_ms": 1.2345}});
        let listed = listing(&report).unwrap();
        let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected =
            [&["a", "code", "cuckoo"][..], &["interval"], &["1.0e-9"], &["2.00"], &["n", "262144"]];
        assert_eq!(words[..5], expected);
        assert_eq!(words[5..], [&["of"][..], &["cpu", "ms", "1.23"]]);
    }
}
