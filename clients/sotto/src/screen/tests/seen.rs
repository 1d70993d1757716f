//! What counts as seen.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use sotto_protocol::ConversationId;

use super::super::model::TEXTS_KEPT;
use super::super::stage::{Stage, contact};
use super::super::update::{Act, Input, Purpose};
use crate::cli::failure::Failure;
use crate::daemon::message::{Account, Reply, Told};

/// The numbers up to which the participant is told that texts were shown, by conversation.
fn shown(acts: &[Act]) -> Vec<(u32, u64)> {
    let shown = acts.iter().filter_map(|act| match act {
        Act::Ask(Account::Shown { id, number }, _) => Some((id.0, *number)),
        _ => None,
    });
    shown.collect()
}

fn two(width: u16, height: u16) -> Stage {
    let mut stage = Stage::new(width, height);
    stage.attach(vec![contact(1, "bob"), contact(2, "carol")], 0);
    stage
}

#[test]
fn a_text_is_shown_when_it_is_drawn_in_the_open_conversation_and_not_before() {
    let mut stage = two(80, 24);
    assert!(shown(&stage.hears((1, "bob"), "bob", "one")).is_empty());
    assert!(shown(&stage.hears((2, "carol"), "carol", "two")).is_empty());
    assert_eq!(shown(&stage.draws()), [(1, 1)]);
    assert!(shown(&stage.draws()).is_empty());
    stage.key(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(shown(&stage.draws()), [(2, 2)]);
}

/// Whoever is shown a text again after a crash is told so: before it is drawn, that is noted.
#[test]
fn what_is_about_to_be_drawn_is_noted_before_and_nothing_else() {
    let mut stage = two(80, 12);
    let noted = |stage: &mut Stage| match stage.offers() {
        Some(Act::Ask(Account::Offer { id, number }, purpose @ Purpose::Offer(..))) => {
            stage.happens(Input::Replied(purpose, Ok(Reply::Offered { again: Vec::new() })));
            Some((id.0, number))
        }
        None => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(noted(&mut stage), None);
    stage.hears((1, "bob"), "bob", "one");
    stage.hears((2, "carol"), "carol", "two");
    assert_eq!(noted(&mut stage), Some((1, 1)));
    // Once.
    assert_eq!(noted(&mut stage), None);
    stage.draws();
    // More than fits: what fits.
    for _ in 0..30 {
        stage.hears((1, "bob"), "bob", "a text");
    }
    let mut last = 1;
    for _ in 0..10 {
        let about = noted(&mut stage);
        let drawn = shown(&stage.draws());
        assert_eq!(drawn.last().copied(), about);
        last = about.map_or(last, |(_, number)| number);
        stage.key(KeyCode::PageDown, KeyModifiers::NONE);
    }
    assert_eq!(last, 32);
    // A sheet covers it.
    stage.types("/help");
    stage.hears((1, "bob"), "bob", "behind it");
    assert_eq!(noted(&mut stage), None);
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(noted(&mut stage), Some((1, 33)));
    stage.key(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(noted(&mut stage), Some((2, 2)));
}

/// Neither while nobody answers, nor when nothing can be stored, nor without a participant: else it could be shown once more
/// without a word.
#[test]
fn what_is_not_noted_is_not_drawn() {
    let mut stage = two(80, 24);
    stage.hears((1, "bob"), "bob", "a secret");
    let purpose = |stage: &mut Stage| match stage.offers() {
        Some(Act::Ask(_, purpose)) => purpose,
        other => panic!("{other:?}"),
    };
    let asked = purpose(&mut stage);
    let shows = |stage: &mut Stage| {
        let acts = stage.draws_as_it_is();
        let drawn = stage.rows().iter().any(|row| row.contains("a secret"));
        assert_eq!(shown(&acts).is_empty(), !drawn);
        (drawn, stage.rows().iter().any(|row| row.contains("shown when 'sotto run' has noted")))
    };
    assert_eq!(shows(&mut stage), (false, true), "nobody has answered");
    let failure = || Failure::state("the disk is full");
    stage.happens(Input::Replied(asked, Err(failure())));
    assert_eq!(shows(&mut stage), (false, true), "it could not be stored");
    let asked = purpose(&mut stage);
    stage.happens(Input::Replied(asked, Err(failure())));
    stage.happens(Input::Gone("gone".to_owned()));
    assert!(stage.offers().is_none());
    assert_eq!(shows(&mut stage), (false, true), "there is nobody who could");
    stage.attach(vec![contact(1, "bob")], 0);
    let asked = purpose(&mut stage);
    stage.happens(Input::Replied(asked, Ok(Reply::Offered { again: vec![1] })));
    assert_eq!(shows(&mut stage), (true, false));
    assert!(
        stage.rows().iter().any(|row| row.contains("perhaps shown before")),
        "another one may have shown it"
    );
}

#[test]
fn what_another_program_has_shown_is_not_new_here() {
    let mut stage = two(80, 24);
    for text in ["one", "two", "three"] {
        stage.hears((2, "carol"), "carol", text);
    }
    stage.draws();
    assert!(stage.rows()[1].contains("(3)"), "{:?}", stage.rows());
    stage.happens(Input::Told(Told::Seen { id: ConversationId(2), number: 2 }));
    stage.draws();
    assert!(stage.rows()[1].contains("(1)"), "{:?}", stage.rows());
    stage.happens(Input::Told(Told::Seen { id: ConversationId(2), number: 3 }));
    stage.key(KeyCode::Tab, KeyModifiers::NONE);
    assert!(shown(&stage.draws()).is_empty(), "it is told already");
    let rows = stage.rows();
    assert!(
        rows.iter().any(|row| row.contains("three")) && !rows.iter().any(|row| row.contains("-- new --"))
    );
}

#[test]
fn nothing_is_noted_where_nothing_is_drawn() {
    let mut stage = two(12, 3);
    stage.hears((1, "bob"), "bob", "one");
    assert!(stage.offers().is_none() && shown(&stage.draws()).is_empty());
    stage.resizes(80, 24);
    assert!(stage.offers().is_some());
}

#[test]
fn what_a_sheet_covers_is_not_shown() {
    let mut stage = two(80, 24);
    stage.types("/help");
    stage.hears((1, "bob"), "bob", "one");
    assert!(shown(&stage.draws()).is_empty());
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(shown(&stage.draws()), [(1, 1)]);
    stage.resizes(10, 4);
    stage.hears((1, "bob"), "bob", "two");
    assert!(shown(&stage.draws()).is_empty());
    // The terminal has another size than it has told.
    stage.happens(Input::Resize(200, 60));
    assert!(shown(&stage.draws()).is_empty());
    stage.resizes(200, 60);
    assert_eq!(shown(&stage.draws()), [(1, 2)]);
}

/// What tells one text as shown takes all before it with it.
#[test]
fn of_more_than_fits_only_what_was_drawn_is_shown() {
    let mut stage = two(80, 12);
    for _ in 0..30 {
        stage.hears((1, "bob"), "bob", "a text");
    }
    let first = shown(&stage.draws());
    let [(1, first)] = first[..] else { panic!("{first:?}") };
    assert!((5..12).contains(&first), "{first}");
    // Whatever happens elsewhere.
    stage.hears((2, "carol"), "carol", "another");
    assert!(shown(&stage.draws()).is_empty());
    // Passed over.
    stage.key(KeyCode::End, KeyModifiers::CONTROL);
    assert!(shown(&stage.draws()).is_empty());
    assert!(stage.screen().contains("unread below"));
    stage.key(KeyCode::Home, KeyModifiers::CONTROL);
    stage.draws();
    let mut last = first;
    for _ in 0..6 {
        stage.key(KeyCode::PageDown, KeyModifiers::NONE);
        for (_, number) in shown(&stage.draws()) {
            assert!(number > last && number < last + 12);
            last = number;
        }
    }
    assert_eq!(last, 30);
    // At the end, what comes is followed again.
    stage.hears((1, "bob"), "bob", "the next");
    assert_eq!(shown(&stage.draws()), [(1, 32)]);
}

#[test]
fn a_text_longer_than_the_screen_is_shown_when_its_end_is() {
    let mut stage = two(80, 12);
    stage.hears((1, "bob"), "bob", &"word ".repeat(400));
    let mut pages = 0;
    while shown(&stage.draws()).is_empty() {
        stage.key(KeyCode::PageDown, KeyModifiers::NONE);
        pages += 1;
        assert!(pages < 20);
    }
    assert!(pages >= 3, "{pages}");
}

#[test]
fn a_text_that_comes_again_with_the_participant_is_there_once_and_told_again() {
    let mut stage = two(80, 24);
    stage.hears((1, "bob"), "bob", "only once");
    stage.draws();
    stage.happens(Input::Gone("gone".to_owned()));
    stage.attach(vec![contact(1, "bob"), contact(2, "carol")], 1);
    stage.number = 0;
    assert_eq!(shown(&stage.hears((1, "bob"), "bob", "only once")), [(1, 1)]);
    stage.draws();
    assert_eq!(stage.screen().matches("only once").count(), 1);
}

#[test]
fn a_conversation_that_was_forgotten_meanwhile_is_gone_with_its_texts() {
    let mut stage = two(80, 24);
    stage.hears((1, "bob"), "bob", "from bob");
    stage.attach(vec![contact(2, "carol")], 0);
    stage.draws();
    assert!(!stage.screen().contains("bob"));
    assert_eq!(stage.model.open, Some(ConversationId(2)));
}

#[test]
fn memory_has_an_end_and_what_was_not_seen_stays() {
    let mut stage = Stage::with_texts(2, u32::try_from(TEXTS_KEPT).unwrap() + 10);
    assert_eq!(stage.texts(), TEXTS_KEPT);
    // Nothing more is seen.
    stage.types("/help");
    for _ in 0..20 {
        stage.hear_one(1);
    }
    assert_eq!(stage.texts(), TEXTS_KEPT);
    assert_eq!(stage.model.threads[1].unseen(), 20);
    stage.resizes(60, 20);
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    stage.key(KeyCode::Home, KeyModifiers::CONTROL);
    stage.draws();
    assert!(stage.screen().contains("Text number"));
}

#[test]
fn a_text_says_what_has_become_of_it_and_none_is_lost_when_it_is_refused() {
    let mut stage = two(80, 24);
    let acts = stage.types("hello");
    let [Act::Ask(Account::SayTo { id, text }, _)] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!((id.0, text.0.as_str()), (1, "hello"));
    let Some(Act::Ask(_, purpose)) = acts.into_iter().next() else { panic!() };
    stage.draws();
    assert!(stage.screen().contains("12:00 …  you: hello"), "{}", stage.screen());
    stage.happens(Input::Replied(purpose, Ok(Reply::Queued { sequence: 4, waiting: 1 })));
    stage.draws();
    assert!(stage.screen().contains("12:00 ·  you: hello"), "{}", stage.screen());
    stage.key(KeyCode::Up, KeyModifiers::NONE);
    assert_eq!(stage.model.composer().text(), "hello");
}
