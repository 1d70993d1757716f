//! What leaves in a slot: stored before, random if it is late.

use mpir::noop;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sotto_participant::host::Work;
use sotto_protocol::{Client, Round, RoundMode, UnixMillis, slot};

use crate::lies::Call;
use crate::machine::BASE_MS;
use crate::world::{DEPOSIT_MS, FIRST, LOOKUP_MS, QUERY_MS, ROUND_MS, World, parameters, quick};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// A deposit with something in it leaves only when the state that has used up its key is on the disk. When that fails,
/// something random leaves.
#[test]
fn what_leaves_was_stored_before_or_is_random() {
    block_on(async {
        let mut world = World::new(3, parameters(&*noop(), RoundMode::Deadline), 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 1));
        let [at_alice, _] = world.introduce(&mut alice, &mut bob);
        alice.queue_text(at_alice, &"from Alice ".repeat(1400)).unwrap();
        let mut bob = world.start(bob, quick).await;
        let mut alice = world.start(alice, quick).await;
        world.until(u64::from(ROUND_MS) * 60 - 20).await;
        alice.disk.fill(true);
        world.until(u64::from(ROUND_MS) * 66 - 20).await;
        alice.disk.fill(false);
        world.until(u64::from(ROUND_MS) * 100).await;

        let full = FIRST.0 + 60..FIRST.0 + 66;
        let snapshots = alice.disk.snapshots();
        for seen in world.server.seen(&alice.account).iter().filter(|seen| seen.call == Call::Deposit) {
            let stored = snapshots.iter().any(|(at, state)| {
                *at < seen.at && state.windows(seen.bytes.len()).any(|window| window == seen.bytes)
            });
            assert_eq!(stored, !full.contains(&seen.round), "round {}", seen.round);
        }
        let found = bob.told().found;
        assert!(
            found.iter().any(|round| *round < full.start) && found.iter().any(|round| *round >= full.end)
        );
        assert!(!found.iter().any(|round| full.contains(round)), "{found:?}");
        let troubles = alice.told().troubles;
        assert!(troubles.len() >= full.count() && troubles.iter().all(|trouble| trouble.contains("disk")));
    });
}

/// Who was told that nothing could be stored is not found to have said it later, or to have made a contact.
#[test]
fn what_could_not_be_stored_is_taken_back() {
    block_on(async {
        let mut world = World::new(5, parameters(&*noop(), RoundMode::Deadline), 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 2));
        let [at_alice, _] = world.introduce(&mut alice, &mut bob);
        let mut bob = world.start(bob, quick).await;
        let alice = world.start(alice, quick).await;
        world.until(u64::from(ROUND_MS) * 10 + 600).await;
        let look = |client: &Client| (client.conversations().len(), client.snapshot());
        let before = alice.handle.ask(look).await.unwrap();
        alice.disk.fill(true);
        assert!(alice.handle.queue_text(at_alice, "refused").await.is_err());
        let mut rng = ChaCha20Rng::from_seed(world.rng("an invitation"));
        let invite = move |client: &mut Client| {
            client.invite("Carol", UnixMillis(BASE_MS + 10_000), &mut rng).map(drop).unwrap();
        };
        assert!(alice.handle.change(invite).await.is_err());
        assert!(alice.handle.ask(look).await.unwrap() == before, "it is as if nothing had been asked");
        alice.disk.fill(false);
        alice.handle.queue_text(at_alice, "taken").await.unwrap();
        world.until(u64::from(ROUND_MS) * 60).await;
        assert_eq!(bob.told().texts, ["taken"]);
    });
}

/// Calls are put off by what follows from account and round alone, whatever somebody has to say or to look for.
#[test]
fn calls_leave_in_the_slot_of_the_account_and_the_round() {
    const SPREAD: [u32; 2] = [700, 500];
    block_on(async {
        let mut parameters = parameters(&*noop(), RoundMode::Deadline);
        [parameters.deposit_spread_ms, parameters.query_spread_ms] = SPREAD;
        let mut world = World::new(6, parameters, 2);
        let [mut alice, mut bob, carol] = ["Alice", "Bob", "Carol"].map(|name| world.client(name, 1));
        let [at_alice, _] = world.introduce(&mut alice, &mut bob);
        alice.queue_text(at_alice, "from Alice").unwrap();
        let mut people = Vec::new();
        for client in [alice, bob, carol] {
            people.push(world.start(client, quick).await);
        }
        world.until(u64::from(ROUND_MS) * 40).await;
        assert_eq!(people[1].told().texts.len(), 1);
        let mut moments = std::collections::BTreeSet::new();
        for person in &people {
            let seen = world.server.seen(&person.account);
            assert!(seen.iter().filter(|seen| seen.call == Call::Retrieve).count() >= 36);
            for seen in seen {
                let [deposit, query] =
                    SPREAD.map(|spread| slot(&person.account, Round(seen.round), spread).as_millis() as u64);
                let opened = (seen.round.saturating_sub(FIRST.0)) * u64::from(ROUND_MS);
                let ready = opened + u64::from(ROUND_MS) + crate::server::BUILD_MS;
                let expected = match seen.call {
                    Call::Deposit => opened + u64::from(DEPOSIT_MS) + deposit,
                    Call::Mapping => ready + query,
                    Call::Retrieve => ready + u64::from(QUERY_MS) + query,
                    _ => continue,
                };
                assert_eq!(seen.at.as_millis() as u64, expected, "{:?} in round {}", seen.call, seen.round);
                moments.insert((seen.call == Call::Deposit, expected % u64::from(ROUND_MS)));
            }
        }
        assert!(moments.len() > 100, "{}", moments.len());
    });
}

/// A query that is late leaves in its slot all the same, and is another one.
#[test]
fn attack_a8_a_query_that_is_built_late_is_replaced_by_one_built_before() {
    block_on(async {
        let mut world = World::new(4, parameters(&*noop(), RoundMode::Deadline), 2);
        let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 1));
        let [_, at_bob] = world.introduce(&mut alice, &mut bob);
        bob.queue_text(at_bob, "from Bob").unwrap();
        let _bob = world.start(bob, quick).await;
        let late = |work| {
            let late = u64::from(QUERY_MS - LOOKUP_MS) * 3;
            if work == Work::Query { std::time::Duration::from_millis(late) } else { quick(work) }
        };
        let mut alice = world.start(alice, late).await;
        world.until(u64::from(ROUND_MS) * 10).await;
        let told = alice.told();
        assert!(told.troubles.iter().all(|trouble| trouble.contains("building")), "{told:?}");
        assert!(told.troubles.len() >= 8 && told.texts.is_empty() && told.found.is_empty(), "{told:?}");
        let seen = world.server.seen(&alice.account);
        let queries: Vec<_> = seen.iter().filter(|seen| seen.call == Call::Retrieve).collect();
        assert!(queries.len() >= 8);
        for query in &queries {
            let ready = (query.round - FIRST.0 + 1) * u64::from(ROUND_MS) + crate::server::BUILD_MS;
            assert_eq!(query.at.as_millis() as u64, ready + u64::from(QUERY_MS));
        }
        // Each is a new one.
        let distinct: std::collections::BTreeSet<_> = queries.iter().map(|query| &query.bytes).collect();
        assert!(distinct.len() > 1, "{}", queries.len());
    });
}

/// What a contact sees of a person does not depend on the person's other conversations: a turn that belongs to nobody is
/// not given to who has much to say.
#[test]
fn a_contact_hears_from_one_in_the_same_rounds_whoever_else_there_is() {
    let observe = |others: bool| {
        block_on(async move {
            let mut world = World::new(5, parameters(&*noop(), RoundMode::Deadline), 2);
            let [mut alice, mut bob, mut carol] = ["Alice", "Bob", "Carol"].map(|name| world.client(name, 3));
            let [at_alice, _] = world.introduce(&mut alice, &mut bob);
            alice.queue_text(at_alice, &"from Alice ".repeat(500)).unwrap();
            if others {
                let [with_carol, at_carol] = world.introduce(&mut alice, &mut carol);
                alice.queue_text(with_carol, &"to Carol ".repeat(500)).unwrap();
                carol.queue_text(at_carol, "from Carol").unwrap();
            }
            let mut bob = world.start(bob, quick).await;
            let mut carol = world.start(carol, quick).await;
            let _alice = world.start(alice, quick).await;
            world.until(u64::from(ROUND_MS) * 100).await;
            assert_eq!(!carol.told().found.is_empty(), others);
            bob.told()
        })
    };
    let (alone, beside) = (observe(false), observe(true));
    assert!(alone.found.len() >= 8, "{alone:?}");
    assert_eq!(alone, beside);
}
