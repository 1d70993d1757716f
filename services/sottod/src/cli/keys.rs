//! Making a data directory, certificates, tokens.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use sotto_wire::address::parse_authority;

use super::Failure;
use super::settings::{FILE, TEMPLATE};
use crate::data;
use crate::identity::Identity;
use crate::key_file::write_durably;

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
    /// Let everybody register who reaches the server, without a token.
    #[arg(long)]
    open_registration: bool,
}

pub(super) fn init(options: &InitOptions) -> Result<(), Failure> {
    let InitOptions { data, public, listen, open_registration } = options;
    if let Some(public) = public {
        parse_authority(public).map_err(Failure::misconfigured)?;
    }
    let listen = listen.unwrap_or_else(|| match public {
        Some(_) => ([0, 0, 0, 0], 7370).into(),
        None => ([127, 0, 0, 1], 7370).into(),
    });
    let mut settings = TEMPLATE.replace("listen = \"127.0.0.1:7370\"", &format!("listen = \"{listen}\""));
    if let Some(public) = public {
        settings = settings.replace("#public = \"chat.example.org:7370\"", &format!("public = \"{public}\""));
    }
    if *open_registration {
        settings = settings.replace("registration = \"token\"", "registration = \"open\"");
    }
    let path = data.join(FILE);
    // Before the keys, without which nothing is served: whoever has keys also has the configuration.
    data::create(data, || match fs::symlink_metadata(&path) {
        Ok(_) => Ok(()),
        Err(_) => write_durably(&path, settings.as_bytes(), 0o644),
    })?;

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

pub(super) fn tokens(data: &Path, count: u32) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for _ in 0..count {
        writeln!(out, "{}", data::issue_token(data)?)?;
    }
    Ok(())
}

pub(super) fn certify(data: &Path, root: Option<&Path>) -> Result<(), Failure> {
    Identity::certify(data, root)?;
    writeln!(std::io::stdout(), "the node has a new certificate; restart the server to use it")?;
    Ok(())
}
