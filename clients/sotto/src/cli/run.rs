//! Being online: 'sotto run', and what ends and shows it.

use core::time::Duration;
use std::io;
use std::path::PathBuf;

use serde_json::json;

use super::failure::Failure;
use super::link::{Link, quietly};
use super::options::RunOptions;
use super::print::{object, result, status};
use super::{passphrase, state};
use crate::daemon::message::{Account, Conversation, Reply, Request, Status};
use crate::daemon::{Options, unexpected};
use crate::device::attached;

/// Nobody fixes a longer time beforehand.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(super) async fn run(home: Option<PathBuf>, options: RunOptions) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    attached::refuse(&directory)?;
    let RunOptions { stay, listen, detached } = options;
    // From the program that started this one, and nothing if there is none.
    let passphrase = match detached {
        true => Some(passphrase::first_line(io::stdin().lock())?).filter(|line| !line.as_str().is_empty()),
        false => None,
    };
    crate::daemon::run(&directory, Options { detached, stay, listen, passphrase }).await
}

/// `90s`, `30m`, `8h` or `2d`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number with s, m, h or d behind it, like 90s, 30m, 8h or 2d".to_owned();
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).ok_or_else(wrong)?;
    let count: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = match text.as_bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        _ => 24 * 60 * 60,
    };
    let duration = Duration::from_secs(count.checked_mul(seconds).ok_or_else(wrong)?);
    if duration.is_zero() || duration > LONGEST {
        return Err("a time is between 1 second and 366 days".to_owned());
    }
    Ok(duration)
}

pub(super) async fn stop(home: Option<PathBuf>) -> Result<(), Failure> {
    let Some(mut link) = Link::reach(&state::directory(home)?).await? else {
        status("you are not online");
        return Ok(());
    };
    let Reply::Leaving = link.ask(Request::Stop).await? else { return Err(unexpected()) };
    status("finishing the round, so that the moment you leave tells nothing");
    link.end().await;
    status("you are offline");
    Ok(())
}

pub(super) async fn status_of(home: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let directory = state::directory(home)?;
    let (online, reply) = match Link::reach(&directory).await? {
        Some(mut link) => {
            let Reply::Status(online) = link.ask(Request::Status).await? else { return Err(unexpected()) };
            (Some(online), link.ask(Request::Account(Account::Contacts)).await?)
        }
        None => (None, quietly(Some(directory), Account::Contacts).await?),
    };
    let Reply::Conversations(conversations) = reply else { return Err(unexpected()) };
    let queue = |of: &Conversation| of.queued > 0 || of.unread > 0;
    if json {
        let queues: Vec<_> = conversations
            .iter()
            .filter(|of| queue(of))
            .map(|of| json!({"name": of.name, "queued": of.queued, "unread": of.unread}))
            .collect();
        object(&json!({"online": online, "conversations": queues}))?;
        return Ok(());
    }
    match &online {
        Some(online) => result(&describe(online))?,
        None => result("offline; 'sotto run' takes you online")?,
    }
    for of in conversations.iter().filter(|of| queue(of)) {
        result(&format!("{}\t{} not arrived yet\t{} not read yet", of.name, of.queued, of.unread))?;
    }
    Ok(())
}

fn describe(online: &Status) -> String {
    let session = if online.connected { "online at" } else { "trying to reach" };
    let end = match online.leaves_in_seconds {
        Some(seconds) => format!("leaves in {seconds} s"),
        None => "stays until 'sotto stop'".to_owned(),
    };
    format!(
        "{session} {} as {} for {} s; round {}; {end}; {} programs attached; process {}",
        online.server, online.name, online.online_seconds, online.round, online.attached, online.process
    )
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::parse_duration;

    #[test]
    fn a_time_has_a_unit_and_an_end() {
        let seconds = |text| parse_duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("30m"), Ok(1800));
        assert_eq!(seconds("8h"), Ok(28_800));
        assert_eq!(parse_duration("2d"), Ok(Duration::from_secs(172_800)));
        for wrong in
            ["", "s", "90", "0s", "-1s", "1.5h", "367d", "99999999999999999999d", "213503982334602d", "1ä"]
        {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
