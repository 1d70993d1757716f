//! The string by which two people meet: where the server is, and an invitation to a conversation there, so that whoever gets it
//! needs nothing else.
//!
//! ```text
//! meeting = address "/" check "/" invitation
//! check   = the first 6 characters, in lower-case base32, of SHA-256("sotto v1 meeting check" | 0 | address "/" invitation)
//! ```
//!
//! The check is against typing errors: the invitation has one of its own, and of the address only the root key could be told to be
//! wrong, and that by nobody but the server that is reached. One error in 2^30 passes. Strings without it, as they were made before, are taken.

use core::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use sotto_protocol::base32::BASE32;
use sotto_protocol::error::InputError;
use sotto_protocol::{Error, Invitation};
use zeroize::Zeroizing;

use crate::Address;
use crate::cli::failure::Failure;
use crate::daemon::message::Private;
use crate::daemon::{misread, parse};

/// More than the longest address, of 16 hosts with names of 253 characters, and an invitation take.
const CHARACTERS_MAX: usize = 8192;

const DOMAIN: &str = "sotto v1 meeting check\0";
const CHECK_CHARACTERS: usize = 6;

/// `ADDRESS/CHECK/INVITATION`, of a server's address and an invitation in their own forms.
pub(crate) fn join(server: &Address, invitation: &Invitation) -> Private {
    let (server, invitation) = (server.to_string(), Zeroizing::new(invitation.to_string()));
    // Never grown, so that no copy stays behind.
    let mut text = Zeroizing::new(String::with_capacity(CHARACTERS_MAX));
    let _ = write!(text, "{server}/{}/", check(&server, &invitation));
    text.push_str(&invitation);
    Private(text)
}

/// As it was copied, the case of letters does not matter.
fn check(server: &str, invitation: &str) -> String {
    let digest = Sha256::new_with_prefix(DOMAIN)
        .chain_update(server.to_ascii_lowercase())
        .chain_update("/")
        .chain_update(invitation);
    let mut check = BASE32.encode(&digest.finalize());
    check.truncate(CHECK_CHARACTERS);
    check
}

/// What mail programs and people add: breaks, marks of what is quoted, brackets around it, and what cannot be seen.
fn is_added(sign: char) -> bool {
    sign.is_whitespace()
        || matches!(
            sign,
            '>' | '<' | '‹' | '›' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
        )
}

/// Takes apart what [`join`] made, as a person copied it: blanks, line breaks, what stands around it and the case of letters do not matter. Without an
/// address, as invitations were before, it is for a server that both know.
///
/// # Errors
/// What is wrong with it, as wrong usage.
pub(crate) fn split(text: &Private) -> Result<(Option<Address>, Invitation), Failure> {
    let mut copied = Zeroizing::new(String::with_capacity(text.0.len()));
    copied.extend(text.0.chars().filter(|sign| !is_added(*sign)));
    copied.make_ascii_lowercase();
    match copied.rsplit_once('/') {
        None => Ok((None, parse(&Private(copied))?)),
        Some((before, text)) => {
            // First: an address alone is no invitation, whatever it looks like. What goes on behind one is.
            let is_cut = || copied.starts_with("sotto") && before.matches('/').count() > 2;
            let invitation = text.parse().map_err(|error| match error {
                Error::Input(InputError::NoInvitation) if is_cut() => {
                    misread(Error::Input(InputError::InvitationMistyped))
                }
                error => misread(error),
            })?;
            let address = match before.rsplit_once('/') {
                // No root key is so short.
                Some((address, said)) if said.len() <= CHECK_CHARACTERS => {
                    if said != check(address, text) {
                        return Err(misread(Error::Input(InputError::InvitationMistyped)));
                    }
                    address
                }
                _ => before,
            };
            Ok((Some(address.parse()?), invitation))
        }
    }
}

/// Whether this may be the beginning of what [`join`] made, or of an invitation alone, and some of it is still to come: a terminal, or
/// who sent it on, may have broken it into lines.
pub(crate) fn lacks_some(text: &str) -> bool {
    let mut copied = Zeroizing::new(String::with_capacity(text.len()));
    copied.extend(text.chars().filter(|sign| !is_added(*sign)));
    copied.make_ascii_lowercase();
    let (prefix, characters) = Invitation::FORM;
    let invitation = copied.rsplit('/').next().unwrap_or_default();
    match invitation.strip_prefix(prefix) {
        Some(_) => invitation.len() < characters,
        // All of these begin alike.
        None => {
            let is_cut = prefix.starts_with(invitation) || !copied.contains("sotto-invite-");
            is_cut && copied.starts_with("sotto")
        }
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::UnixMillis;
    use sotto_protocol::client::Client;

    use super::{CHARACTERS_MAX, join, lacks_some, split};
    use crate::Address;
    use crate::daemon::message::Private;
    use crate::testing::client;

    fn invitation(of: &mut Client) -> sotto_protocol::Invitation {
        of.invite("bob", UnixMillis(0), &mut rand::make_rng::<rand::rngs::StdRng>()).unwrap()
    }

    fn address(hosts: &str) -> Address {
        format!("sotto://{hosts}/{}", "a".repeat(52)).parse().unwrap()
    }

    #[test]
    fn what_was_joined_is_split_however_people_copied_it() {
        let invitation = invitation(&mut client("alice"));
        for hosts in ["chat.example.org:7370", "[2001:db8::7]:1,127.0.0.1:65535"] {
            let text = join(&address(hosts), &invitation).0;
            let upper = format!("  {}\r\n", text.to_ascii_uppercase());
            let (one, other) = text.split_at(100);
            let quoted = format!("> {one}\n> {other}\n>");
            let broken = format!("<{one}\u{200b}{other}>");
            for copied in [text.to_string(), upper, format!("{one}\n  {other}"), quoted, broken] {
                let (server, again) = split(&Private::new(copied)).unwrap();
                assert_eq!((server, again.to_string()), (Some(address(hosts)), invitation.to_string()));
            }
        }
        let (server, again) = split(&Private::new(invitation.to_string())).unwrap();
        assert_eq!((server, again.to_string()), (None, invitation.to_string()));
        // As they were made before.
        let (of, text) = (address("chat.example.org:7370"), invitation.to_string());
        let (server, again) = split(&Private::new(format!("{of}/{text}"))).unwrap();
        assert_eq!((server, again.to_string()), (Some(of), text));
    }

    /// Wherever it is, also in the server's name, which nobody else could tell.
    #[test]
    fn a_typing_error_shows_wherever_it_is() {
        let text = join(&address("chat.example.org:7370"), &invitation(&mut client("alice"))).0;
        assert!(split(&Private::new(text.as_str())).is_ok());
        for at in 0..text.len() {
            for typed in ["x", "7", "", "o0", ".", "/"] {
                let wrong = format!("{}{typed}{}", &text[..at], &text[at + 1..]);
                assert!(wrong == *text || split(&Private::new(wrong.as_str())).is_err(), "{wrong}");
            }
        }
        let other = text.replacen("chat", "char", 1);
        let refused = split(&Private::new(other)).unwrap_err();
        assert!(refused.message.contains("copy the whole text again"), "{}", refused.message);
    }

    #[test]
    fn what_is_none_says_what_it_is_not() {
        let text = join(&address("chat.example.org:7370"), &invitation(&mut client("alice"))).0;
        let (server, invitation) = text.rsplit_once('/').unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        let cut = &text[..text.len() - 1];
        let cut_short = &text[..server.len() + 10];
        let elsewhere = format!("http://chat.example.org/{invitation}");
        let other_key = format!("{}/{invitation}", &server[..server.len() - 1]);
        for (wrong, says) in [
            ("", "not an invitation"),
            ("/", "not an invitation"),
            (server, "not an invitation"),
            (cut, "copy the whole text again"),
            (cut_short, "copy the whole text again"),
            (&elsewhere, "not a server address"),
            (&other_key, "52 characters"),
        ] {
            let refused = split(&Private::new(wrong)).unwrap_err();
            assert!(refused.message.contains(says) && refused.exit == 2, "{wrong}: {}", refused.message);
        }
    }

    /// Whoever reads lines knows by that which is the last of an invitation: what follows is said to the contact.
    #[test]
    fn an_invitation_is_whole_with_its_last_character_and_what_is_none_at_once() {
        let invitation = invitation(&mut client("alice"));
        for text in [join(&address("chat.example.org:7370"), &invitation).0, invitation.to_string().into()] {
            let beginnings = (6..text.len()).map(|length| &text[..length]);
            assert!(
                beginnings.clone().all(lacks_some),
                "{:?}",
                beginnings.clone().find(|it| !lacks_some(it))
            );
            assert!(!lacks_some(&text) && !lacks_some(&format!(" {}\n", text.to_uppercase())));
        }
        for none in ["", "hello", "http://chat.example.org/", "sotto-invite-1-abc", "sotto-group-2-abc/"] {
            assert!(!lacks_some(none) || none.starts_with("sotto-group"), "{none}");
        }
    }

    /// Otherwise the buffer would grow, and leave a copy of the secret behind.
    #[test]
    fn the_longest_fits() {
        let name = |number: u8| {
            let label = "x".repeat(63);
            format!("{label}.{label}.{label}.{}{number:02}:65535", "x".repeat(59))
        };
        let hosts: Vec<String> = (0..16).map(name).collect();
        let text = join(&address(&hosts.join(",")), &invitation(&mut client("alice"))).0;
        assert!(text.len() <= CHARACTERS_MAX && text.capacity() == CHARACTERS_MAX);
    }
}
