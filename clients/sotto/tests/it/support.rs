//! Servers and people for tests.

use core::time::Duration;
use std::net::SocketAddr;

use sotto::Store;
use sotto_participant::host::now;
use sotto_participant::{Event, Events, Handle, Participant, RoundReport, Trouble};
use sotto_protocol::client::{Client, Notice, Settings};
use sotto_protocol::{ConversationId, RoundMode};
use sotto_session::{Connection, ConnectionSettings};
use sotto_wire::{Failure, Transport};
use sottod::{Config, Running};
use tokio::time::timeout;

use crate::programs::LONGEST;

/// Short rounds with an engine without privacy.
pub(crate) fn config(listen: SocketAddr) -> Config {
    Config {
        round_ms: 300,
        retrieve: 4,
        buckets: Some(16),
        retained: 4,
        deposit_ms: 40,
        lookup_ms: 120,
        query_ms: 260,
        allow_no_privacy: true,
        transport: Transport::Plaintext,
        ..Config::deadline(listen)
    }
}

/// The same, with rounds that wait for everybody.
pub(crate) fn closed(listen: SocketAddr) -> Config {
    let mode = RoundMode::ClosedLoop;
    Config { mode, round_ms: 50, lookup_ms: 60, query_ms: 120, ..config(listen) }
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn settings(server: &Running) -> ConnectionSettings {
    ConnectionSettings {
        allow_no_privacy: true,
        retry_first: Duration::from_millis(50),
        retry_most: Duration::from_millis(400),
        ..ConnectionSettings::new(server.address().clone())
    }
}

/// A new person at the server.
pub(crate) async fn client(settings: &ConnectionSettings, name: &str, conversations: u8) -> Client {
    let asked = now();
    let info = Connection::open(settings).await.unwrap().info().await.unwrap();
    let joined = (info.open, asked);
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    Client::new(name, info.parameters, Settings { conversations }, joined, &mut rng).unwrap()
}

/// Two people who are each other's contacts.
pub(crate) async fn pair(settings: &ConnectionSettings) -> (Client, Client) {
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let mut alice = client(settings, "alice", 1).await;
    let mut bob = client(settings, "bob", 1).await;
    let invitation = alice.invite("bob", now(), &mut rng).unwrap();
    bob.accept("alice", &invitation, now(), &mut rng).unwrap();
    (alice, bob)
}

/// A running participant with one contact.
pub(crate) struct Person {
    pub(crate) handle: Handle,
    pub(crate) events: Events,
    pub(crate) contact: ConversationId,
}

impl Person {
    pub(crate) async fn start(client: Client, store: Option<Store>, settings: &ConnectionSettings) -> Self {
        let contact = client.conversations()[0].id;
        let (handle, events) =
            Participant::start(client, store.map(|store| Box::new(store) as _), settings.clone())
                .await
                .unwrap();
        Self { handle, events, contact }
    }

    /// The same of one that has met somebody while it took part.
    pub(crate) async fn of((handle, events): (Handle, Events)) -> Self {
        let contact = handle.conversations().await.unwrap()[0].id;
        Self { handle, events, contact }
    }

    pub(crate) async fn say(&self, text: &str) {
        self.handle.queue_text(self.contact, text).await.unwrap();
    }

    /// The first event that passes, and all before it.
    pub(crate) async fn until(&mut self, what: &str, passes: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        let wait = async {
            loop {
                let event = self.events.recv().await.expect("the participant runs");
                let last = passes(&event);
                seen.push(event);
                if last {
                    return;
                }
            }
        };
        let waited = timeout(LONGEST, wait).await;
        let others = seen.iter().filter(|event| !is_report(event));
        assert!(waited.is_ok(), "{what} did not come; instead {:?}", others.collect::<Vec<_>>());
        seen
    }

    /// The next round. If something is missing in it, this machine was too slow, and nothing else went wrong.
    pub(crate) async fn whole_or_late(&mut self) -> RoundReport {
        let seen = self.until("round", is_report).await;
        let Some(Event::RoundReport(report)) = seen.last() else { panic!("{seen:?}") };
        let troubles: Vec<&Event> =
            seen.iter().filter(|event| matches!(event, Event::Trouble { .. })).collect();
        assert!(troubles.iter().all(|trouble| is_late(trouble)), "{seen:?}");
        assert!((report.complete && !report.dummy) || !troubles.is_empty(), "{seen:?}");
        *report
    }

    /// The next round of which nothing is missing, which comes soon.
    pub(crate) async fn round(&mut self) -> RoundReport {
        let whole = async {
            loop {
                let report = self.whole_or_late().await;
                if report.complete && !report.dummy {
                    return report;
                }
            }
        };
        timeout(LONGEST, whole).await.expect("no round is whole")
    }

    pub(crate) async fn hears(&mut self, expected: &str) -> Vec<Event> {
        let heard =
            |event: &Event| matches!(event, Event::Notice(Notice::Text { text, .. }) if text == expected);
        self.until(expected, heard).await
    }

    /// Waits until the contact has everything.
    pub(crate) async fn is_heard(&mut self) {
        while self.handle.conversations().await.unwrap()[0].queued > 0 {
            self.until("round", is_report).await;
        }
    }
}

pub(crate) fn is_report(event: &Event) -> bool {
    matches!(event, Event::RoundReport(_))
}

/// Also where a round waits for everybody, what is done in it has its time, and many tests at once make a machine slow. That nobody
/// is told of trouble where nobody is late, and what becomes of who is, `simulations/worlds/tests/exact` shows in simulated time, in
/// rounds with deadlines.
///
/// A round goes by that is not retrieved, too, where the answers of eight wait to be read: that is done by threads which all of
/// this process share, and another test's work may take them for seconds.
pub(crate) fn is_late(event: &Event) -> bool {
    let Event::Trouble { trouble, .. } = event else { return false };
    let unmapped = Trouble::Mapping(Failure::Unreachable);
    let late = [Trouble::DepositLate, Trouble::LookupLate, Trouble::QueryLate, Trouble::TooMany, unmapped];
    late.contains(trouble)
}
