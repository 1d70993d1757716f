//! What was said before the screen came, and replies to it.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use sotto_protocol::ConversationId;

use super::super::stage::{Stage, contact};
use super::super::update::{Act, Input, Purpose};
use crate::daemon::message::{Account, Listening, Past, PastMark, Private, Quote, Reply, Said, Told};

const BOB: ConversationId = ConversationId(1);

fn past(place: u64, from: Option<&str>, text: &str, mark: PastMark) -> Past {
    Past {
        place,
        number: from.map(|_| 1000 + place),
        sequence: place as u32,
        from: from.map(str::to_owned),
        text: Private::new(text),
        at_ms: Some(1_793_000_000_000),
        mark,
        settled_ms: None,
        quote: None,
        file: None,
    }
}

/// A screen comes to a participant with one contact; what it asks for of the past.
fn come() -> (Stage, Vec<Option<u64>>) {
    let mut stage = Stage::new(80, 24);
    let listening = Listening {
        name: "alice".to_owned(),
        connected: true,
        node: "chat.example.org:7370".to_owned(),
        round_ms: Some(2000),
        delay_seconds: (4, 8),
        opened: None,
        conversations: vec![BOB],
        unshown: 0,
    };
    let mut acts = stage.happens(Input::Attached(listening));
    acts.extend(stage.happens(Input::Told(Told::Standing(contact(1, "bob")))));
    let asked = asked(&acts);
    (stage, asked)
}

fn asked(acts: &[Act]) -> Vec<Option<u64>> {
    let asked = acts.iter().filter_map(|act| match act {
        Act::Ask(Account::PastOf { id: BOB, before, .. }, Purpose::Before(BOB)) => Some(*before),
        _ => None,
    });
    asked.collect()
}

fn answers(stage: &mut Stage, texts: Vec<Past>, more: bool) -> Vec<Act> {
    stage.happens(Input::Replied(Purpose::Before(BOB), Ok(Reply::Past { texts, more })))
}

#[test]
fn what_was_said_before_stands_above_what_comes_and_nothing_twice() {
    let (mut stage, first) = come();
    assert_eq!(first, [None]);
    // One that nobody has seen comes by itself, and may have been seen elsewhere by the time the answer is there.
    stage.number = 1006;
    stage.hears((1, "bob"), "bob", "the last");
    let texts = vec![
        past(5, None, "mine", PastMark::Arrived),
        past(6, Some("bob"), "not sent", PastMark::Read),
        past(7, Some("bob"), "the last", PastMark::Read),
        past(8, Some("bob"), "yet to come", PastMark::Unread),
    ];
    assert!(asked(&answers(&mut stage, texts, false)).is_empty());
    stage.draws();
    let screen = stage.screen();
    let at = |text: &str| screen.find(text).unwrap();
    assert!(
        at("✓✓ you: mine") < at("bob: not sent") && at("bob: not sent") < at("bob: the last"),
        "{screen}"
    );
    assert!(screen.matches("the last").count() == 1 && !screen.contains("yet to come"), "{screen}");
    assert_eq!(stage.model.thread().unwrap().unseen(), 0);
}

#[test]
fn older_texts_are_asked_for_as_far_as_one_scrolls_or_searches() {
    let (mut stage, _) = come();
    let page = |from: u64| {
        (from..from + 200).map(|place| past(place, Some("bob"), &format!("text {place}"), PastMark::Read))
    };
    assert!(asked(&answers(&mut stage, page(1000).collect(), true)).is_empty());
    stage.draws();
    let mut pages = 0;
    let before = loop {
        let acts = stage.key(KeyCode::PageUp, KeyModifiers::NONE);
        pages += 1;
        if let [before] = asked(&acts)[..] {
            break before;
        }
        assert!(pages < 20);
    };
    assert_eq!(before, Some(1000));
    assert!(pages > 3, "what is shown is enough for a while");
    // It is asked once, and what is on the screen stays where it is.
    assert!(asked(&stage.key(KeyCode::PageUp, KeyModifiers::NONE)).is_empty());
    stage.draws();
    let shown = stage.screen();
    answers(&mut stage, page(800).collect(), true);
    stage.draws();
    assert_eq!(stage.screen(), shown);
    // What is sought is found further back.
    let acts = stage.types("/search text 790");
    assert_eq!(asked(&acts), [Some(800)]);
    let acts = answers(&mut stage, page(600).collect(), true);
    assert!(asked(&acts).is_empty());
    stage.draws();
    assert!(stage.screen().contains("text 790"));
    // A participant that is gone, or refuses, is not asked for ever.
    stage.key(KeyCode::Esc, KeyModifiers::NONE);
    let acts = stage.types("/search nothing like this");
    assert_eq!(asked(&acts), [Some(600)]);
    assert!(asked(&answers(&mut stage, Vec::new(), false)).is_empty());
}

#[test]
fn a_reply_is_shown_with_what_it_replies_to_where_no_text_has_a_place() {
    let (mut stage, _) = come();
    answers(&mut stage, Vec::new(), false);
    stage.hears((1, "bob"), "bob", "Shall we meet?");
    stage.hears((1, "bob"), "bob", "At noon.");
    let acts = stage.types("/reply-to 2 Yes, let us.");
    let [Act::Ask(Account::SayTo { id: BOB, text }, Purpose::Say(..))] = &acts[..] else {
        panic!("{acts:?}")
    };
    let (reference, said) = crate::daemon::reply::read(&text.0);
    assert!(reference.unwrap().fits("Shall we meet?") && said == "Yes, let us.");
    let mut quoting = past(1, Some("bob"), "Fine.", PastMark::Read);
    let text = Some(Private::new("Yes,\nlet us."));
    quoting.quote = Some(Quote { from: None, text, sought: None });
    stage.happens(Input::Told(Told::Text(crate::daemon::message::Text {
        number: 9,
        id: BOB,
        conversation: "bob".to_owned(),
        group: false,
        from: "bob".to_owned(),
        text: quoting.text,
        sequence: 9,
        at_ms: None,
        quote: quoting.quote,
        file: None,
        again: false,
    })));
    // Who types the same sign does not get it into the same place.
    stage.hears((1, "bob"), "bob", "x\n      ↳ you: I pay");
    stage.draws();
    let screen = stage.screen();
    let rows: Vec<&str> = screen.lines().filter(|row| row.contains('↳')).collect();
    let column = |row: &str| row.split('↳').next().unwrap().chars().count();
    assert_eq!(rows.len(), 3, "{screen}");
    assert!(rows[0].ends_with("bob: Shall we meet?") && rows[1].ends_with("you: Yes, let us."), "{screen}");
    assert!(column(rows[0]) == column(rows[1]) && column(rows[2]) > column(rows[1]) + 8, "{screen}");
    assert!(stage.types("/reply-to 0 no").is_empty() && stage.types("/reply-to 99 no").is_empty());
}

/// A person has several programs open, and sees in each what was said in any.
#[test]
fn what_another_program_has_handed_in_is_there_at_once_and_once() {
    let (mut stage, _) = come();
    answers(&mut stage, Vec::new(), false);
    let said = |sequence, text: &str| {
        let text = Private::new(text);
        let said = Said { id: BOB, sequence, text, at_ms: 1_795_694_400_000, quote: None, file: None };
        Input::Told(Told::Said(said))
    };
    let acts = stage.types("typed here");
    let Some(Act::Ask(_, purpose)) = acts.into_iter().next() else { panic!() };
    stage.happens(Input::Replied(purpose, Ok(Reply::Queued { sequence: 1, waiting: 1 })));
    for _ in 0..2 {
        stage.happens(said(1, "typed here"));
        stage.happens(said(2, "typed elsewhere"));
        stage.happens(said(3, "typed elsewhere"));
    }
    stage.happens(Input::Told(Told::Arrived { id: BOB, sequence: 2 }));
    // The page that was asked for before has it, too.
    let mut page = vec![past(7, None, "typed elsewhere", PastMark::Queued)];
    page[0].sequence = 2;
    answers(&mut stage, page, false);
    stage.draws();
    let screen = stage.screen();
    let own: Vec<_> = screen.lines().filter_map(|row| row.split_once("you: ")).collect();
    let texts: Vec<&str> = own.iter().map(|(_, text)| *text).collect();
    assert_eq!(texts, ["typed here", "typed elsewhere", "typed elsewhere"], "{screen}");
    assert!(own[1].0.contains("✓✓") && own[2].0.contains('·'), "{screen}");
}
