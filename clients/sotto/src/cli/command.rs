//! The commands, as clap reads and explains them.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::options::{
    AcceptOptions, AuditOptions, ChatOptions, DevicesCommand, GroupCommand, HistoryOptions, InfoOptions,
    InitOptions, InviteOptions, ListenOptions, RunOptions, VerifyOptions,
};

/// Metadata-private chat: the server does not learn who talks with whom, how often, or when.
///
/// Start with 'sotto init', then 'sotto run', which takes you online and keeps you there; then 'sotto invite' on one side
/// and 'sotto accept' on the other, then 'sotto chat'. Whatever needs you online takes you there itself, and nothing but
/// 'sotto stop' takes you offline: when you are online should tell nothing about with whom you talk.
#[derive(Debug, Parser)]
#[command(name = "sotto", version, after_help = EXIT_CODES)]
pub(super) struct Cli {
    /// State directory [default: $SOTTO_HOME, $XDG_DATA_HOME/sotto, or ~/.local/share/sotto]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(super) home: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

pub(super) const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 server not reached, 4 state missing, in use \
                          or damaged, 5 server not to be used (other key, version, engine or parameters)";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
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
    /// this moment, and open invitations are void. If the server has made its rounds shorter since, that is later. What was said since the copy was made is lost to it. The account must not be
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
    /// then goes out in the conversation's turns. Several chats can run at the same time. In a terminal, what you have begun
    /// to type makes room when something arrives, and is not gone: Ctrl-R shows it again.
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
    pub(super) fn speaks_json(&self) -> bool {
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
