//! Making a data directory, certificates, tokens.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use sotto_files::replace;
use sotto_wire::address::parse_authority;

use super::Failure;
use super::settings::{FILE, Settings, TEMPLATE, check_preference, environment};
use crate::{Addressing, EngineName, Preference, data};

/// How a data directory is made.
#[derive(Args)]
pub(super) struct InitOptions {
    /// The data directory; created if it is missing.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: PathBuf,
    /// Host and port under which clients reach the server, such as chat.example.org:7370; without, only this machine does.
    #[arg(long, value_name = "HOST:PORT")]
    public: Option<String>,
    /// Where to listen [default: port 7370 of all addresses with --public, of 127.0.0.1 without].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How clients find messages. Accounts and conversations do not move from labels to the others, or back.
    #[arg(long, value_enum, default_value = "labels")]
    addressing: Addressing,
    /// What answers retrievals.
    #[arg(long, value_enum, default_value = "sealpir")]
    engine: EngineName,
    /// With voce, voce-hint and voce-apart: what a round is arranged for.
    #[arg(long, value_enum, default_value_t)]
    prefer: Preference,
    /// Let everybody register who reaches the server, without a token.
    #[arg(long)]
    open_registration: bool,
}

pub(super) fn init(options: &InitOptions) -> Result<(), Failure> {
    let InitOptions { data, public, listen, addressing, engine, prefer, open_registration } = options;
    if let Some(public) = public {
        parse_authority(public).map_err(Failure::misconfigured)?;
    }
    let listen = listen.unwrap_or_else(|| match public {
        Some(_) => ([0, 0, 0, 0], 7370).into(),
        None => ([127, 0, 0, 1], 7370).into(),
    });
    let arranged = (*engine, *prefer);
    check_preference(arranged).map_err(Failure::misconfigured)?;
    let settings = template(listen, public.as_deref(), *addressing, arranged, *open_registration);
    let path = data.join(FILE);
    // Before the keys, without which nothing is served: whoever has keys also has the configuration.
    data::create(data, || match fs::symlink_metadata(&path) {
        Ok(_) => Ok(()),
        Err(_) => replace(&path, settings.as_bytes(), 0o644),
    })?;

    // The first seeds, and the first signature.
    let settings = Settings::read(None, Some(data), environment().map_err(Failure::misconfigured)?);
    let settings = settings.map_err(Failure::misconfigured)?;
    let engine = settings.engine();
    let mut config = settings.into_config().map_err(Failure::misconfigured)?;
    config.data = Some(data.clone());
    data::certify(&*engine, data, None, &config, false)?;

    let mut out = std::io::stdout().lock();
    let data = data.display();
    writeln!(out, "made {data}: keys, a certificate, and the configuration {}", path.display())?;
    writeln!(out, "next: look through the configuration, then 'sottod serve --data {data}'")?;
    if !open_registration {
        writeln!(out, "for every person who is to join: 'sottod token --data {data}'")?;
    }
    writeln!(
        out,
        "{data}/root.key is who the server is: copy it to a safe place, and remove it here; only 'sottod certify' needs it"
    )?;
    Ok(())
}

/// The text of a configuration with every setting explained.
pub(super) fn template(
    listen: SocketAddr,
    public: Option<&str>,
    addressing: Addressing,
    (engine, prefer): (EngineName, Preference),
    open_registration: bool,
) -> String {
    let mut settings = TEMPLATE.replace("listen = \"127.0.0.1:7370\"", &format!("listen = \"{listen}\""));
    if let Some(public) = public {
        settings = settings.replace("#public = \"chat.example.org:7370\"", &format!("public = \"{public}\""));
    }
    let chosen = format!("addressing = \"{}\"", addressing.name());
    settings = settings.replace("addressing = \"labels\"", &chosen);
    settings = settings.replace("engine = \"sealpir\"", &format!("engine = \"{engine}\""));
    settings = settings.replace("prefer = \"balanced\"", &format!("prefer = \"{}\"", prefer.name()));
    if open_registration {
        settings = settings.replace("registration = \"token\"", "registration = \"open\"");
    }
    settings
}

pub(super) fn tokens(data: &Path, count: u32) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for _ in 0..count {
        writeln!(out, "{}", data::issue_token(data)?)?;
    }
    Ok(())
}

/// What the root key signs.
#[derive(Args)]
pub(super) struct CertifyOptions {
    /// The data directory.
    #[arg(long, value_name = "DIR", env = "SOTTOD_DATA")]
    data: PathBuf,
    /// The file with the root key, if it is not in the data directory.
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Configuration [default: sottod.toml in the data directory].
    #[arg(long, value_name = "FILE", env = "SOTTOD_CONFIG")]
    config: Option<PathBuf>,
    /// Make seeds for more rounds; no server may be using the directory.
    #[arg(long)]
    seeds: bool,
    /// With --seeds: the next start is to be with --restored, and goes on with a number by the clock.
    #[arg(long, requires = "seeds")]
    restored: bool,
}

pub(super) fn certify(options: &CertifyOptions) -> Result<(), Failure> {
    let CertifyOptions { data, root, config, seeds, restored } = options;
    let environment = environment().map_err(Failure::misconfigured)?;
    let settings = Settings::read(config.as_deref(), Some(data), environment);
    let settings = settings.map_err(Failure::misconfigured)?;
    let engine = settings.engine();
    let mut config = settings.into_config().map_err(Failure::misconfigured)?;
    (config.data, config.restored) = (Some(data.clone()), *restored);
    data::certify(&*engine, data, root.as_deref(), &config, *seeds)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "the node has a new certificate, and the root key has signed what it announces")?;
    writeln!(
        out,
        "a server that runs shows the certificate within seconds; what it announces anew, it does when it is started again"
    )?;
    Ok(())
}
