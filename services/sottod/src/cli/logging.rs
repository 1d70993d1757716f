//! Of which parts of the program how much is told.

use std::ffi::OsString;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// Where `RUST_LOG` does not say it.
const USUAL: &str = "info,openraft=error";

/// What `RUST_LOG` says: levels, of all or of one part, with commas between them.
///
/// # Errors
/// A sentence for whoever wrote it, if it is anything else.
pub(super) fn told_of(said: Option<OsString>) -> Result<Targets, String> {
    let said = said.unwrap_or_default();
    let shown = said.to_string_lossy().into_owned();
    let refused = |piece: &str| {
        format!(
            "RUST_LOG is '{shown}', of which '{piece}' is no level, and no level of a part as in '{USUAL}'"
        )
    };
    let text = said.to_str().ok_or_else(|| refused(&shown))?;
    let pieces = text.split(',').map(str::trim).filter(|piece| !piece.is_empty());
    let pieces: Vec<&str> = pieces.collect();
    let pieces = if pieces.is_empty() { USUAL.split(',').collect() } else { pieces };
    let mut told_of = Targets::new();
    for piece in pieces {
        // A word that is no level would be taken for a part of the program, and silence all others.
        let (part, level) =
            piece.split_once('=').map_or((None, piece), |(part, level)| (Some(part.trim()), level.trim()));
        let level: LevelFilter = level.parse().map_err(|_| refused(piece))?;
        told_of = match part {
            None => told_of.with_default(level),
            Some(part) if is_path(part) => told_of.with_target(part, level),
            Some(_) => return Err(refused(piece)),
        };
    }
    Ok(told_of)
}

/// Whether this can be the path of a module.
fn is_path(part: &str) -> bool {
    !part.is_empty()
        && part.chars().all(|character| character.is_alphanumeric() || matches!(character, '_' | ':'))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use tracing_subscriber::filter::{LevelFilter, Targets};

    use super::told_of;

    fn of(said: &str) -> Result<Targets, String> {
        told_of(Some(OsString::from(said)))
    }

    #[test]
    fn levels_are_of_all_or_of_a_part() {
        let usual =
            Targets::new().with_default(LevelFilter::INFO).with_target("openraft", LevelFilter::ERROR);
        assert_eq!(told_of(None).unwrap(), usual);
        for said in ["", " ", ",", "info,openraft=error", "info, openraft=error", "INFO,,openraft = error,"] {
            assert_eq!(of(said).unwrap(), usual, "{said}");
        }
        assert_eq!(of("debug,").unwrap(), Targets::new().with_default(LevelFilter::DEBUG));
        let parts =
            Targets::new().with_target("sotto_log", LevelFilter::TRACE).with_target("h2", LevelFilter::OFF);
        assert_eq!(of("sotto_log=trace,h2=off").unwrap(), parts);
    }

    #[test]
    fn what_is_no_level_is_refused_and_silences_nobody() {
        for said in [
            "dbug",
            "sottod",
            "[span]=info",
            "sottod[x{a=1}]=debug",
            "nonsense=blah",
            "=info",
            "a=b=info",
            "info;warn",
        ] {
            assert!(of(said).unwrap_err().contains(said), "{said}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt as _;

        assert!(told_of(Some(OsString::from_vec(vec![b'i', 0xff]))).is_err());
    }
}
