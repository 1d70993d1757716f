//! What a malicious server offers to one who joins. The numbers are those of `attacks`.

use mpir::{Engine, noop, sealpir};
use sotto_wire::Refused;

use crate::lies::{Call, Lie, Pretence};
use crate::machine::Machine;
use crate::stage::at;
use crate::world::{FIRST, World, parameters, quick};

/// Whoever is offered parameters that show how long work takes does not join.
fn refused_at_join(engine: &dyn Engine, peer: [u8; 4], pretence: Pretence, why: &str) {
    let join = |talks: bool| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let world = World::new(1, parameters(engine, sotto_protocol::RoundMode::Deadline), 2);
            let [mut alice, mut bob] = ["Alice", "Bob"].map(|name| world.client(name, 3));
            if talks {
                let [at_alice, _] = world.introduce(&mut alice, &mut bob);
                alice.queue_text(at_alice, "from Alice").unwrap();
            }
            world.server.pretend(pretence);
            let (wire, disk) = (world.wire(), crate::machine::Memory::new(world.began));
            let machine = Machine::at(
                crate::machine::Tape::new(world.began),
                wire.dial.clone(),
                world.rng("machine"),
                quick,
                peer.into(),
            );
            let tape = machine.tape.clone();
            let account = crate::world::account(&alice);
            let refused =
                world.start_on(alice, machine, wire, disk).await.err().map(|error| error.to_string());
            world.until(at(3, 0)).await;
            assert!(world.server.seen(&account).is_empty(), "{pretence:?}: it registers");
            (tape.lines(), refused)
        })
    };
    let (idle, talking) = (join(false), join(true));
    assert_eq!(idle, talking, "{pretence:?}");
    assert!(idle.1.as_ref().is_some_and(|told| told.contains(why)), "{pretence:?}: {:?}", idle.1);
}

/// Without encryption nothing at all is said to another machine; over TLS the same is shown by the test `chat`.
#[test]
fn row_17_closed_loop_is_offered_to_one_who_joins() {
    refused_at_join(&*noop(), [203, 0, 113, 7], Pretence::ClosedLoop, "no server answers");
}

#[test]
fn row_18_more_buckets_than_the_slot_has_time_for_are_offered_to_one_who_joins() {
    refused_at_join(&*sealpir(), [127, 0, 0, 1], Pretence::ManyBuckets, "buckets");
}

/// Whoever comes online again and again hears how long the server counts that, and not that a round is over.
#[test]
fn keys_that_are_brought_too_often_are_refused_in_words_that_say_how_long() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(1, parameters(&*noop(), sotto_protocol::RoundMode::Deadline), 2);
        world.server.plan(Lie::Refuse(Call::Upload, Refused::Quota), &(0..200), None);
        // Round 1,100 is open, and it is counted anew from 1,152 on.
        world.until(at(100, 0)).await;
        let alice = world.client("Alice", 3);
        let (wire, disk) = (world.wire(), crate::machine::Memory::new(world.began));
        let tape = crate::machine::Tape::new(world.began);
        let machine =
            Machine::at(tape, wire.dial.clone(), world.rng("machine"), quick, [127, 0, 0, 1].into());
        let refused = world.start_on(alice, machine, wire, disk).await.err().unwrap();
        let sotto_session::ConnectError::TooOften { seconds } = refused else { panic!("{refused}") };
        let rounds = seconds * 1000 / u64::from(world.server.parameters.round_ms);
        assert_eq!((FIRST.0, rounds), (1000, 52));
        let told = "so often that the server takes no more keys of it for a minute; come again then";
        assert!(refused.to_string().contains(told), "{refused}");
    });
}
