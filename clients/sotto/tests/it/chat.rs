//! Whole conversations through a real server, over sockets, with an engine without privacy.

use std::sync::Arc;

use crate::support::{Person, client, closed, config, is_late, is_report, loopback, pair, settings};
use sotto::{Address, Store};
use sotto_participant::host::{Dial, Dialled, Pending, System, Work, now};
use sotto_participant::{Event, Participant};
use sotto_protocol::client::{Client, Notice};
use sotto_protocol::{CodeKind, RoundMode, ServerParameters, UnixMillis};
use sotto_session::{ConnectError, Connection, ConnectionSettings};
use sotto_wire::{Host, RootKey, Transport};
use sottod::Config;

#[tokio::test(flavor = "multi_thread")]
async fn texts_travel_both_ways_and_one_who_leaves_disturbs_nobody() {
    let server = sottod::start(mpir::noop(), closed(loopback())).unwrap();
    let settings = settings(&server);
    let (alice, bob) = pair(&settings).await;
    let mut alice = Person::start(alice, None, &settings).await;
    let mut bob = Person::start(bob, None, &settings).await;

    let long = "word ".repeat(150);
    alice.say("Are you there?").await;
    bob.say("I am here.").await;
    alice.say(&long).await;
    bob.hears("Are you there?").await;
    alice.hears("I am here.").await;
    bob.hears(&long).await;
    bob.is_heard().await;
    alice.is_heard().await;

    let gone = bob.handle.finish().await.unwrap();
    assert_eq!(gone.conversations()[0].queued, 0);
    while alice.events.try_recv().is_ok() {}
    for _ in 0..4 {
        alice.round().await;
    }

    // Who comes back finds what was said meanwhile.
    alice.say("Still there?").await;
    let mut bob = Person::start(gone, None, &settings).await;
    let seen = bob.hears("Still there?").await;
    let alarm = |event: &&Event| matches!(event, Event::Notice(Notice::Warning(_)) | Event::Trouble { .. });
    assert!(seen.iter().filter(alarm).all(is_late), "coming back is no reason for alarm: {seen:?}");
    alice.handle.stop().await.unwrap();
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

/// An operator restarts a server with other numbers: accounts, contacts and what waits go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_parameters_ends_the_session_and_is_taken_over_by_the_next() {
    let data = tempfile::tempdir().unwrap();
    let start = |listen, change: fn(&mut Config)| {
        let data = Some(data.path().to_owned());
        let mut config = Config { data, seed_segments: Some(2), ..config(listen) };
        change(&mut config);
        sottod::start(mpir::noop(), config).unwrap()
    };
    let server = start(loopback(), |_| {});
    let settings = settings(&server);
    let (alice, bob) = pair(&settings).await;
    let mut alice = Person::start(alice, None, &settings).await;
    let mut bob = Person::start(bob, None, &settings).await;
    alice.say("before").await;
    bob.hears("before").await;
    let (listen, before) = (server.local_addr(), server.parameters().clone());
    server.shutdown().await.unwrap();

    let server =
        start(listen, |config| (config.retrieve, config.buckets, config.round_ms) = (2, Some(8), 400));
    assert_eq!(server.parameters().serial, before.serial + 1);
    for person in [&mut alice, &mut bob] {
        let changed = |event: &Event| matches!(event, Event::ConnectionLost(ConnectError::Changed));
        person.until("the change", changed).await;
        let client = person.handle.stop().await.unwrap();
        assert_eq!(*client.server(), before);
        *person = Person::start(client, None, &settings).await;
    }
    bob.say("after").await;
    alice.hears("after").await;
    assert_eq!(alice.handle.stop().await.unwrap().server(), server.parameters());
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

/// What a client does follows from the signed manifest, whichever code that names.
#[tokio::test(flavor = "multi_thread")]
async fn texts_travel_with_every_batch_code() {
    for (code, buckets) in [(CodeKind::Hybrid, Some(18)), (CodeKind::Single, None)] {
        let server = sottod::start(mpir::noop(), Config { code, buckets, ..closed(loopback()) }).unwrap();
        let settings = settings(&server);
        let (alice, bob) = pair(&settings).await;
        let mut alice = Person::start(alice, None, &settings).await;
        let mut bob = Person::start(bob, None, &settings).await;
        alice.say("Which code is this?").await;
        bob.hears("Which code is this?").await;
        bob.say("It makes no difference.").await;
        alice.hears("It makes no difference.").await;
        alice.round().await;
        alice.handle.stop().await.unwrap();
        bob.handle.stop().await.unwrap();
        server.shutdown().await.unwrap();
    }
}

/// Where boxes are found by slots, nothing is downloaded to find them; and the server knows its accounts again after a restart
/// though it stores nothing of who has which slot.
#[tokio::test(flavor = "multi_thread")]
async fn texts_travel_by_slots_and_over_a_restart_of_the_server() {
    travel_by_slots(mpir::noop(), CodeKind::Partitioned).await;
}

/// The same where queries stand, with an engine whose requests are made under public randomness: one that restarts has forgotten
/// what stood, and gets it again.
#[tokio::test(flavor = "multi_thread")]
async fn texts_travel_by_queries_that_stand_and_over_a_restart_of_the_server() {
    travel_by_slots(mpir::voce_hint(), CodeKind::Standing).await;
}

async fn travel_by_slots(engine: Arc<dyn mpir::Engine>, code: CodeKind) {
    let data = tempfile::tempdir().unwrap();
    let start = |listen| {
        let data = Some(data.path().to_owned());
        let config = Config { data, seed_segments: Some(2), buckets: Some(12), ..closed(listen) };
        sottod::start(Arc::clone(&engine), Config { code, ..config }).unwrap()
    };
    let server = start(loopback());
    let (listen, settings) = (server.local_addr(), settings(&server));
    let mut people = Vec::new();
    for name in ["alice", "bob"] {
        let client = client(&settings, name, 1).await;
        assert!(client.slot().is_none());
        people.push(Participant::start(client, None, settings.clone()).await.unwrap());
    }
    let (bob, alice) = (people.pop().unwrap(), people.pop().unwrap());
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let invited = alice.0.change(move |client| client.invite("bob", now(), &mut rng)).await.unwrap().unwrap();
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    let accept = move |client: &mut Client| client.accept("alice", &invited, now(), &mut rng);
    let met = bob.0.change(accept).await.unwrap().unwrap();
    let (mut alice, mut bob) = (Person::of(alice).await, Person::of(bob).await);
    assert_eq!(bob.contact, met);
    alice.say("Where are you?").await;
    bob.say("In my slot.").await;
    bob.hears("Where are you?").await;
    alice.hears("In my slot.").await;
    assert_eq!(alice.round().await.mapping.bytes, 0);
    let mut named = 0;
    for _ in 0..2 * code.epoch_rounds() {
        let report = alice.whole_or_late().await;
        named += u64::from(report.query.bytes == 32);
    }
    // Keys are replaced once in 64 rounds, and then one more is sent whole.
    let most = 2 * (code.epoch_rounds() - 1);
    assert!((most.saturating_sub(1)..=most).contains(&named), "{named} of {most}");
    let kept = bob.handle.stop().await.unwrap();
    let slot = kept.slot().cloned();
    assert!(slot.is_some());
    server.shutdown().await.unwrap();

    let server = start(listen);
    let mut bob = Person::start(kept, None, &settings).await;
    alice.say("Still there?").await;
    bob.hears("Still there?").await;
    assert_eq!(bob.handle.stop().await.unwrap().slot().cloned(), slot);
    alice.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_in_closed_loop_go_on_when_everybody_is_done() {
    let server = sottod::start(mpir::noop(), closed(loopback())).unwrap();
    let settings = settings(&server);
    let (alice, bob) = pair(&settings).await;
    let mut alice = Person::start(alice, None, &settings).await;
    let mut bob = Person::start(bob, None, &settings).await;
    alice.say("one").await;
    bob.hears("one").await;
    bob.handle.stop().await.unwrap();
    alice.until("round", is_report).await;
    alice.until("round", is_report).await;
    alice.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_and_comes_back_loses_no_text() {
    let data = tempfile::tempdir().unwrap();
    let kept = Some(data.path().join("data"));
    let with = |listen| Config { data: kept.clone(), seed_segments: Some(2), ..config(listen) };
    let server = sottod::start(mpir::noop(), with(loopback())).unwrap();
    let (listen, settings) = (server.local_addr(), settings(&server));
    let homes = tempfile::tempdir().unwrap();
    let (alice, bob) = pair(&settings).await;
    let store = |name| Some(Store::create(&homes.path().join(name), settings.address.clone()).unwrap());
    let mut alice = Person::start(alice, store("alice"), &settings).await;
    let mut bob = Person::start(bob, store("bob"), &settings).await;
    alice.say("before").await;
    bob.hears("before").await;

    // In the middle of rounds, with texts under way.
    alice.say("during").await;
    let newest = alice.handle.ask(Client::newest_round).await.unwrap();
    server.shutdown().await.unwrap();
    alice.until("loss", |event| matches!(event, Event::ConnectionLost(_))).await;
    alice.say("while it was gone").await;
    let server = sottod::start(mpir::noop(), with(listen)).unwrap();
    alice.until("return", |event| matches!(event, Event::ConnectionRestored)).await;
    bob.hears("during").await;
    bob.hears("while it was gone").await;

    let said = alice.handle.finish().await.unwrap();
    assert!(said.newest_round() > newest);
    // What was stored is what was used.
    let (_, snapshot) = Store::open(&homes.path().join("alice")).unwrap();
    assert_eq!(Client::restore(&snapshot).unwrap().newest_round(), said.newest_round());
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_in_the_middle_of_a_round_uses_no_key_twice() {
    let server = sottod::start(mpir::noop(), Config { round_ms: 2000, ..config(loopback()) }).unwrap();
    let settings = settings(&server);
    let (alice, _) = pair(&settings).await;
    let mut first = Person::start(alice, None, &settings).await;
    first.until("round", is_report).await;
    let stopped = first.handle.stop().await.unwrap();
    let (round, deposit) = stopped.deposit().map(|(round, deposit)| (round, deposit.clone())).unwrap();
    // At once again, most likely in the same round.
    let mut second = Person::start(stopped, None, &settings).await;
    let same = move |client: &Client| match client.deposit() {
        Some((now, other)) => now > round || *other == deposit,
        None => false,
    };
    assert!(second.handle.ask(same).await.unwrap());
    let seen = second.until("round", |event| match event {
        Event::RoundReport(report) => report.round >= round && report.complete,
        _ => false,
    });
    seen.await;
    second.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_the_pinned_one_is_refused_before_anything_is_sent() {
    let server = sottod::start(mpir::noop(), config(loopback())).unwrap();
    let right = settings(&server);
    let open =
        async |settings: &ConnectionSettings| Connection::open(settings).await?.info().await.map(|_| ());
    assert_eq!(open(&right).await, Ok(()));

    let mut other_key = right.clone();
    let at = server.local_addr();
    let other = |transport| Address::new(transport, Host::Ip(at.ip()), at.port(), RootKey([1; 32])).unwrap();
    other_key.address = other(Transport::Plaintext);
    assert_eq!(open(&other_key).await, Err(ConnectError::WrongKey));
    // Without encryption nobody understands the other.
    other_key.address = other(Transport::Tls);
    assert!(matches!(open(&other_key).await, Err(ConnectError::Unreachable(_))));
    let mut strict = right.clone();
    strict.allow_no_privacy = false;
    assert_eq!(open(&strict).await, Err(ConnectError::Security { bits: 0 }));
    let mut other = right.clone();
    other.engines = mpir::Engines::only(mpir::sealpir());
    let engine = open(&other).await;
    assert!(matches!(engine, Err(ConnectError::Engine { .. })), "{engine:?}");

    // The same key with other parameters: later ones, and others under the same number.
    let person = client(&right, "alice", 1).await;
    let register = async |pinned: &ServerParameters| {
        let connection = Connection::open(&right).await.unwrap();
        connection.register(person.account_seed(), pinned, None, None).await.map(|_| ())
    };
    let mut changed = person.server().clone();
    changed.buckets += 1;
    assert!(matches!(register(&changed).await, Err(ConnectError::Downgrade(_))));
    changed.serial -= 1;
    assert_eq!(register(&changed).await, Err(ConnectError::Changed));

    server.shutdown().await.unwrap();
    let gone = open(&right).await.unwrap_err();
    assert!(matches!(gone, ConnectError::Unreachable(_)), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_texts_arrive_and_an_impostor_is_told_from_a_server_that_is_gone() {
    let with = |listen| Config { transport: Transport::Tls, ..config(listen) };
    let server = sottod::start(mpir::noop(), with(loopback())).unwrap();
    let settings = settings(&server);
    let (alice, bob) = pair(&settings).await;
    let alice = Person::start(alice, None, &settings).await;
    let mut bob = Person::start(bob, None, &settings).await;
    alice.say("over TLS").await;
    bob.hears("over TLS").await;

    let at = server.local_addr();
    let address = |transport, root| Address::new(transport, Host::Ip(at.ip()), at.port(), root).unwrap();
    let open = async |address| Connection::open(&ConnectionSettings { address, ..settings.clone() }).await;
    let impostor = open(address(Transport::Tls, RootKey([1; 32]))).await;
    assert_eq!(impostor.map(|_| ()), Err(ConnectError::WrongKey));
    let another = sottod::start(mpir::noop(), with(loopback())).unwrap();
    let impostor = open(address(Transport::Tls, *another.address().root_key())).await;
    assert_eq!(impostor.map(|_| ()), Err(ConnectError::WrongKey));
    another.shutdown().await.unwrap();

    alice.handle.stop().await.unwrap();
    bob.handle.stop().await.unwrap();
    server.shutdown().await.unwrap();
    let gone = open(settings.address.clone()).await;
    assert!(matches!(gone, Err(ConnectError::Unreachable(_))));
}

/// This machine, but whoever answers answers from far away.
struct FarAway;

impl sotto_participant::host::Host for FarAway {
    fn unix_now(&self) -> UnixMillis {
        System.unix_now()
    }

    fn fill(&self, bytes: &mut [u8]) {
        System.fill(bytes);
    }

    fn work(&self, kind: Work, work: Box<dyn FnOnce() + Send>) -> Pending<()> {
        System.work(kind, work)
    }
}

impl Dial for FarAway {
    fn dial(&self, authority: &str) -> Pending<std::io::Result<Dialled>> {
        let dialling = System.dial(authority);
        let peer = std::net::IpAddr::from([192, 0, 2, 1]);
        Box::pin(async move { Ok(Dialled { peer, ..dialling.await? }) })
    }
}

/// Without encryption it does not count what a name stands for: with whoever answers from elsewhere nothing is spoken.
#[tokio::test(flavor = "multi_thread")]
async fn without_tls_nobody_is_spoken_to_but_this_machine() {
    let server =
        sottod::start(mpir::noop(), Config { transport: Transport::Plaintext, ..config(loopback()) })
            .unwrap();
    let settings = settings(&server);
    assert!(Connection::open(&settings).await.is_ok());
    let there = Connection::open_on(Arc::new(FarAway), &settings).await;
    assert!(matches!(there, Err(ConnectError::Unreachable(_))), "spoken to from far away");
    server.shutdown().await.unwrap();
}

/// In closed loop, how long a round lasts tells how long the slowest took. What the address says does not count: a name
/// such as `localhost` can stand for anybody.
#[tokio::test(flavor = "multi_thread")]
async fn attack_a3_closed_loop_is_refused_from_whoever_answers_from_another_machine() {
    let with = |mode| Config { mode, transport: Transport::Tls, ..config(loopback()) };
    for mode in [RoundMode::ClosedLoop, RoundMode::Deadline] {
        let server = sottod::start(mpir::noop(), with(mode)).unwrap();
        let settings = settings(&server);
        let here = Connection::open(&settings).await.unwrap().info().await;
        assert_eq!(here.map(|_| ()), Ok(()));
        let there = Connection::open_on(Arc::new(FarAway), &settings).await.unwrap();
        let refused = there.info().await.map(|_| ());
        if mode == RoundMode::Deadline {
            assert_eq!(refused, Ok(()));
            continue;
        }
        assert_eq!(refused, Err(ConnectError::ClosedLoop));
        let alice = client(&settings, "alice", 1).await;
        let joined = there.register(alice.account_seed(), alice.server(), None, None).await;
        assert_eq!(joined.map(|_| ()), refused);
        let taking_part = Participant::start_on(Arc::new(FarAway), alice, None, settings).await;
        assert_eq!(taking_part.map(|_| ()), refused);
        server.shutdown().await.unwrap();
    }
}
