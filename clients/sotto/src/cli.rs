//! The command line.
//!
//! Results go to standard output, everything else to standard error, an error in one line that says what to do. Exit
//! codes: 0 done; 1 failed; 2 wrong usage; 3 the server cannot be reached; 4 the state directory is missing, in use or
//! damaged; 5 the server is not to be used (another key, version, engine, or parameters).

mod account;
mod audit;
mod chat;
pub(crate) mod contacts;
mod devices;
mod export;
pub(crate) mod failure;
mod group;
mod history;
mod info;
mod input;
pub(crate) mod link;
mod listen;
mod passphrase;
pub(crate) mod print;
mod run;
pub(crate) mod send;
pub(crate) mod state;
mod wipe;

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::Address;
use failure::Failure;

/// Metadata-private chat: the server does not learn who talks with whom, how often, or when.
///
/// Start with 'sotto init', then 'sotto run', which takes you online and keeps you there; then 'sotto invite' on one side
/// and 'sotto accept' on the other, then 'sotto chat'. Whatever needs you online takes you there itself, and nothing but
/// 'sotto stop' takes you offline: when you are online should tell nothing about with whom you talk.
#[derive(Debug, Parser)]
#[command(name = "sotto", version, after_help = EXIT_CODES)]
struct Cli {
    /// State directory [default: $SOTTO_HOME, $XDG_DATA_HOME/sotto, or ~/.local/share/sotto]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 server not reached, 4 state missing, in use \
                          or damaged, 5 server not to be used (other key, version, engine or parameters)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Make an account at a server
    #[command(
        after_help = "Example:\n  sotto init --server sotto://chat.example.org:7370/KEY --name alice\n  sotto init --server ADDRESS --name alice < token     (if the server asks for a registration token)"
    )]
    Init(InitOptions),
    /// Show what a server is and what taking part costs, before there is an account
    #[command(
        after_help = "Example:\n  sotto info sotto://chat.example.org:7370/KEY\n  sotto info ADDRESS --people 5000 --json"
    )]
    Info(InfoOptions),
    /// Close your account: the server forgets it, and its state on this machine is deleted
    ///
    /// For good: contacts are not told, and cannot reach you any more; a new account is a stranger to them. Say goodbye
    /// first. You must be offline. Proofs against the server stay.
    #[command(after_help = "Example:\n  sotto stop\n  sotto close --name alice")]
    Close {
        /// Your name, as 'sotto init' was told, so that no account is closed by mistake
        #[arg(long)]
        name: String,
    },
    /// Close the state on this machine with a passphrase, so that whoever takes the disk cannot read it
    ///
    /// It is asked for when you come online, and by commands while you are not; a first line of a file that SOTTO_PASSPHRASE_FILE
    /// names serves those who cannot type it. You must be offline. Nobody opens the state without it.
    #[command(
        after_help = "Examples:\n  sotto passphrase\n  sotto passphrase < new-passphrase\n  sotto passphrase --remove"
    )]
    Passphrase {
        /// Open the state for good
        #[arg(long)]
        remove: bool,
    },
    /// Keep a copy of the account aside, closed with a passphrase of its own
    ///
    /// The passphrase is asked for twice, or is the first line of standard input or of the file that --passphrase-file names; that of the state, in
    /// SOTTO_PASSPHRASE_FILE, is not taken for it. Only 'sotto restore' opens the copy. It is the account itself: keep it as carefully, and use it when the account is gone.
    #[command(after_help = "Example:\n  sotto export /media/stick/alice.sotto")]
    Export {
        /// The file, which must not be there yet
        file: PathBuf,
        /// A file with the passphrase of the copy on its first line
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// Go on with an account from a copy that 'sotto export' made
    ///
    /// Nothing that served before serves again: the account speaks and hears from the first round on that could not be used before
    /// this moment, and open invitations are void. If the server has made its rounds shorter since, the copy is of no use. What was said since the copy was made is lost to it. The account must not be
    /// in use anywhere else. Its state is closed with the passphrase of the copy.
    #[command(after_help = "Example:\n  sotto restore /media/stick/alice.sotto")]
    Restore {
        /// The copy
        file: PathBuf,
        /// A file with the passphrase of the copy on its first line
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// Take part in every round until 'sotto stop', Ctrl-C, or for a time that is fixed now
    ///
    /// Others can see when you are online, so nothing but you decides it: not contacts, nor texts, nor what has arrived.
    /// All other commands come to this one, and start it in the background if it does not run.
    #[command(
        after_help = "Examples:\n  sotto run\n  sotto run --for 8h\n  sotto run --listen 192.168.1.20:7371"
    )]
    Run(RunOptions),
    /// Let a screen on another machine come to 'sotto run', by a code that serves once
    ///
    /// 'sotto run' must have been told to --listen. The code is a secret for ten minutes: whoever has it and reaches this machine reads and
    /// writes in your name. On the other machine 'sotto attach' takes it. Your keys stay here.
    #[command(after_help = "Examples:\n  sotto pair\n  sotto pair --at 192.168.1.20:7371 > code")]
    Pair {
        /// Host and port by which the device reaches this machine [default: where 'sotto run' listens]
        #[arg(long, value_name = "HOST:PORT")]
        at: Option<String>,
        /// Show it as a QR code, too, as a terminal that is large enough does by itself
        #[arg(long)]
        qr: bool,
    },
    /// Make this machine a screen of the account whose code is on standard input
    ///
    /// From then on 'sotto screen', 'chat', 'send' and the others speak with 'sotto run' there, over TLS. No account is made here, and
    /// none can be in the same directory.
    #[command(after_help = "Example:\n  sotto attach --name phone      (then paste the code)")]
    Attach {
        /// Only there to explain why it is refused.
        #[arg(hide = true)]
        code: Option<String>,
        /// What 'sotto devices' calls this machine there
        #[arg(long)]
        name: String,
    },
    /// List the devices that are paired, or revoke one
    #[command(after_help = "Examples:\n  sotto devices --json\n  sotto devices revoke phone")]
    Devices {
        /// One JSON object per line
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<DevicesCommand>,
    },
    /// Remove everything of the account from this machine at once, without the server
    ///
    /// Whoever is online is ended, files are overwritten and removed. It cannot reach what the disk, backups and exports keep. The server is not asked: 'sotto close'
    /// has it forget the account, while the state is there.
    #[command(after_help = "Examples:\n  sotto wipe\n  sotto wipe --yes")]
    Wipe {
        /// Without asking
        #[arg(long)]
        yes: bool,
    },
    /// Go offline at the end of the round
    #[command(after_help = "Example:\n  sotto stop")]
    Stop,
    /// Show whether you are online, and what has not arrived or not been read
    #[command(after_help = "Example:\n  sotto status --json")]
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a contact and print the invitation for that person
    ///
    /// Whoever holds the invitation can take that person's place: hand it over where nobody else reads it. It says where the server
    /// is, too. With --server and --name an account is made first if there is none.
    #[command(
        after_help = "Examples:\n  sotto invite bob > invitation-for-bob\n  sotto invite bob --chat --server sotto://chat.example.org:7370/KEY --name alice"
    )]
    Invite(InviteOptions),
    /// Make a contact of the person whose invitation is on standard input
    ///
    /// It may be broken over several lines; an empty line ends it.
    /// With --name an account is made first if there is none, at the server that the invitation names; a registration token, if that
    /// server wants one, is the next line of standard input.
    #[command(
        after_help = "Examples:\n  sotto accept alice              (then paste the invitation)\n  sotto accept alice < invitation\n  sotto accept alice --chat --name bob"
    )]
    Accept(AcceptOptions),
    /// Show the words by which you and a contact know that nobody is in between
    ///
    /// Both see the same 16 words, in the same order, if each has the other's identity. Compare them side by side or by voice, not
    /// over this chat: whoever is in between reads and writes it.
    #[command(after_help = "Example:\n  sotto verify bob")]
    Verify {
        /// The contact
        contact: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the invitations that nobody has answered
    #[command(after_help = "Example:\n  sotto invitations --json")]
    Invitations {
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Take back an invitation that nobody has answered
    #[command(after_help = "Example:\n  sotto withdraw bob")]
    Withdraw {
        /// Your name for the contact
        contact: String,
    },
    /// List contacts and groups, with their identities
    #[command(after_help = "Example:\n  sotto contacts --json")]
    Contacts {
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Forget a contact or a group at once, with all its keys, and tell nobody
    #[command(after_help = "Example:\n  sotto forget bob")]
    Forget {
        /// The contact or group
        name: String,
    },
    /// Show nothing of a contact or a group from now on, and tell nobody
    ///
    /// What comes is acknowledged as if you had read it, and dropped, in groups, too, where the contact speaks; so the contact
    /// cannot tell. Warnings still come: they can be about the server. 'sotto forget' makes an end of it, which shows in time.
    #[command(after_help = "Example:\n  sotto block bob")]
    Block {
        /// The contact or group
        name: String,
    },
    /// Show again what comes from a contact or a group; what came meanwhile is gone
    #[command(after_help = "Example:\n  sotto unblock bob")]
    Unblock {
        /// The contact or group
        name: String,
    },
    /// Give a contact or a group another name, which only you see
    #[command(after_help = "Example:\n  sotto rename bob robert")]
    Rename {
        /// The contact or group
        name: String,
        /// Its new name
        to: String,
    },
    /// Talk with a contact or a group, line by line
    ///
    /// Every line of standard input is handed in as a text; what arrives is printed as 'name: text', what came while
    /// nobody looked first. The chat ends with its input, or with Ctrl-C, and you stay online: what has not arrived by
    /// then goes out in the conversation's turns. Several chats can run at the same time.
    #[command(
        after_help = "Examples:\n  sotto chat bob\n  echo 'The documents are ready.' | sotto chat bob\n  echo 'The documents are ready.' | sotto chat bob --wait"
    )]
    Chat(ChatOptions),
    /// Show all conversations on the whole terminal, until Ctrl-C or /quit
    ///
    /// Contacts and groups with what is unread, the open conversation, and the rounds; /help in it has all keys and commands.
    /// You stay online when it ends. A text counts as read once it was drawn. What was said before is there as far as
    /// 'sotto history' keeps it. With NO_COLOR set it shows no colours.
    #[command(after_help = "Example:\n  sotto screen")]
    Screen,
    /// Hand in one text for a contact or a group, and leave at once
    ///
    /// It goes out in the conversation's turns while you are online, and nothing that came is taken. The text is read from
    /// standard input, all of it; what stands in arguments can be seen by other programs of this machine.
    #[command(
        after_help = "Examples:\n  echo 'The documents are ready.' | sotto send bob\n  sotto send bob 'Nothing secret.'\n  sotto send bob --file map.png"
    )]
    Send {
        /// The contact or group
        contact: String,
        /// The text, where others may see it; - for standard input
        #[arg(default_value = "-")]
        text: String,
        /// Send this file of at most 64 KiB in place of a text; it takes a while, which is told
        #[arg(long, value_name = "PATH", conflicts_with_all = ["text", "reply_to"])]
        file: Option<PathBuf>,
        /// Reply to the text of that number, as 'sotto history' shows it behind a #
        #[arg(long, value_name = "NUMBER")]
        reply_to: Option<u64>,
        /// Print one JSON object, with the text's number
        #[arg(long)]
        json: bool,
    },
    /// Print everything that happens, in all conversations, until Ctrl-C
    ///
    /// What came while nobody looked comes first. What is printed counts as read; you stay online when this ends.
    #[command(after_help = "Examples:\n  sotto listen --json\n  sotto listen --json --count 1 --until 10m")]
    Listen(ListenOptions),
    /// Print the texts that came and that nobody has seen
    #[command(after_help = "Examples:\n  sotto read\n  sotto read bob --json")]
    Read {
        /// Only those of this contact or group
        contact: Option<String>,
        /// One JSON object per text
        #[arg(long)]
        json: bool,
    },
    /// Show what was said before with a contact or in a group, and what became of it
    ///
    /// The last 10,000 texts are kept on this machine, sealed under a key of your state: who has the disk, and the passphrase if
    /// you have set one, reads them. --keep says how many, and 0 forgets all and keeps nothing. What is shown here and was not read
    /// stays unread.
    #[command(
        after_help = "Examples:\n  sotto history bob\n  sotto history bob --last 1000 --json\n  sotto history --keep 0"
    )]
    History(HistoryOptions),
    /// Check answers of the server, by computing them again
    ///
    /// The server signs its answers. Online, this program checks about one bucket in 128 rounds by itself; this asks for
    /// one in about 8, until N answers are checked. If one is wrong, a proof is kept that convinces everybody who knows
    /// the server's address. That you check more often shows to the server; which answers, only after it has given them.
    #[command(after_help = "Examples:\n  sotto audit\n  sotto audit --rounds 20 --json")]
    Audit(AuditOptions),
    /// Check a proof that a server has given a wrong answer
    ///
    /// Exit code 0 means that the server of that address has signed a wrong answer, 1 that nothing shows it.
    #[command(
        after_help = "Examples:\n  sotto verify-proof proof-1234.sotto\n  sotto verify-proof proof-1234.sotto --server sotto://chat.example.org:7370/KEY"
    )]
    VerifyProof(VerifyOptions),
    /// Print your identity, by which others put you into groups
    #[command(after_help = "Example:\n  sotto identity")]
    Identity,
    /// Print what completes the command line in a shell
    #[command(
        after_help = "Examples:\n  sotto completions bash > ~/.local/share/bash-completion/completions/sotto\n  sotto completions zsh > ~/.zfunc/_sotto\n  sotto completions fish > ~/.config/fish/completions/sotto.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Make, join or leave groups, remove a member or keep one
    Group {
        #[command(subcommand)]
        command: GroupCommand,
    },
}

impl Command {
    /// Whether a program reads what it says, errors among it.
    fn speaks_json(&self) -> bool {
        match self {
            Self::Status { json }
            | Self::Invitations { json }
            | Self::Contacts { json }
            | Self::Verify { json, .. }
            | Self::Devices { json, .. }
            | Self::Send { json, .. }
            | Self::Read { json, .. } => *json,
            Self::Listen(options) => options.json,
            Self::History(options) => options.json,
            Self::Info(options) => options.json,
            Self::Chat(options) => options.json,
            Self::Audit(options) => options.json,
            Self::Run(options) => options.detached,
            _ => false,
        }
    }
}

/// Room of an account if nothing else is said.
const CONVERSATIONS: u8 = 4;

/// What an account is made of.
#[derive(Debug, Args)]
struct InitOptions {
    /// Address of the server, as its operator gives it; it may name several hosts
    #[arg(long, value_name = "ADDRESS")]
    server: Address,
    /// Your name, as the groups you make show it
    #[arg(long)]
    name: String,
    /// Room for contacts and groups. You speak in one of them per round in turn, existing or not, so that their number
    /// does not show. More room means longer waits: each has its turn once in N rounds, so that N times the length of a
    /// round passes between two turns. It cannot be changed later
    #[arg(long, value_name = "N", default_value_t = CONVERSATIONS, value_parser = clap::value_parser!(u8).range(1..))]
    conversations: u8,
}

/// An account that may have to be made first.
#[derive(Debug, Args)]
struct Newcomer {
    /// Your name, as the groups you make show it: makes an account if there is none
    #[arg(long)]
    name: Option<String>,
    /// Room for contacts and groups of an account that is made, as 'sotto init --help' explains
    #[arg(long, value_name = "N", default_value_t = CONVERSATIONS, value_parser = clap::value_parser!(u8).range(1..))]
    conversations: u8,
}

/// How to invite.
#[derive(Debug, Args)]
struct InviteOptions {
    /// Your name for the contact
    contact: String,
    /// Where to make an account if there is none
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    #[command(flatten)]
    newcomer: Newcomer,
    /// Show it as a QR code, too, as a terminal that is large enough does by itself
    #[arg(long)]
    qr: bool,
    /// Go on with 'sotto chat' there
    #[arg(long)]
    chat: bool,
}

/// How to accept.
#[derive(Debug, Args)]
struct AcceptOptions {
    /// Your name for the contact
    contact: String,
    /// Only there to explain why it is refused.
    #[arg(hide = true)]
    invitation: Option<String>,
    #[command(flatten)]
    newcomer: Newcomer,
    /// Go on with 'sotto chat' there, on what follows on standard input
    #[arg(long)]
    chat: bool,
}

/// What to ask a server.
#[derive(Debug, Args)]
struct InfoOptions {
    /// Address of the server, as its operator gives it
    #[arg(value_name = "ADDRESS")]
    server: Address,
    /// How many take part, which nobody tells to one who does not; with slots, how many have an account
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    people: Option<u64>,
    /// Room for contacts and groups that the account would have, on which it depends how long texts take
    #[arg(long, value_name = "N", default_value_t = CONVERSATIONS, value_parser = clap::value_parser!(u8).range(1..))]
    conversations: u8,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// How to be online.
#[derive(Debug, Args)]
struct RunOptions {
    /// Leave after this time, counted from when you are online: 90s, 30m, 8h or 2d
    #[arg(long = "for", value_name = "TIME", value_parser = run::parse_duration)]
    stay: Option<Duration>,
    /// Take screens of paired devices at this address of the machine, as 'sotto pair' explains
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Started by another command, which waits until you are online.
    #[arg(long, hide = true)]
    detached: bool,
}

/// How to chat.
#[derive(Debug, Default, Args)]
struct ChatOptions {
    /// The contact or group
    contact: String,
    /// Print one JSON object per arrival
    #[arg(long)]
    json: bool,
    /// Stay after the end of input, until Ctrl-C
    #[arg(long)]
    stay: bool,
    /// After the end of input, wait until everything typed here has arrived; you stay online then, too
    #[arg(long)]
    wait: bool,
    /// Tell what every round costs
    #[arg(long)]
    verbose: bool,
}

/// How to listen.
#[derive(Debug, Args)]
struct ListenOptions {
    /// Print one JSON object a line: texts, arrivals, notes, rounds, conversations, the connection
    #[arg(long)]
    json: bool,
    /// End after so many texts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time: 90s, 30m, 8h or 2d
    #[arg(long, value_name = "TIME", value_parser = run::parse_duration)]
    until: Option<Duration>,
}

/// What to show of what was said.
#[derive(Debug, Args)]
struct HistoryOptions {
    /// The contact or group; without one, how much is kept
    contact: Option<String>,
    /// The last so many texts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: u32,
    /// One JSON object per text
    #[arg(long)]
    json: bool,
    /// Keep the last N texts of all conversations together, and forget the rest now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    keep: Option<u32>,
}

/// How much to check.
#[derive(Debug, Args)]
struct AuditOptions {
    /// Rounds of which an answer is to be checked
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// One JSON object per answer
    #[arg(long)]
    json: bool,
}

/// What to check.
#[derive(Debug, Args)]
struct VerifyOptions {
    /// The proof
    proof: PathBuf,
    /// Address of the server that it is against [default: that of the state directory]
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
}

#[derive(Debug, Subcommand)]
enum DevicesCommand {
    /// Revoke a device: what it has open ends at once
    #[command(after_help = "Example:\n  sotto devices revoke phone")]
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
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

/// The command line, for whoever writes about it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.command.speaks_json();
    keep_memory_off_the_disk();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("cannot start: {error}")).report(json),
    };
    let done = runtime.block_on(perform(cli));
    state::forget();
    // A reader of standard input may be waiting for a line that never comes.
    runtime.shutdown_background();
    done.unwrap_or_else(|failure| failure.report(json))
}

/// No core dump shows what this program knows, and no program of the same user that comes later opens its memory. A system that
/// cannot do that is used as it is.
fn keep_memory_off_the_disk() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

async fn perform(cli: Cli) -> Result<ExitCode, Failure> {
    let home = cli.home;
    match cli.command {
        Command::Init(options) => account::init(home, options).await?,
        Command::Info(options) => info::info(options).await?,
        Command::Close { name } => account::close(home, &name).await?,
        Command::Passphrase { remove } => passphrase::set(home, remove).await?,
        Command::Export { file, passphrase_file } => {
            export::export(home, &file, passphrase_file.as_deref()).await?;
        }
        Command::Restore { file, passphrase_file } => {
            export::restore(home, &file, passphrase_file.as_deref())?;
        }
        Command::Run(options) => run::run(home, options).await?,
        Command::Pair { at, qr } => devices::pair(home, at, qr).await?,
        Command::Attach { code, name } => devices::attach(home, code.is_some(), &name).await?,
        Command::Devices { json, command: None } => devices::all(home, json).await?,
        Command::Devices { command: Some(DevicesCommand::Revoke { name }), .. } => {
            devices::revoke(home, name).await?;
        }
        Command::Wipe { yes } => wipe::wipe(home, yes).await?,
        Command::Stop => run::stop(home).await?,
        Command::Status { json } => run::status_of(home, json).await?,
        Command::Invite(options) => return contacts::invite(home, options).await,
        Command::Accept(options) => return contacts::accept(home, options).await,
        Command::Verify { contact, json } => contacts::verify(home, contact, json).await?,
        Command::Invitations { json } => contacts::invitations(home, json).await?,
        Command::Withdraw { contact } => contacts::withdraw(home, contact).await?,
        Command::Contacts { json } => contacts::contacts(home, json).await?,
        Command::Forget { name } => contacts::forget(home, name).await?,
        Command::Block { name } => contacts::block(home, name, true).await?,
        Command::Unblock { name } => contacts::block(home, name, false).await?,
        Command::Rename { name, to } => contacts::rename(home, name, to).await?,
        Command::Chat(options) => return chat::chat(home, options).await,
        Command::Screen => crate::screen::run(home).await?,
        Command::Send { contact, file: Some(path), json, .. } => {
            send::send_file(home, contact, &path, json).await?;
        }
        Command::Send { contact, text, reply_to, json, .. } => {
            send::send(home, contact, text, reply_to, json).await?;
        }
        Command::Listen(options) => listen::listen(home, options).await?,
        Command::History(options) => history::history(home, options).await?,
        Command::Read { contact, json } => chat::read(home, contact, json).await?,
        Command::Audit(options) => return audit::audit(home, options).await,
        Command::VerifyProof(options) => return audit::verify(home, options).await,
        Command::Identity => contacts::identity(home).await?,
        Command::Completions { shell } => print::completions(shell, &mut Cli::command())?,
        Command::Group { command } => match command {
            GroupCommand::Create { name, members } => group::create(home, name, members).await?,
            GroupCommand::Join => group::join(home).await?,
            GroupCommand::Leave { name } => group::leave(home, name).await?,
            GroupCommand::Remove { name, member } => group::remove(home, name, member).await?,
            GroupCommand::Keep { name, member } => group::keep(home, name, member).await?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
