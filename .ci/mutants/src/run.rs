//! Which tests meet a change, and whether one of them fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Caught,
    /// It took much longer than without the change, or waited for ever.
    Timeout,
    Missed,
    /// No test comes where it is.
    Unmet,
    Unviable,
}

impl Outcome {
    const ALL: [(Self, &str); 5] = [
        (Self::Caught, "caught"),
        (Self::Timeout, "timeout"),
        (Self::Missed, "missed"),
        (Self::Unmet, "unmet"),
        (Self::Unviable, "unviable"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, name)| name)
    }
}

/// What was found out, kept in a file.
pub(crate) struct Outcomes {
    file: File,
    known: BTreeMap<String, Outcome>,
}

impl Outcomes {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut known = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let mut columns = line.split('\t');
            let (outcome, name) = (columns.next(), columns.next().context("no name")?);
            let outcome = Outcome::ALL.iter().find(|(_, name)| Some(*name) == outcome);
            known.insert(name.to_owned(), outcome.context("no outcome")?.0);
        }
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self { file, known })
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    pub(crate) fn add(&mut self, name: &str, outcome: Outcome, by: &str) -> Result<()> {
        self.known.insert(name.to_owned(), outcome);
        Ok(writeln!(self.file, "{}\t{name}\t{by}", outcome.name())?)
    }

    pub(crate) fn counts<'a>(&self, names: impl Iterator<Item = &'a str>) -> String {
        let (mut listed, mut counts) = (0, BTreeMap::new());
        for name in names {
            listed += 1;
            self.known.get(name).into_iter().for_each(|outcome| *counts.entry(*outcome).or_insert(0) += 1);
        }
        let tried: u32 = counts.values().sum();
        let counts: Vec<_> =
            counts.iter().map(|(outcome, count)| format!("{} {count}", outcome.name())).collect();
        format!("{listed} listed, {tried} tried: {}", counts.join(", "))
    }
}

/// A test: its program, its name, how long it takes, and what it meets.
pub(crate) struct Test {
    program: usize,
    name: String,
    time: Duration,
    meets: BTreeSet<u32>,
}

/// A test does not take more memory than this, KiB, whatever is changed.
const MEMORY: u64 = 4 << 20;
/// What tests may take more than four times what they did, s.
const SLACK: u64 = 3;
/// Tests quicker than this are run together, first.
const QUICK: Duration = Duration::from_millis(200);
/// A test that takes more processor time than this is not used, s: it would be run for most changes that nothing catches.
const LONGEST: u64 = 10;
/// What the longer tests that are run for a change may take in all; a change that these let pass is missed.
const MOST: Duration = Duration::from_secs(45);

enum End {
    Passed,
    Failed(String),
    Late,
}

/// Runs tests of a program until one fails; `seconds` of processor time at most.
fn run(program: &Path, seconds: u64, names: &[&str], set: &[(&str, &str)]) -> Result<End> {
    // A package's tests expect its folder as the present one.
    let folder = manifest_folder(program)?;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -t {seconds}; ulimit -v {MEMORY}; exec \"$@\""), "sh"]);
    command.arg(program).args(["-Z", "unstable-options", "--fail-fast", "--exact"]).args(names);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0").env("RUST_TEST_THREADS", "1");
    command.env("CARGO_MANIFEST_DIR", &folder).current_dir(&folder).envs(set.iter().copied());
    let name = format!("mutants-{}-{:?}", std::process::id(), std::thread::current().id());
    let log = std::env::temp_dir().join(name);
    let output = File::create(&log)?;
    let mut child = command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output).spawn()?;
    // Of one that waits for ever.
    let until = Instant::now() + Duration::from_secs(60 + 20 * seconds);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Ok(End::Late);
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    if status.success() {
        return Ok(End::Passed);
    }
    // Killed for the time that it takes.
    use std::os::unix::process::ExitStatusExt as _;
    if matches!(status.signal(), Some(9 | 24)) {
        return Ok(End::Late);
    }
    let said = fs::read(&log)?;
    let said = String::from_utf8_lossy(&said);
    let failed = said.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    Ok(End::Failed(failed.unwrap_or("it ends").to_owned()))
}

/// Does this for every item, as many at a time as there are processors, and stops where one fails.
pub(crate) fn each<T: Sync>(items: &[T], does: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            does(item)?;
        }
        Ok(())
    };
    let threads = available_parallelism().map_or(1, usize::from);
    let ended = scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        working
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect::<Vec<_>>()
    });
    ended.into_iter().collect()
}

/// The folder of the package whose test program this is, from what stands beside it.
fn manifest_folder(program: &Path) -> Result<PathBuf> {
    let described = fs::read_to_string(program.with_extension("d"))?;
    let sources = described.lines().next().context("no sources")?;
    let source = sources.split_whitespace().nth(1).context("no source")?;
    let mut folder = std::env::current_dir()?.join(source);
    while !folder.join("Cargo.toml").exists() {
        ensure!(folder.pop(), "{} belongs to no package", program.display());
    }
    Ok(folder)
}

/// Runs every test by itself.
pub(crate) fn trace(programs: &[PathBuf], out: &Path) -> Result<Vec<Test>> {
    let folder = fs::canonicalize(out)?;
    let mut all = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let names = |more: &[&str]| -> Result<BTreeSet<String>> {
            let listed = Command::new(program).args(["--list", "--format", "terse"]).args(more).output()?;
            let text = String::from_utf8_lossy(&listed.stdout).into_owned();
            Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
        };
        all.extend(names(&[])?.difference(&names(&["--ignored"])?).map(|name| (number, name.clone())));
    }
    let tests = Mutex::new(Vec::new());
    each(&all, |(program, name)| {
        let trace = folder.join(format!("trace-{:?}", std::thread::current().id()));
        let _ = fs::remove_file(&trace);
        let began = Instant::now();
        let set = [("WOVEN_TRACE", trace.to_str().context("path")?)];
        match run(&programs[*program], LONGEST, &[name], &set)? {
            End::Passed => {}
            End::Late => {
                println!("{name} takes too long, and is left out");
                return Ok(());
            }
            End::Failed(_) => {
                println!("{name} does not pass without any change, and is left out");
                return Ok(());
            }
        }
        let met = fs::read_to_string(&trace).unwrap_or_default();
        let meets = met.lines().map(str::parse).collect::<Result<_, _>>()?;
        let test = Test { program: *program, name: name.clone(), time: began.elapsed(), meets };
        tests.lock().map_err(|_| anyhow!("a thread panicked"))?.push(test);
        Ok(())
    })?;
    let mut tests = tests.into_inner().map_err(|_| anyhow!("a thread panicked"))?;
    tests.sort_by(|one, other| (one.time, &one.name).cmp(&(other.time, &other.name)));
    let all: Duration = tests.iter().map(|test| test.time).sum();
    println!("{} tests, {:.0} s one after the other", tests.len(), all.as_secs_f64());
    Ok(tests)
}

/// Tries a change with the tests that meet it.
pub(crate) fn try_woven(programs: &[PathBuf], tests: &[Test], number: u32) -> Result<(Outcome, String)> {
    let meeting: Vec<&Test> = tests.iter().filter(|test| test.meets.contains(&number)).collect();
    if meeting.is_empty() {
        return Ok((Outcome::Unmet, String::new()));
    }
    try_with(programs, &meeting, &[("WOVEN_TRIED", &number.to_string())])
}

/// Tries the change that is built into some of the programs.
pub(crate) fn try_built(
    programs: &[PathBuf],
    built: &[PathBuf],
    tests: &[Test],
) -> Result<(Outcome, String)> {
    let tests: Vec<&Test> = tests.iter().filter(|test| built.contains(&programs[test.program])).collect();
    // Several at a time, as one change is tried after the other.
    try_with(programs, &tests, &[("RUST_TEST_THREADS", "4")])
}

/// Runs the quick tests together, then the others one by one until they have taken too long.
fn try_with(programs: &[PathBuf], tests: &[&Test], set: &[(&str, &str)]) -> Result<(Outcome, String)> {
    let (quick, long) = tests.split_at(tests.partition_point(|test| test.time < QUICK));
    let mut batches: BTreeMap<usize, (Vec<&str>, Duration)> = BTreeMap::new();
    for test in quick {
        let (names, time) = batches.entry(test.program).or_default();
        names.push(&test.name);
        *time += test.time;
    }
    let mut all = Duration::ZERO;
    let within = long.iter().take_while(|test| {
        all += test.time;
        all <= MOST
    });
    let alone = within.map(|test| (test.program, (vec![test.name.as_str()], test.time)));
    for (program, (names, time)) in batches.into_iter().chain(alone) {
        match run(&programs[program], SLACK + (4 * time).as_secs(), &names, set)? {
            End::Passed => {}
            End::Failed(test) => return Ok((Outcome::Caught, test)),
            End::Late => return Ok((Outcome::Timeout, String::new())),
        }
    }
    Ok((Outcome::Missed, tests.iter().map(|test| test.name.as_str()).take(8).collect::<Vec<_>>().join(" ")))
}
