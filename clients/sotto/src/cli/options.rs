//! What can be said behind a command.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::Address;

/// Room of an account if nothing else is said.
pub(super) const CONVERSATIONS: u8 = 4;

/// What an account is made of.
#[derive(Debug, Args)]
pub(super) struct InitOptions {
    /// Address of the server, as its operator gives it; it may name several hosts
    #[arg(long, value_name = "ADDRESS")]
    pub(super) server: Address,
    /// Your name, as the groups you make show it
    #[arg(long)]
    pub(super) name: String,
    /// Room for contacts and groups. You speak in one of them per round in turn, existing or not, so that their number
    /// does not show. More room means longer waits: each has its turn once in N rounds, and with much room you do not look
    /// for all of them in every round either; 'sotto info SERVER --conversations N' says how long texts take. It cannot be
    /// changed later
    #[arg(long, value_name = "N", default_value_t = CONVERSATIONS, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) conversations: u8,
}

/// An account that may have to be made first.
#[derive(Debug, Args)]
pub(super) struct Newcomer {
    /// Your name, as the groups you make show it: makes an account if there is none
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Room for contacts and groups of an account that is made [default: that of 'sotto init', whose --help explains it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) conversations: Option<u8>,
}

/// How to invite.
#[derive(Debug, Args)]
pub(super) struct InviteOptions {
    /// Your name for the contact
    pub(super) contact: String,
    /// Where to make an account if there is none
    #[arg(long, value_name = "ADDRESS")]
    pub(super) server: Option<Address>,
    #[command(flatten)]
    pub(super) newcomer: Newcomer,
    /// Show it as a QR code, too, as a terminal that is large enough does by itself
    #[arg(long)]
    pub(super) qr: bool,
    /// Go on with 'sotto chat' there
    #[arg(long)]
    pub(super) chat: bool,
}

/// How to accept.
#[derive(Debug, Args)]
pub(super) struct AcceptOptions {
    /// Your name for the contact
    pub(super) contact: String,
    /// Only there to explain why it is refused.
    #[arg(hide = true)]
    pub(super) invitation: Option<String>,
    #[command(flatten)]
    pub(super) newcomer: Newcomer,
    /// Go on with 'sotto chat' there, on what follows on standard input
    #[arg(long)]
    pub(super) chat: bool,
}

/// What to ask a server.
#[derive(Debug, Args)]
pub(super) struct InfoOptions {
    /// Address of the server, as its operator gives it
    #[arg(value_name = "ADDRESS")]
    pub(super) server: Address,
    /// How many take part, which nobody tells to one who does not; with slots, how many have an account
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) people: Option<u64>,
    /// Room for contacts and groups that the account would have, on which it depends how long texts take
    #[arg(long, value_name = "N", default_value_t = CONVERSATIONS, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) conversations: u8,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// How to be online.
#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Leave after this time, counted from when you are online: 90s, 30m, 8h or 2d
    #[arg(long = "for", value_name = "TIME", value_parser = super::run::parse_duration)]
    pub(super) stay: Option<Duration>,
    /// Take screens of paired devices at this address of the machine, as 'sotto pair' explains
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// Started by another command, which waits until you are online.
    #[arg(long, hide = true)]
    pub(super) detached: bool,
}

/// How to chat.
#[derive(Debug, Default, Args)]
pub(super) struct ChatOptions {
    /// The contact or group
    pub(super) contact: String,
    /// Print one JSON object per arrival
    #[arg(long)]
    pub(super) json: bool,
    /// Stay after the end of input, until Ctrl-C
    #[arg(long)]
    pub(super) stay: bool,
    /// After the end of input, wait until everything typed here has arrived; you stay online then, too
    #[arg(long)]
    pub(super) wait: bool,
    /// Tell what every round costs
    #[arg(long)]
    pub(super) verbose: bool,
}

/// How to listen.
#[derive(Debug, Args)]
pub(super) struct ListenOptions {
    /// Print one JSON object a line: texts, arrivals, notes, rounds, conversations, the connection
    #[arg(long)]
    pub(super) json: bool,
    /// End after so many texts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// End after this time: 90s, 30m, 8h or 2d
    #[arg(long, value_name = "TIME", value_parser = super::run::parse_duration)]
    pub(super) until: Option<Duration>,
}

/// What to show of what was said.
#[derive(Debug, Args)]
pub(super) struct HistoryOptions {
    /// The contact or group; without one, how much is kept
    pub(super) contact: Option<String>,
    /// The last so many texts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) last: u32,
    /// One JSON object per text
    #[arg(long)]
    pub(super) json: bool,
    /// Keep the last N texts of all conversations together, and forget the rest now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub(super) keep: Option<u32>,
}

/// How much to check.
#[derive(Debug, Args)]
pub(super) struct AuditOptions {
    /// Rounds of which an answer is to be checked
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rounds: u32,
    /// One JSON object per answer
    #[arg(long)]
    pub(super) json: bool,
}

/// What to check.
#[derive(Debug, Args)]
pub(super) struct VerifyOptions {
    /// The proof
    pub(super) proof: PathBuf,
    /// Address of the server that it is against [default: that of the state directory]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) server: Option<Address>,
}

#[derive(Debug, Subcommand)]
pub(super) enum DevicesCommand {
    /// Revoke a device: what it has open ends at once
    #[command(after_help = "Example:\n  sotto devices revoke phone")]
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum GroupCommand {
    /// Make a group and print its card for the other members
    ///
    /// Members are contacts whose identity is known, or given with their identity. Whoever holds the card can read the
    /// group: hand it over where nobody else reads it.
    #[command(
        after_help = "Examples:\n  sotto group create desk bob carol > card-of-desk\n  sotto group create desk bob carol=IDENTITY"
    )]
    Create {
        /// Name of the group
        name: String,
        /// A contact's name, or NAME=IDENTITY with what 'sotto identity' prints at that person's
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
    },
    /// Join the group whose card is on standard input
    #[command(after_help = "Example:\n  sotto group join < card-of-desk")]
    Join,
    /// Leave a group; the others learn it while you are online
    #[command(after_help = "Example:\n  sotto group leave desk")]
    Leave {
        /// Name of the group
        name: String,
    },
    /// Remove a member from a group: all others get new keys
    #[command(after_help = "Example:\n  sotto group remove desk carol")]
    Remove {
        /// Name of the group
        name: String,
        /// The member's name on the group's card, or the identity
        member: String,
    },
    /// Take a removal back that has not been done yet; what waited to be said is not sent
    #[command(after_help = "Example:\n  sotto group keep desk carol")]
    Keep {
        /// Name of the group
        name: String,
        /// The member's name on the group's card, or the identity
        member: String,
    },
}
