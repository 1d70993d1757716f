//! One person's side of everything: contacts, groups, and what to send and fetch in every round.
//!
//! A client is the whole persistent state; it opens no socket and reads no clock. In every round:
//!
//! 1. [`Client::open_round`] when the server opens it; then the caller stores [`Client::snapshot`], and only then sends
//!    the bytes of [`Client::deposit`], which stay the same for every repeat;
//! 2. [`Client::ready`] when its manifest comes;
//! 3. [`Client::lookup`] on the mapping, or [`Retrieval::dummy`] if that is missing or takes too long;
//! 4. [`Client::received`] on the answers; then the caller stores a snapshot again.
//!
//! Nothing that comes from outside makes a step fail in a way that shows: what is wrong becomes a [`Notice`], and the
//! round goes on with random queries.

mod addresses;
mod adoption;
mod anchor;
mod anew;
#[cfg(test)]
mod attack;
#[cfg(test)]
mod block_view;
#[cfg(test)]
mod card_view;
#[cfg(test)]
mod contact_view;
mod contacts;
mod crowding;
#[cfg(test)]
mod disk_view;
mod groups;
mod identity;
mod invitations;
mod left;
mod notice;
mod retrieval;
mod rounds;
mod state;
mod unshown;
mod waiting;
#[cfg(test)]
#[path = "../tests/it/client/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::conversation::{Conversation, ConversationId};
use crate::cycle::Cycle;
use crate::seal::OpeningKey;
use crate::secret::Secret;
use crate::{Deposit, Error, ManifestChain, Round, ServerParameters, UnixMillis, domain};

use addresses::Addresses;
pub use addresses::OwnSlot;
pub use anew::Anew;
pub use contacts::check_name;
use crowding::Crowding;
use identity::Identity;
pub use invitations::{Holder, OpenInvitation};
use left::LeftGroups;
pub use notice::{Notice, Warning};
pub use retrieval::{Lookups, Plan, Retrieval};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use state::checked;
use unshown::Offered;
pub use unshown::Unshown;
pub use waiting::{Outgoing, Waiting};

/// What a person decides when the client is made; it cannot be changed, since it shows in when the client may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Conversations there is room for, at least 1. One in so many rounds belongs to each, whether it exists or not.
    pub conversations: u8,
}

/// Number of a message that this client sent: the last of its fragments stands for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// Where it was said.
    pub conversation: ConversationId,
    /// Its sequence number there.
    pub sequence: u32,
}

/// The persistent state of one person at one server.
///
/// An old copy of it must not be brought back after it was used, unless by [`Client::begin_anew`]: what it then says goes out under sequence
/// numbers that its contacts have seen, and they pass over it.
pub struct Client {
    state: State,
}

#[derive(Serialize, Deserialize)]
struct State {
    name: String,
    server: ServerParameters,
    account: Secret,
    identity: Identity,
    /// Randomness for secrets that are needed while no generator is at hand; renewed every round.
    store: Secret,
    cycle: Cycle,
    clock: Clock,
    #[serde(with = "state::deposit")]
    deposit: Option<(Round, Deposit)>,
    chain: ManifestChain,
    /// Encoded manifests of the rounds that can be retrieved.
    ready: BTreeMap<Round, Vec<u8>>,
    /// Boxes to look for, in the rounds that can be retrieved or will be.
    wants: BTreeMap<Round, Vec<Want>>,
    conversations: Vec<Conversation>,
    next_id: u32,
    crowding: Crowding,
    unshown: Vec<Unshown>,
    next_text: u64,
    /// Accepted invitations, until they expire.
    used: Vec<invitations::Used>,
    untold: Vec<invitations::Untold>,
    addresses: Addresses,
    /// The root key of the server; states of before do not have it.
    root: Option<[u8; 32]>,
    left: LeftGroups,
    /// Numbers of texts of [`State::unshown`] that a program was about to show.
    offered: Offered,
}

/// A box to look for, with the key that opens it.
#[derive(Serialize, Deserialize)]
struct Want {
    conversation: ConversationId,
    epoch: u32,
    member: u8,
    key: OpeningKey,
}

impl Client {
    /// A person who has not used this server before; `joined` is the round open now.
    ///
    /// The parameters are taken as they are: [`ServerParameters::check`] comes before.
    ///
    /// # Errors
    /// [`Error::Input`] for a name that is none or no room for any conversation.
    pub fn new(
        name: &str,
        server: ServerParameters,
        settings: Settings,
        joined: (Round, UnixMillis),
        rng: &mut impl CryptoRng,
    ) -> Result<Self, Error> {
        check_name(name)?;
        let state = State {
            name: name.to_owned(),
            account: Secret::random(rng),
            identity: Secret::random(rng).into(),
            store: Secret::random(rng),
            cycle: Cycle::new(Secret::random(rng), settings.conversations, server.retrieve)?,
            clock: Clock::new(&server, joined),
            deposit: None,
            chain: ManifestChain::default(),
            ready: BTreeMap::new(),
            wants: BTreeMap::new(),
            conversations: Vec::new(),
            next_id: 1,
            crowding: Crowding::default(),
            unshown: Vec::new(),
            next_text: 1,
            used: Vec::new(),
            untold: Vec::new(),
            addresses: Addresses::default(),
            root: None,
            left: LeftGroups::default(),
            offered: Offered::new(),
            server,
        };
        Ok(Self { state })
    }

    /// The person's own name, as groups see it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The server's parameters, as they were when the client was made or last [took them over](Client::adopt).
    #[must_use]
    pub fn server(&self) -> &ServerParameters {
        &self.state.server
    }

    /// What was decided when the client was made.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { conversations: self.state.cycle.places() }
    }

    /// Seed of the Ed25519 key of the account at the server. It has nothing to do with [`Client::identity`].
    #[must_use]
    pub fn account_seed(&self) -> &[u8; 32] {
        self.state.account.bytes()
    }

    /// The Ed25519 public key by which contacts and groups know this person; the server never sees it.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        self.state.identity.public()
    }

    /// The newest round known: the last one opened, or else the one in which the client joined.
    #[must_use]
    pub fn newest_round(&self) -> Round {
        self.state.clock.newest().0
    }
}

impl State {
    /// A secret that was never used.
    fn fresh(&mut self) -> Secret {
        let fresh = self.store.expand(domain::FRESH, &[&[1]]);
        self.store = self.store.expand(domain::FRESH, &[&[0]]);
        fresh
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Client(..)")
    }
}
