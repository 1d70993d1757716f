//! Why an operation was refused: in types for programs, with codes that stay, and in words for people.

use core::fmt;

use crate::Round;

/// Why an operation was refused. No variant carries secret or identifying material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room for another contact or group in the fixed cycles.
    #[error("no room: this client was set up for {capacity} conversations")]
    Capacity {
        /// Conversations the client was set up for.
        capacity: u32,
    },
    /// A name, text or other local input breaks a limit.
    #[error("{0}")]
    Input(InputError),
    /// Received bytes are not an encoding of what they should be.
    #[error("malformed {0}")]
    Malformed(Malformed),
    /// The server offers parameters that this client does not accept.
    #[error("unacceptable server: {0}")]
    Negotiation(NegotiationError),
    /// A round number that was already used.
    #[error("round {0} was already used; the server may be replaying rounds")]
    RoundReplayed(Round),
    /// A round number that the time passed cannot explain.
    #[error("round {0} is further ahead than time can explain")]
    RoundTooFar(Round),
    /// A manifest that is not the server's, or not the successor of the last one.
    #[error("untrustworthy manifest: {0}")]
    Manifest(ManifestError),
    /// A directory of nodes that is not the server's, or none.
    #[error("untrustworthy directory of nodes: {0}")]
    Directory(DirectoryError),
    /// A receipt that the server did not give for these queries and answers.
    #[error("the receipt is not the server's for these queries and answers")]
    Receipt,
    /// No contact, group or round of that name or number.
    #[error("unknown {0}")]
    Unknown(Unknown),
}

impl Error {
    /// A name of the reason for programs, of lower-case letters and hyphens, which stays when the sentence changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Capacity { .. } => "capacity",
            Self::Input(reason) => reason.code(),
            Self::Malformed(what) => what.code(),
            Self::Negotiation(reason) => reason.code(),
            Self::RoundReplayed(_) => "round-replayed",
            Self::RoundTooFar(_) => "round-too-far",
            Self::Manifest(reason) => reason.code(),
            Self::Directory(reason) => reason.code(),
            Self::Receipt => "receipt",
            Self::Unknown(what) => what.code(),
        }
    }
}

/// Enums of reasons: of each its code, and the sentence that people read; then reasons that another enum tells apart.
macro_rules! reasons {
    ($(
        $(#[$documentation:meta])*
        $name:ident {
            $($reason:ident = $code:literal: $sentence:literal,)+
            $(; $inner:ident($inner_type:ty) = $inner_code:literal)?
        }
    )+) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(
                #[doc = concat!("\"", $sentence, "\".")]
                $reason,
            )+
            $(
                /// For the reason within.
                $inner($inner_type),
            )?
        }

        impl $name {
            #[cfg(test)]
            const CODES: &[&str] = &[$($code,)+ $($inner_code)?];

            /// A name of the reason for programs, of lower-case letters and hyphens, which stays when the sentence changes.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$reason => $code,)+
                    $(Self::$inner(_) => $inner_code,)?
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$reason => f.write_str($sentence),)+
                    $(Self::$inner(reason) => reason.fmt(f),)?
                }
            }
        }
    )+};
}

reasons! {
    /// Which limit a local input breaks.
    InputError {
        NoConversations = "no-conversations": "a client has at least one conversation",
        NoText = "no-text": "there is no text",
        TextTooLong = "text-too-long": "a text may have at most 16 KiB",
        TooManyTexts = "too-many-texts": "64 texts are waiting to be delivered; wait until some have been",
        SequenceUsedUp = "sequence-used-up": "this conversation has used up its sequence numbers",
        EpochsUsedUp = "epochs-used-up": "this group has used up its epochs",
        Name = "name": "a name has 1 to 64 bytes, no control or invisible characters, and blanks only one at a time between words",
        NameTaken = "name-taken": "there is a conversation of that name already",
        MemberName = "member-name": "the name of a group, and of each member on its card, has 1 to 16 bytes, no control or invisible characters, none of :*@#[] and other signs, blanks only one at a time between words, and is not you",
        MemberCount = "member-count": "a group has 2 to 8 members",
        MemberTwice = "member-twice": "no two members of a group may have the same name or key",
        NotOnCard = "not-on-card": "this group card does not name you as a member",
        InGroup = "in-group": "you are in this group already",
        Leaving = "leaving": "you are leaving this group",
        Removed = "removed": "you were removed from this group",
        NotKeeper = "not-keeper": "only the one who made this group removes members, or, when it has left, the next on the card",
        NoContacts = "no-contacts": "for new keys of a group you need all members who remain as contacts",
        Double = "double": "this is yourself, or a contact whom you have under another name: write there",
        NoCard = "no-card": "this is not a group card; one begins with sotto-group-1-",
        CardMistyped = "card-mistyped": "this group card is incomplete or has a typing error",
        CardElsewhere = "card-elsewhere": "this group card is for another server",
        NoInvitation = "no-invitation": "this is not an invitation; one begins with sotto:// or sotto-invite-3-, and nothing stands before it",
        InvitationMistyped = "invitation-mistyped": "this invitation is incomplete or has a typing error",
        InvitationBefore = "invitation-before": "this invitation was made by an older version of sotto; ask for a new one, made by the present version",
        InvitationElsewhere = "invitation-elsewhere": "this invitation is for another server",
        InvitationUsed = "invitation-used": "you have accepted this invitation already",
        InvitationExpired = "invitation-expired": "this invitation has expired; ask for a new one",
        InvitationTooLong = "invitation-too-long": "this invitation expires later than any may, or your clock is wrong",
        TooManyAccepted = "too-many-accepted": "too many invitations were accepted within a week; wait a while",
        StateBefore = "state-before": "the state is of a version that is not read any more",
        StateNewer = "state-newer": "the state was written by a later version of this program",
        NoSlot = "no-slot": "this account has no slot yet: it is given one when it is online for the first time",
        UnknownSlot = "unknown-slot": "where members of a group are heard is known of contacts only: meet all members first",
        OtherLabels = "other-labels": "the labels are not those of the encoding",
        OtherCode = "other-code": "the encoding is one of another code",
        TooManyContents = "too-many-contents": "more contents than a mapping can have",
        BucketTooLarge = "bucket-too-large": "a bucket is too large",
        FilterTooLarge = "filter-too-large": "a filter exceeds the memory",
    }

    /// What was to be read.
    Malformed {
        Message = "malformed-message": "message",
        Rekey = "malformed-rekey": "rekey",
        Farewell = "malformed-farewell": "farewell",
        Box = "malformed-box": "box",
        Deposit = "malformed-deposit": "deposit",
        Mapping = "malformed-mapping": "mapping",
        Manifest = "malformed-manifest": "manifest",
        FormerManifest = "malformed-former-manifest": "manifest of an earlier version",
        EngineName = "malformed-engine-name": "name of an engine",
        SegmentEnd = "malformed-segment-end": "end of a segment of seeds",
        SegmentEnds = "malformed-segment-ends": "ends of segments of seeds",
        SeedSecret = "malformed-seed-secret": "secret of the seeds",
        State = "malformed-state": "client state",
        Directory = "malformed-directory": "directory of nodes",
        Announcement = "malformed-announcement": "announcement",
    }

    /// Why a client does not work with a server.
    NegotiationError {
        Security = "server-security": "its PIR engine offers less than 128 bits of security",
        ShortRounds = "server-short-rounds": "its rounds are too short to hide how long work takes",
        ShortSlots = "server-short-slots": "its time slots are too short to hide how long work takes",
        ShortQuery = "server-short-query": "it leaves too little time to build the queries of so many buckets",
        Version = "server-version": "it speaks another version of the protocol; update the older side",
        NoSerial = "server-no-serial": "its announcement has no number",
        Epochs = "server-epochs": "its seeds begin in the middle of an epoch in which queries stand",
        NoSeeds = "server-no-seeds": "it has no seeds for its rounds",
        Retained = "server-retained": "retained rounds must be 1 to 4",
        Timing = "server-timing": "its round timing is contradictory",
        Spread = "server-spread": "it spreads retrievals over more time than a round is kept",
        TwoOfOneNumber = "server-two-of-one-number": "it announces other parameters under the same number",
        Downgrade = "server-downgrade": "it goes back to parameters that it has given up (a downgrade)",
        NotLater = "server-not-later": "its announcement is not a later one",
        Unsigned = "server-unsigned": "its root key has not signed what it says of itself",
        KeyEpoch = "server-key-epoch": "what it says of the time of its manifest key is contradictory",
        KeySuccession = "server-key-succession": "its manifest key does not follow on the one that is known",
        OtherServer = "server-other-root": "this account belongs to a server with another root key",
        Addressing = "server-addressing": "it finds messages in another way now, by slots or by labels, and conversations cannot move between the two; make a new account there and meet anew",
        ; Shape(ShapeError) = "server-shape"
    }

    /// Why a manifest is not believed.
    ManifestError {
        Fork = "manifest-fork": "the server has told another history before",
        Unsigned = "manifest-unsigned": "the signature is not the server's",
        Key = "manifest-key": "the server's key is not a key",
        OtherSeed = "manifest-other-seed": "its seed is not the one that was fixed beforehand",
        NoSeed = "manifest-no-seed": "of a round without a seed",
        KeyEnded = "manifest-key-ended": "of a round that no key of the server signs",
        SeedNotShown = "manifest-seed-not-shown": "nothing shows that its seed was fixed",
        OtherParameters = "manifest-other-parameters": "its parameters are not those of this server",
        NotOpened = "manifest-not-opened": "of a round that was not opened",
        Version = "manifest-version": "another version of the protocol",
        Mapping = "manifest-mapping": "an unknown kind of mapping",
        Engine = "manifest-engine": "no name of an engine",
        CodeKind = "manifest-code-kind": "an unknown batch code",
        NoCode = "manifest-no-code": "no such batch code",
        Entries = "manifest-entries": "more deposits than a round can have",
        Table = "manifest-table": "no number of places that a table has",
        Digests = "manifest-digests": "a digest of what a round with slots does not have",
        BucketSize = "manifest-bucket-size": "size of the buckets",
        ; Shape(ShapeError) = "manifest-shape"
    }

    /// Why a directory of nodes is refused.
    DirectoryError {
        Unsigned = "directory-unsigned": "the signature is not the server's",
        Other = "directory-other": "the server has told another one under the same number",
        TooMany = "directory-too-many": "a directory has at most 64 nodes",
        Authority = "directory-authority": "no address of a node",
    }

    /// Why there is no such batch code.
    ShapeError {
        Retrieve = "shape-retrieve": "messages per round must be 1 to 256",
        Buckets = "shape-buckets": "the number of buckets must be at least that of messages per round and at most 1024",
        Choices = "shape-choices": "candidate buckets must be 1 to 8",
        Single = "shape-single": "without a batch code there is one query for each message",
        OneMessage = "shape-one-message": "one message per round needs no batch code",
        Groups = "shape-groups": "with slots the number of buckets must be a multiple of that of candidates",
        Hybrid = "shape-hybrid": "the hybrid code has two or more cubes of nine buckets, and two copies",
    }

    /// What is not there.
    Unknown {
        Conversation = "unknown-conversation": "conversation",
        Contact = "unknown-contact": "contact",
        Group = "unknown-group": "group",
        Member = "unknown-member": "member",
        Invitation = "unknown-invitation": "invitation",
        Deposit = "unknown-deposit": "deposit",
        Manifests = "unknown-manifests": "manifests of the rounds missed",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        DirectoryError, Error, InputError, Malformed, ManifestError, NegotiationError, ShapeError, Unknown,
    };
    use crate::Round;

    #[test]
    fn no_program_takes_one_reason_for_another() {
        let alone = [
            Error::Capacity { capacity: 1 },
            Error::RoundReplayed(Round(1)),
            Error::RoundTooFar(Round(1)),
            Error::Receipt,
        ];
        let mut codes: Vec<_> = alone.iter().map(Error::code).collect();
        codes.extend(InputError::CODES);
        codes.extend(Malformed::CODES);
        codes.extend(NegotiationError::CODES);
        codes.extend(ManifestError::CODES);
        codes.extend(DirectoryError::CODES);
        codes.extend(ShapeError::CODES);
        codes.extend(Unknown::CODES);
        assert!(codes.iter().all(|code| code.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase())));
        assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), codes.len(), "{codes:?}");
    }
}
