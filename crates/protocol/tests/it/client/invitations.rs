//! Invitations that are listed, withdrawn, expire, or come twice.

use sotto_protocol::error::{InputError, Unknown};
use sotto_protocol::{Error, Notice, OpenInvitation, UnixMillis};

use crate::client::world::{Fate, ROUND_MS, World};

const WEEK_MS: u64 = 7 * 24 * 3600 * 1000;

fn refused<T>(result: Result<T, Error>, reason: InputError) {
    assert_eq!(result.err(), Some(Error::Input(reason)));
}

#[test]
fn an_invitation_that_nobody_answers_ends_after_a_week_and_frees_its_place() {
    let mut world = World::new(1, &["alice", "bob"], 1, 4);
    let made = world.now();
    let invitation = world.clients[0].invite("bob", made, &mut world.rng).unwrap();
    world.say(0, "bob", "are you there?");
    let id = world.id(0, "bob");
    let expires = UnixMillis(made.0 + WEEK_MS);
    assert_eq!(invitation.expires(), expires);
    let open = OpenInvitation { conversation: id, contact: "bob".to_owned(), accepted: false, made, expires };
    world.run(20);
    assert_eq!(world.clients[0].invitations(), [open]);
    let now = world.now();
    let full = world.clients[0].invite("carol", now, &mut world.rng);
    assert_eq!(full.unwrap_err(), Error::Capacity { capacity: 1 });

    // The last round before it ends, and the first after it.
    world.round = expires.0 / ROUND_MS - 1;
    world.run(1);
    assert_eq!(world.clients[0].invitations().len(), 1);
    assert!(world.notices[0].is_empty());
    world.step(&[Fate { restarts: true, ..Fate::default() }, Fate::default()]);
    assert!(world.clients[0].conversations().is_empty() && world.clients[0].invitations().is_empty());
    let ended = Notice::Expired { conversation: id, contact: "bob".to_owned(), accepted: false, texts: 1 };
    assert_eq!(world.notices[0], [ended]);
    assert_eq!(format!("{:?}", world.notices[0]), "[Expired(..)]");
    let now = world.now();
    refused(
        world.clients[1].accept("alice", &invitation, now, &mut world.rng),
        InputError::InvitationExpired,
    );
    world.clients[0].invite("carol", now, &mut world.rng).unwrap();
    world.run(20);
    assert_eq!(world.notices[0].len(), 1);
}

/// The other side was withdrawn, or somebody else was faster: nobody answers, and that has an end, too.
#[test]
fn an_accepted_invitation_that_is_not_answered_ends_when_it_would_have_expired() {
    let mut world = World::new(2, &["alice", "bob"], 1, 4);
    let made = world.now();
    let invitation = world.clients[0].invite("bob", made, &mut world.rng).unwrap();
    let id = world.id(0, "bob");
    world.clients[0].withdraw(id).unwrap();
    assert_eq!(world.clients[0].withdraw(id), Err(Error::Unknown(Unknown::Invitation)));
    world.run(100);
    let accepted = world.now();
    let id = world.clients[1].accept("alice", &invitation, accepted, &mut world.rng).unwrap();
    world.run(60);
    let open = &world.clients[1].invitations()[0];
    assert!(open.accepted && open.made == accepted && open.expires == invitation.expires());
    world.round = invitation.expires().0 / ROUND_MS;
    world.run(1);
    let ended = Notice::Expired { conversation: id, contact: "alice".to_owned(), accepted: true, texts: 0 };
    assert_eq!(world.notices[1], [ended]);
    assert!(world.clients[1].conversations().is_empty());
}

/// Who has heard a request waits longer for the sign that its answer was heard, so that not one side alone ends.
#[test]
fn one_who_has_answered_waits_a_week_longer() {
    let mut world = World::new(3, &["alice", "bob"], 1, 4);
    world.befriend(0, 1);
    let deaf = Fate { deposit_lost: true, ..Fate::default() };
    // Bob's requests are heard, and what he says after the answer is lost.
    world.run(10);
    for _ in 0..30 {
        world.step(&[Fate::default(), deaf]);
    }
    assert!(world.clients[1].conversations()[0].established);
    let open = world.clients[0].invitations();
    assert_eq!((open.len(), open[0].expires.0 - open[0].made.0), (1, 2 * WEEK_MS));
    world.round += WEEK_MS / ROUND_MS;
    // The chains of both catch up.
    world.run(100);
    assert!(world.clients[0].invitations().is_empty());
    world.say(0, "bob", "at last");
    world.run(20);
    assert_eq!(world.texts(1).len(), 1);
}

/// A second use would answer under labels that were used already, and the other side would take it for another person.
#[test]
fn an_invitation_serves_once_whatever_became_of_its_conversation() {
    let mut world = World::new(4, &["alice", "bob"], 2, 4);
    let now = world.now();
    let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
    let id = world.clients[1].accept("alice", &invitation, now, &mut world.rng).unwrap();
    refused(world.clients[1].accept("twice", &invitation, now, &mut world.rng), InputError::InvitationUsed);
    world.clients[1].forget(id).unwrap();
    world.restart(1);
    refused(world.clients[1].accept("alice", &invitation, now, &mut world.rng), InputError::InvitationUsed);
    world.round = invitation.expires().0 / ROUND_MS;
    world.run(1);
    let now = world.now();
    refused(
        world.clients[1].accept("alice", &invitation, now, &mut world.rng),
        InputError::InvitationExpired,
    );
    assert!(world.clients[1].conversations().is_empty());
}

/// What is remembered of used invitations has a bound, and is forgotten when they have expired.
#[test]
fn used_invitations_take_bounded_memory() {
    let mut world = World::new(5, &["alice", "bob"], 1, 4);
    let now = world.now();
    let empty = world.clients[1].snapshot().len();
    let accept = |world: &mut World, now: UnixMillis| {
        let invitation = world.clients[0].invite("bob", now, &mut world.rng).unwrap();
        let id = world.id(0, "bob");
        world.clients[0].withdraw(id).unwrap();
        let id = world.clients[1].accept("alice", &invitation, now, &mut world.rng)?;
        world.clients[1].forget(id)
    };
    for _ in 0..1024 {
        accept(&mut world, now).unwrap();
    }
    refused(accept(&mut world, now), InputError::TooManyAccepted);
    assert!(world.clients[1].snapshot().len() <= empty + 1024 * 20);
    world.round += WEEK_MS / ROUND_MS;
    world.run(1);
    let now = world.now();
    accept(&mut world, now).unwrap();
    assert!(world.clients[1].snapshot().len() <= empty + 1024);
}

#[test]
fn an_invitation_that_would_never_expire_is_refused() {
    let mut world = World::new(6, &["alice", "bob"], 1, 4);
    let now = world.now();
    let later = UnixMillis(now.0 + 4 * WEEK_MS);
    let invitation = world.clients[0].invite("bob", later, &mut world.rng).unwrap();
    refused(
        world.clients[1].accept("alice", &invitation, now, &mut world.rng),
        InputError::InvitationTooLong,
    );
    assert!(world.clients[1].conversations().is_empty());
    // As long as one may be, and longer by a millisecond.
    let sooner = UnixMillis(now.0 + WEEK_MS - 1);
    let refused_still = world.clients[1].accept("alice", &invitation, sooner, &mut world.rng);
    refused(refused_still, InputError::InvitationTooLong);
    let soon = UnixMillis(now.0 + WEEK_MS);
    world.clients[1].accept("alice", &invitation, soon, &mut world.rng).unwrap();
}

#[test]
fn only_what_is_open_can_be_withdrawn() {
    let mut world = World::new(7, &["alice", "bob"], 2, 4);
    world.befriend(0, 1);
    world.run(40);
    let bob = world.id(0, "bob");
    assert_eq!(world.clients[0].withdraw(bob), Err(Error::Unknown(Unknown::Invitation)));
    world.clients[0].create_group("desk", &[("bob".to_owned(), [9; 32])], &mut world.rng).unwrap();
    let desk = world.id(0, "desk");
    assert_eq!(world.clients[0].withdraw(desk), Err(Error::Unknown(Unknown::Invitation)));
    assert_eq!(world.clients[0].conversations().len(), 2);
    world.clients[0].forget(bob).unwrap();
    assert_eq!(world.clients[0].forget(bob), Err(Error::Unknown(Unknown::Conversation)));
}
