//! The configuration: a file in TOML, and the environment, which goes before it.

use core::time::Duration;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use mpir::Engine;
use serde::{Deserialize, Serialize};
use sotto_wire::Transport;
use sotto_wire::address::parse_authority;
use toml::{Table, Value};

use crate::{Addressing, CertificateFiles, Config, EngineName, Limits, Preference, Registration};

/// Name of the configuration in a data directory.
pub(super) const FILE: &str = "sottod.toml";
/// Every setting, explained.
pub(super) const TEMPLATE: &str = include_str!("template.toml");

const PREFIX: &str = "SOTTOD_";
/// Variables that are no settings: they say where the settings are.
const PLACES: [&str; 2] = ["SOTTOD_CONFIG", "SOTTOD_POOL"];
/// Longest configuration, bytes.
const BYTES_MAX: u64 = 1 << 20;
const MIB: usize = 1 << 20;

/// What is set; the rest has its default. The file's comments say what each is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) listen: Option<SocketAddr>,
    pub(super) public: Option<String>,
    pub(super) plaintext: Option<bool>,
    pub(super) operations: Option<SocketAddr>,
    pub(super) peers: Option<SocketAddr>,
    pub(super) registration: Option<Registration>,
    pub(super) data: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) certificate_key: Option<PathBuf>,
    pub(super) rounds: RoundSettings,
    pub(super) limits: LimitSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RoundSettings {
    pub(super) closed_loop: Option<bool>,
    pub(super) round_ms: Option<u32>,
    pub(super) addressing: Option<Addressing>,
    pub(super) engine: Option<EngineName>,
    pub(super) prefer: Option<Preference>,
    pub(super) retrieve: Option<u16>,
    pub(super) buckets: Option<u16>,
    pub(super) choices: Option<u8>,
    pub(super) retained: Option<u8>,
    pub(super) deposit_ms: Option<u32>,
    pub(super) lookup_ms: Option<u32>,
    pub(super) query_ms: Option<u32>,
    pub(super) deposit_spread_ms: Option<u32>,
    pub(super) query_spread_ms: Option<u32>,
    pub(super) seed_segments: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitSettings {
    connections: Option<usize>,
    unknown_s: Option<u32>,
    streams_per_connection: Option<u32>,
    sessions: Option<usize>,
    session_idle_s: Option<u32>,
    challenge_s: Option<u32>,
    key_mib: Option<usize>,
    key_files_mib: Option<usize>,
    uploads: Option<usize>,
    queries: Option<usize>,
    retrievals: Option<usize>,
    query_mib: Option<usize>,
    standing_mib: Option<usize>,
    answer_mib: Option<usize>,
    mappings: Option<usize>,
    computing: Option<usize>,
    tile: Option<usize>,
    gather_ms: Option<u32>,
    threads: Option<usize>,
    deposits: Option<usize>,
    stall_s: Option<u32>,
    call_s: Option<u32>,
    drain_s: Option<u32>,
}

impl Settings {
    /// Reads the file, which must be there if it is named, and what the environment changes.
    pub(super) fn read(
        file: Option<&Path>,
        data: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> anyhow::Result<Self> {
        // One that is there and cannot be read is not as good as none.
        let beside = data.map(|data| data.join(FILE)).filter(|path| fs::symlink_metadata(path).is_ok());
        let path = file.map(Path::to_owned).or(beside);
        let mut table = match &path {
            Some(path) => read(path).with_context(|| format!("configuration {}", path.display()))?,
            None => Table::new(),
        };
        // First by itself, so that an error names the line.
        if let Some(path) = &path {
            check(&table).with_context(|| format!("configuration {}", path.display()))?;
        }
        for (name, value) in environment {
            override_by(&mut table, &name, &value)?;
        }
        let mut settings = check(&table).context("environment")?;
        if settings.data.is_none() {
            let home = path.as_deref().and_then(Path::parent).filter(|home| home.join("identity").exists());
            settings.data = data.or(home).map(Path::to_owned);
        }
        Ok(settings)
    }

    /// The engine of private retrieval.
    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        let RoundSettings { engine, prefer, .. } = &self.rounds;
        engine.unwrap_or_default().engine(prefer.unwrap_or_default())
    }

    /// What a server is started with.
    pub(super) fn into_config(self) -> anyhow::Result<Config> {
        let listen = self.listen.unwrap_or_else(|| ([127, 0, 0, 1], 7370).into());
        let rounds = self.rounds;
        let defaults = match rounds.closed_loop {
            Some(true) => Config::closed_loop(listen),
            _ => Config::deadline(listen),
        };
        let certificate = match (self.certificate, self.certificate_key) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            _ => bail!("'certificate' and 'certificate_key' go together: set both or none"),
        };
        ensure!(
            certificate.is_none() || self.data.is_some(),
            "a certificate needs the data directory of its cluster: set 'data' too"
        );
        check_preference((rounds.engine.unwrap_or_default(), rounds.prefer.unwrap_or_default()))?;
        Ok(Config {
            transport: if self.plaintext == Some(true) { Transport::Plaintext } else { Transport::Tls },
            public: self.public.as_deref().map(parse_authority).transpose().context("'public'")?,
            operations: self.operations,
            peers: self.peers.unwrap_or(defaults.peers),
            registration: self.registration.unwrap_or(match listen.ip().is_loopback() {
                true => Registration::Open,
                false => Registration::Token,
            }),
            certificate,
            round_ms: rounds.round_ms.unwrap_or(defaults.round_ms),
            code: rounds.addressing.map_or(defaults.code, Addressing::code),
            retrieve: rounds.retrieve.unwrap_or(defaults.retrieve),
            buckets: rounds.buckets,
            choices: rounds.choices.unwrap_or(defaults.choices),
            retained: rounds.retained.unwrap_or(defaults.retained),
            deposit_ms: rounds.deposit_ms.unwrap_or(defaults.deposit_ms),
            lookup_ms: rounds.lookup_ms.unwrap_or(defaults.lookup_ms),
            query_ms: rounds.query_ms.unwrap_or(defaults.query_ms),
            deposit_spread_ms: rounds.deposit_spread_ms,
            query_spread_ms: rounds.query_spread_ms,
            seed_segments: rounds.seed_segments,
            data: self.data,
            limits: self.limits.over(defaults.limits)?,
            ..defaults
        })
    }
}

/// Whether an engine knows what it is to arrange rounds for.
pub(super) fn check_preference((engine, prefer): (EngineName, Preference)) -> anyhow::Result<()> {
    ensure!(
        engine != EngineName::Sealpir || prefer == Preference::Balanced,
        "'prefer' is for the engines voce, voce-hint and voce-apart, and {engine} has one arrangement: leave it out, or choose \
         another engine"
    );
    Ok(())
}

impl LimitSettings {
    fn over(self, defaults: Limits) -> anyhow::Result<Limits> {
        let seconds = |setting: Option<u32>, default: Duration| {
            setting.map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        let threads = self.threads.unwrap_or(defaults.threads);
        let mebibytes = |name: &str, setting: Option<usize>, default: usize| match setting {
            Some(mib) => mib.checked_mul(MIB).with_context(|| format!("'{name}' is too much")),
            None => Ok(default),
        };
        // What is left out follows from what is set.
        let connections = self.connections.unwrap_or(defaults.connections);
        let sessions = self.sessions.unwrap_or(Limits::sessions_for(connections));
        ensure!(
            sessions >= connections,
            "'sessions' is {sessions}, and 'connections' is {connections}: everybody who is connected needs a session"
        );
        Ok(Limits {
            connections,
            unknown: seconds(self.unknown_s, defaults.unknown),
            streams_per_connection: self.streams_per_connection.unwrap_or(defaults.streams_per_connection),
            sessions,
            session_idle: seconds(self.session_idle_s, defaults.session_idle),
            challenge_age: seconds(self.challenge_s, defaults.challenge_age),
            key_bytes: mebibytes("key_mib", self.key_mib, defaults.key_bytes)?,
            key_file_bytes: mebibytes(
                "key_files_mib",
                self.key_files_mib,
                Limits::key_files_for(connections),
            )?,
            uploads: self.uploads.unwrap_or(defaults.uploads),
            queries: self.queries.unwrap_or(defaults.queries),
            retrievals: self.retrievals.unwrap_or(defaults.retrievals),
            query_bytes: mebibytes("query_mib", self.query_mib, defaults.query_bytes)?,
            standing_bytes: mebibytes("standing_mib", self.standing_mib, defaults.standing_bytes)?,
            answer_bytes: mebibytes("answer_mib", self.answer_mib, defaults.answer_bytes)?,
            mappings: self.mappings.unwrap_or(defaults.mappings),
            computing: self.computing.unwrap_or(threads.max(2)),
            tile: self.tile.unwrap_or(defaults.tile),
            gather: self.gather_ms.map_or(defaults.gather, |ms| Duration::from_millis(ms.into())),
            threads,
            deposits: self.deposits.unwrap_or(defaults.deposits),
            stall: seconds(self.stall_s, defaults.stall),
            call: seconds(self.call_s, defaults.call),
            drain: seconds(self.drain_s, defaults.drain),
        })
    }
}

/// The environment, as far as it is text.
pub(super) fn environment() -> anyhow::Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) if name.starts_with(PREFIX) => bail!("the variable {name} is no text"),
            Err(_) => {}
        }
    }
    Ok(variables)
}

fn read(path: &Path) -> anyhow::Result<Table> {
    ensure!(fs::metadata(path)?.len() <= BYTES_MAX, "it is longer than any configuration");
    Ok(fs::read_to_string(path)?.parse()?)
}

fn check(table: &Table) -> anyhow::Result<Settings> {
    Ok(Settings::deserialize(table.clone())?)
}

/// Puts the value of a variable where it belongs. What begins like a setting and is none is told, and left alone: other
/// programs set variables for every program.
fn override_by(table: &mut Table, name: &str, value: &str) -> anyhow::Result<()> {
    let Some(setting) = name.strip_prefix(PREFIX).map(str::to_ascii_lowercase) else { return Ok(()) };
    if PLACES.contains(&name) {
        return Ok(());
    }
    let Some((section, key)) = place(&setting) else {
        tracing::warn!(variable = name, "the variable is no setting");
        return Ok(());
    };
    // A number, a flag, or else a text.
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let table = match section {
        None => table,
        Some(section) => match table.entry(section).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(table) => table,
            _ => bail!("'{section}' is a section"),
        },
    };
    table.insert(key.to_owned(), value);
    Ok(())
}

/// Section and name of a setting as the environment names it, found in the template.
fn place(setting: &str) -> Option<(Option<&'static str>, &'static str)> {
    fields().find(|(section, key)| match section {
        None => *key == setting,
        Some(section) => setting.strip_prefix(section).and_then(|rest| rest.strip_prefix('_')) == Some(*key),
    })
}

/// Every setting of the template, commented out or not: its section and name.
fn fields() -> impl Iterator<Item = (Option<&'static str>, &'static str)> {
    let mut section = None;
    TEMPLATE.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Some(name);
        }
        let (key, _) = line.strip_prefix('#').unwrap_or(line).split_once(" = ")?;
        let is_key = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_key.then_some((section, key))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{LimitSettings, RoundSettings, Settings, TEMPLATE, Table, fields};
    use crate::cli::keys::template;
    use crate::{Addressing, Config, EngineName, Limits, Preference, Registration};
    use mpir::Form;

    fn set(environment: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let pairs = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::read(None, None, pairs)
    }

    /// A setting that is not explained is as good as none.
    #[test]
    fn the_template_has_every_setting_and_no_other() {
        let everything: String = TEMPLATE
            .lines()
            .map(|line| {
                let bare = line
                    .strip_prefix('#')
                    .filter(|rest| rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')));
                format!("{}\n", bare.unwrap_or(line))
            })
            .collect();
        let table: Table = everything.parse().unwrap();
        let settings: Settings = table.clone().try_into().unwrap();
        // What is not set is not written.
        assert_eq!(Table::try_from(&settings).unwrap(), table);
        let Settings { rounds, limits, .. } = &settings;
        let debug = format!("{settings:?}{rounds:?}{limits:?}");
        assert!(!debug.contains("None"), "not in the template: {debug}");
        assert_eq!(
            fields().count(),
            table.len() - 2 + fields().filter(|(section, _)| section.is_some()).count()
        );
    }

    #[test]
    fn the_defaults_of_the_template_are_those_of_the_program() {
        let settings: Settings = toml::from_str(TEMPLATE).unwrap();
        let config = Settings { registration: None, ..settings }.into_config().unwrap();
        let defaults = Config::deadline(([127, 0, 0, 1], 7370).into());
        assert_eq!(format!("{:?}", config.limits), format!("{:?}", Limits::default()));
        let shape = |config: &Config| {
            (
                (
                    config.listen,
                    config.peers,
                    config.transport,
                    config.mode,
                    config.round_ms,
                    config.retrieve,
                    config.buckets,
                ),
                (config.choices, config.retained, config.deposit_ms, config.lookup_ms, config.query_ms),
                config.code,
            )
        };
        assert_eq!(shape(&config), shape(&defaults));
    }

    #[test]
    fn what_is_chosen_when_a_directory_is_made_stands_in_its_settings() {
        let (engine, prefer) = (EngineName::Voce, Preference::Time);
        let text = template(([127, 0, 0, 1], 9).into(), None, Addressing::Slots, (engine, prefer), true);
        let settings: Settings = toml::from_str(&text).unwrap();
        let rounds = &settings.rounds;
        assert_eq!(
            (rounds.addressing, rounds.engine, rounds.prefer),
            (Some(Addressing::Slots), Some(engine), Some(prefer))
        );
        assert_eq!(settings.registration, Some(Registration::Open));
    }

    /// A preference that nothing heeds would be believed.
    #[test]
    fn only_engines_with_several_arrangements_can_be_told_what_to_arrange_for() {
        let config = |text: &str| {
            let settings: Settings = toml::from_str(&format!("[rounds]\n{text}")).unwrap();
            settings.into_config()
        };
        for engine in ["voce", "voce-hint", "voce-apart"] {
            for prefer in ["time", "balanced", "bytes"] {
                config(&format!("engine = {engine:?}\nprefer = {prefer:?}")).unwrap();
            }
        }
        config("engine = \"sealpir\"\nprefer = \"balanced\"").unwrap();
        let profile = |prefer: &str| {
            let text = format!("[rounds]\nengine = \"voce\"\nprefer = {prefer:?}");
            let settings: Settings = toml::from_str(&text).unwrap();
            let form = Form { buckets: 96, elements: 8_448, element_bytes: 288 };
            settings.engine().profile(form).unwrap()
        };
        assert!(profile("time") != profile("balanced") && profile("balanced") != profile("bytes"));
        for other in ["engine = \"sealpir\"\nprefer = \"time\"", "prefer = \"bytes\""] {
            let error = config(other).err().unwrap().to_string();
            assert!(error.contains("'prefer'") && error.contains("voce"), "{error}");
        }
    }

    /// Who makes room for more people by one setting must not find the others refusing them.
    #[test]
    fn limits_that_are_left_out_follow_from_the_one_that_is_set() {
        let limits = |text: &str| {
            let settings: Settings = toml::from_str(&format!("[limits]\n{text}")).unwrap();
            settings.into_config().map(|config| config.limits)
        };
        let grown = limits("connections = 10000").unwrap();
        assert_eq!((grown.connections, grown.sessions), (10_000, 640_000));
        assert_eq!(grown.key_file_bytes, 7500 << 20);
        let defaults = Limits::default();
        let keys = limits("key_mib = 1").unwrap();
        assert_eq!((keys.key_bytes, keys.connections), (1 << 20, defaults.connections));
        let error = limits("connections = 100\nsessions = 99").err().unwrap().to_string();
        assert!(error.contains("'sessions'") && error.contains("'connections'"), "{error}");
        assert_eq!(limits("connections = 100\nsessions = 100").unwrap().sessions, 100);
    }

    #[test]
    fn the_environment_goes_before_the_file_and_strange_variables_are_left_alone() {
        let settings = set(&[
            ("SOTTOD_LISTEN", "127.0.0.1:9"),
            ("SOTTOD_PUBLIC", "chat.example.org:1"),
            ("SOTTOD_PLAINTEXT", "true"),
            ("SOTTOD_PEERS", "127.0.0.1:8"),
            ("SOTTOD_REGISTRATION", "open"),
            ("SOTTOD_ROUNDS_ROUND_MS", "700"),
            ("SOTTOD_LIMITS_STREAMS_PER_CONNECTION", "3"),
            ("SOTTOD_PORT", "tcp://10.0.0.1:7370"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(settings.listen, Some(([127, 0, 0, 1], 9).into()));
        assert_eq!(settings.public.as_deref(), Some("chat.example.org:1"));
        assert_eq!(settings.plaintext, Some(true));
        assert_eq!(settings.peers, Some(([127, 0, 0, 1], 8).into()));
        assert_eq!(settings.rounds, RoundSettings { round_ms: Some(700), ..RoundSettings::default() });
        let limits = LimitSettings { streams_per_connection: Some(3), ..LimitSettings::default() };
        assert_eq!(settings.limits, limits);
        let error = set(&[("SOTTOD_ROUNDS_ROUND_MS", "soon")]).unwrap_err();
        assert!(format!("{error:#}").contains("round_ms"), "{error:#}");
    }

    #[test]
    fn an_unknown_or_ill_formed_setting_is_an_error_that_names_file_and_setting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sottod.toml");
        let read = |text: &str, file: Option<&Path>| {
            std::fs::write(&path, text).unwrap();
            Settings::read(file, Some(directory.path()), std::iter::empty())
        };
        for (text, names) in [
            ("listne = \"127.0.0.1:1\"", "listne"),
            ("[rounds]\nlength = 5", "length"),
            ("[limits]\nconnections = -1", "connections"),
            ("listen = 5", "listen"),
            ("[rounds", "line 1"),
        ] {
            let error = format!("{:#}", read(text, None).unwrap_err());
            assert!(error.contains("sottod.toml") && error.contains(names), "{text}: {error}");
        }
        let found = read("[rounds]\nretrieve = 1", None).unwrap();
        assert_eq!((found.rounds.retrieve, found.data.as_deref()), (Some(1), Some(directory.path())));
        assert!(Settings::read(Some(Path::new("/nowhere/at/all")), None, std::iter::empty()).is_err());
    }
}
