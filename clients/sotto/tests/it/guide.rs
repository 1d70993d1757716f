//! What the guide shows is what the program draws and understands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const GUIDE: &str = include_str!("../../../../docs/GUIDE.md");
const ADDRESS: &str = "sotto://127.0.0.1:7370/oq4hbwqu2h25bh7fqtatlflc3rhj77zayd4ype3natgwheq6wjpa";

/// The fenced blocks of a kind.
fn blocks(kind: &str) -> Vec<Vec<&'static str>> {
    let fence = format!("```{kind}");
    let mut lines = GUIDE.lines();
    let mut blocks = Vec::new();
    while lines.by_ref().any(|line| line == fence) {
        blocks.push(lines.by_ref().take_while(|line| *line != "```").collect());
    }
    blocks
}

/// What the screen's tests have drawn, by name, without the rows in which there is nothing.
fn screens() -> Vec<(String, Vec<String>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/screen/tests/snapshots");
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let rows = |drawn: &str| {
        let rows = drawn.lines().take_while(|row| !row.starts_with("===="));
        rows.filter(|row| !matches!(row.trim(), "" | "│")).map(str::to_owned).collect()
    };
    files.map(|file| (file.display().to_string(), rows(&fs::read_to_string(&file).unwrap()))).collect()
}

#[test]
fn every_screen_of_the_guide_is_drawn_by_the_program() {
    let screens = screens();
    let quoted = blocks("screen");
    assert!(quoted.len() > 4);
    for quote in quoted {
        let drawn = screens.iter().any(|(_, rows)| rows.windows(quote.len()).any(|rows| rows == quote));
        assert!(drawn, "the program draws no such screen any more:\n{}", quote.join("\n"));
    }
}

#[test]
fn every_command_of_the_guide_is_one_of_the_program() {
    let lines: Vec<&str> = blocks("console").concat();
    let mut seen = BTreeSet::new();
    for line in lines.iter().filter(|line| line.starts_with("sotto ")) {
        let words = line.split_whitespace();
        let words = words.map(|word| if word.starts_with("sotto://") { ADDRESS } else { word });
        match sotto::cli::command().try_get_matches_from(words) {
            Ok(matches) => seen.extend(matches.subcommand_name().map(str::to_owned)),
            Err(error) => assert!(!error.use_stderr(), "{line}: {error}"),
        }
    }
    for needed in
        ["info", "invite", "accept", "verify", "screen", "chat", "group", "stop", "passphrase", "close"]
    {
        assert!(seen.contains(needed), "the guide has no example of {needed}");
    }
    let others = lines.iter().filter(|line| !line.starts_with("sotto "));
    assert_eq!(others.collect::<Vec<_>>(), [&"cargo install --locked --path clients/sotto"]);
}

/// Those of the screen, against its help.
#[test]
fn every_slash_command_of_the_guide_is_in_the_help_of_the_screen() {
    let screens = screens();
    let help: Vec<&str> = screens
        .iter()
        .filter(|(name, _)| name.contains("help"))
        .flat_map(|(_, rows)| rows)
        .flat_map(|row| row.split([' ', ';', ',']))
        .collect();
    let spans = GUIDE.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands: Vec<&str> = spans.filter(|span| span.starts_with('/')).collect();
    assert!(commands.len() > 4);
    // The help does not explain how to get to it.
    for command in commands.into_iter().filter(|command| *command != "/help") {
        assert!(help.contains(&command), "{command} is not in {help:?}");
    }
}

#[test]
fn links_of_the_guide_lead_somewhere() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let headings = |text: &str| -> BTreeSet<String> {
        let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
        headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect()
    };
    let targets = GUIDE.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for target in targets.filter(|target| !target.starts_with("https://")) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let text =
            if file.is_empty() { GUIDE.to_owned() } else { fs::read_to_string(docs.join(file)).unwrap() };
        assert!(heading.is_empty() || headings(&text).contains(heading), "{target}");
    }
}
