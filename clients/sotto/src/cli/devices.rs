//! Screens on other machines.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;

use super::failure::Failure;
use super::input::read_broken_secret;
use super::link::Link;
use super::print::{code, object, result, status};
use super::state;
use crate::Store;
use crate::daemon::devices::{self, Devices, no_device, unkept};
use crate::daemon::message::{Device, Reply, Request};
use crate::daemon::unexpected;
use crate::device::attached::{self, Attached};
use crate::device::code::{self as codes, Code, CodeError};

impl From<CodeError> for Failure {
    fn from(error: CodeError) -> Self {
        Self::usage(error.to_string()).coded("device-code")
    }
}

pub(super) async fn pair(home: Option<PathBuf>, at: Option<String>, qr: bool) -> Result<(), Failure> {
    let Some(mut link) = Link::reach(&state::directory(home)?).await? else {
        return Err(Failure::state("you are not online; first: 'sotto run --listen ADDRESS:PORT'"));
    };
    let Reply::Code { code: paired, minutes } = link.ask(Request::Device(Device::Pair { at })).await? else {
        return Err(unexpected());
    };
    result(&paired.0)?;
    code(&paired.0, qr)?;
    status(&format!(
        "a secret for {minutes} minutes, for one device: there, 'sotto attach --name NAME', and paste it; a code made before \
         serves no more"
    ));
    Ok(())
}

pub(super) async fn attach(home: Option<PathBuf>, has_argument: bool, name: &str) -> Result<(), Failure> {
    if has_argument {
        return Err(Failure::usage(format!(
            "a code is a secret, and other programs can read a command line: run 'sotto attach --name {name}' and paste it"
        )));
    }
    let directory = state::directory(home)?;
    if Store::is_there(&directory) {
        return Err(Failure::state(format!(
            "there is an account in {}; name another directory for a device with --home",
            directory.display()
        )));
    }
    if attached::is_there(&directory) {
        return Err(Failure::state(format!(
            "{} is a paired device already; 'sotto wipe' makes it none",
            directory.display()
        )));
    }
    let copied = read_broken_secret("code", &CodeError::None.to_string(), codes::lacks_some)?;
    let code = Code::read(&copied)?;
    Store::prepare(&directory)?;
    let (attached, of) = Attached::pair(&directory, &code, name).await?;
    status(&format!(
        "this is a screen of {of} now, at {}; 'sotto screen' shows it, and 'sotto devices' there lists it as {name}",
        attached.authority
    ));
    Ok(())
}

pub(super) async fn all(home: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    let all = match Link::reach(&directory).await? {
        Some(mut link) => match link.ask(Request::Device(Device::All)).await? {
            Reply::Devices(all) => all,
            _ => return Err(unexpected()),
        },
        None => {
            let (_, snapshot) = state::read(&directory)?;
            let client = state::restore(&directory, &snapshot)?;
            Devices::of(&directory, client.account_seed()).all().map_err(unkept)?
        }
    };
    if all.is_empty() && !json {
        status("no device is paired; 'sotto pair' makes a code for one");
    }
    for devices::Device { name, paired_ms, .. } in all {
        let paired = i64::try_from(paired_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        if json {
            object(&json!({"name": name, "paired_ms": paired_ms}))?;
        } else {
            result(&format!(
                "{name}\tpaired {}",
                paired.map_or_else(String::new, |at| at.strftime("%Y-%m-%d").to_string())
            ))?;
        }
    }
    Ok(())
}

pub(super) async fn revoke(home: Option<PathBuf>, name: String) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    let revoked = format!("{name} is no device any more, and what it had open has ended");
    if let Some(mut link) = Link::reach(&directory).await? {
        let Reply::Done = link.ask(Request::Device(Device::Revoke { name })).await? else {
            return Err(unexpected());
        };
    } else {
        let _starting = Store::starting(&directory).await?;
        let (store, snapshot) = state::open(&directory)?;
        let client = state::restore(store.directory(), &snapshot)?;
        if !Devices::of(&directory, client.account_seed()).revoke(&name).map_err(unkept)? {
            return Err(no_device(&name));
        }
    }
    status(&revoked);
    Ok(())
}
