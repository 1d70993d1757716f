#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sotto_protocol::client::{Outgoing, Unshown, Waiting};
use sotto_protocol::{ConversationId, UnixMillis};

use super::files::hand_in;
use super::record::Record;
use super::{DOMAIN, FILE, History, KEEP, Stand, exists, forget};
use crate::daemon::message::{Past, PastMark, Text};
use crate::daemon::parcel::{Parcel, read};
use crate::store::log::SealedLog;

const BOB: ConversationId = ConversationId(1);
const CAROL: ConversationId = ConversationId(2);
const SEED: [u8; 32] = [9; 32];

/// What a client has of one conversation.
#[derive(Clone, Default)]
struct State {
    arrived: u32,
    waiting: Vec<Waiting>,
    unshown: Vec<Unshown>,
}

impl State {
    fn says(&mut self, sequence: u32, text: &str) {
        self.waiting.push(Waiting { sequence, text: text.to_owned(), sent: false });
    }

    fn hears(&mut self, id: ConversationId, number: u64, text: &str) {
        let from = "bob".to_owned();
        self.unshown.push(Unshown {
            number,
            conversation: id,
            from,
            text: text.to_owned(),
            sequence: number as u32,
        });
    }

    fn stand(&self, id: ConversationId) -> Stand {
        let outgoing = Outgoing { arrived: self.arrived, waiting: self.waiting.clone() };
        Stand { outgoing, ..Stand::with(id, self.unshown.clone()) }
    }
}

fn open(home: &Path) -> History {
    let (history, problem) = History::open(home, &SEED);
    assert_eq!(problem, None);
    history
}

fn page(history: &History, id: ConversationId, state: &State) -> Vec<Past> {
    history.page(&state.stand(id), None, u32::MAX).0
}

fn shown(history: &History, state: &State) -> Vec<(String, PastMark)> {
    page(history, BOB, state).into_iter().map(|past| (past.text.0.to_string(), past.mark)).collect()
}

/// What happens to a conversation.
type Step = fn(&mut State);

const STEPS: [Step; 11] = [
    |state| state.says(1, "one"),
    |state| state.hears(BOB, 7, "two"),
    |state| state.says(4, "three, the same"),
    |state| state.says(5, "three, the same"),
    // It is seen.
    |state| state.unshown.clear(),
    |state| {
        (state.arrived, state.waiting) = (4, state.waiting.split_off(2));
        state.says(6, "four");
    },
    // The contact has had more of a copy.
    |state| {
        state.arrived = 20;
        for (waiting, sequence) in state.waiting.iter_mut().zip(21..) {
            waiting.sequence = sequence;
        }
    },
    |state| state.hears(BOB, 8, "five"),
    // What nothing was sent of is taken back, and its number given to another.
    |state| {
        state.waiting.pop();
        state.says(22, "six");
    },
    |state| state.waiting[0].sent = true,
    |state| state.hears(BOB, 9, "five"),
];

#[test]
fn a_text_is_there_once_wherever_the_process_dies() {
    let expected = [
        ("one", PastMark::Arrived),
        ("two", PastMark::Read),
        ("three, the same", PastMark::Arrived),
        ("three, the same", PastMark::Sent),
        ("four", PastMark::NotSent),
        ("five", PastMark::Unread),
        ("six", PastMark::Queued),
        ("five", PastMark::Unread),
    ];
    let expected = expected.map(|(text, mark)| (text.to_owned(), mark));
    // After a step, before or after the history has heard of it; and never.
    for dies in (0..STEPS.len()).flat_map(|step| [(step, false), (step, true)]).chain([(usize::MAX, false)]) {
        let home = tempfile::tempdir().unwrap();
        let (mut history, mut state) = (open(home.path()), State::default());
        for (number, step) in STEPS.iter().enumerate() {
            step(&mut state);
            if dies != (number, false) {
                history.settle(&state.stand(BOB), Some(UnixMillis(1000 + number as u64))).unwrap();
            }
            if dies.0 == number {
                history = open(home.path());
                history.settle_all(&[state.stand(BOB)], None).unwrap();
            }
        }
        // What died before it was heard of may have been seen or be gone by then: the state has the last word.
        assert_eq!(shown(&history, &state), expected, "{dies:?}");
        drop(history);
        let (history, problem) = History::look(home.path(), &SEED);
        history.settle_all(&[state.stand(BOB)], None).unwrap();
        assert_eq!((shown(&history, &state), problem), (expected.to_vec(), None), "{dies:?}");
        let times: Vec<_> = page(&history, BOB, &state).iter().map(|past| past.at_ms).collect();
        assert!(times.iter().filter(|at| at.is_none()).count() <= 1, "{dies:?}: {times:?}");
    }
}

#[test]
fn so_many_texts_are_kept_as_the_person_says_and_none_that_the_state_still_has_goes() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    assert_eq!(history.keeps(), (KEEP, 0));
    state.says(1, "waits from the beginning");
    history.settle(&state.stand(BOB), None).unwrap();
    history.keep(50).unwrap();
    for number in 1..=300 {
        state.unshown.clear();
        state.hears(BOB, number, &format!("text {number}"));
        history.settle(&state.stand(BOB), None).unwrap();
    }
    let check = |history: &History| {
        let texts: Vec<String> = shown(history, &state).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts.len(), 50);
        assert_eq!((texts[0].as_str(), texts[1].as_str()), ("waits from the beginning", "text 252"));
        assert_eq!(texts[49], "text 300");
        assert_eq!(history.keeps(), (50, 50));
    };
    check(&history);
    drop(history);
    let history = open(home.path());
    history.settle_all(&[state.stand(BOB)], None).unwrap();
    check(&history);
    history.keep(0).unwrap();
    history.settle(&state.stand(BOB), None).unwrap();
    assert_eq!(history.keeps(), (0, 0));
    drop(history);
    let history = open(home.path());
    history.settle_all(&[state.stand(BOB)], None).unwrap();
    assert!(shown(&history, &state).is_empty());
    assert!(records(home.path()).iter().all(|record| matches!(record, Record::Keep(0))));
    // From then on, what the state still has and what comes.
    history.keep(10).unwrap();
    history.settle(&state.stand(BOB), None).unwrap();
    assert_eq!(shown(&history, &state).len(), 2);
    forget(home.path()).unwrap();
    assert!(!exists(home.path()));
}

fn records(home: &Path) -> Vec<Record> {
    let (history, _) = History::look(home, &SEED);
    let opened = SealedLog::open(&home.join(FILE), &history.key, DOMAIN, true).unwrap();
    opened.records.iter().map(|record| Record::decode(record).unwrap()).collect()
}

#[test]
fn of_a_conversation_that_is_forgotten_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut with_bob, mut with_carol) = (open(home.path()), State::default(), State::default());
    with_bob.hears(BOB, 1, "of bob");
    with_bob.says(1, "to bob");
    with_carol.hears(CAROL, 2, "of carol");
    let all = |bob: &State, carol: &State| [bob.stand(BOB), carol.stand(CAROL)];
    history.settle_all(&all(&with_bob, &with_carol), None).unwrap();
    assert_eq!(page(&history, BOB, &with_bob).len(), 2);
    history.settle_all(&[with_carol.stand(CAROL)], None).unwrap();
    assert!(page(&history, BOB, &with_bob).is_empty());
    assert_eq!(page(&history, CAROL, &with_carol).len(), 1);
    let left = records(home.path());
    assert!(
        left.iter().all(|record| !matches!(record, Record::Text(past) if past.id == BOB)) && left.len() == 2
    );
    // Nor does it come back with what is said next.
    drop(history);
    let history = open(home.path());
    with_carol.says(1, "to carol");
    history.settle_all(&[with_carol.stand(CAROL)], None).unwrap();
    assert!(page(&history, BOB, &with_bob).is_empty());
    assert_eq!(page(&history, CAROL, &with_carol).len(), 2);
}

/// Of one who talks all day and of one who never does, the disk shows the same but for what looks drawn.
#[test]
fn two_worlds_that_differ_in_what_was_said_look_alike_on_the_disk() {
    let [quiet, loud] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (history, mut state) = (open(loud.path()), State::default());
    for home in [&quiet, &loud] {
        let (history, _) = History::open(home.path(), &SEED);
        history.begin().unwrap();
    }
    drop(history);
    let history = open(loud.path());
    for number in 1..=40 {
        state.says(number, "a text of which no part shows");
        state.hears(BOB, number.into(), "nor of this one that came");
        history.settle(&state.stand(BOB), None).unwrap();
        history.touch().unwrap();
    }
    history.touch().unwrap();
    let files = |home: &Path| -> BTreeMap<_, _> {
        let files = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap())).collect()
    };
    let [quiet, loud] = [&quiet, &loud].map(|home| files(home.path()));
    assert_eq!(quiet.keys().collect::<Vec<_>>(), loud.keys().collect::<Vec<_>>());
    for (name, bytes) in &loud {
        let other = &quiet[name];
        assert_eq!(bytes.len(), other.len());
        assert!(!bytes.windows(7).any(|window| window == b"no part" || window == b"nor of "));
        // No 16 bytes come twice, in one or in both: the beginning and the end of the head are all that is the same.
        let mut seen = BTreeSet::new();
        let drawn = |bytes: &[u8]| bytes[4096..].chunks(16).map(<[u8]>::to_vec).collect::<Vec<_>>();
        for window in drawn(bytes).into_iter().chain(drawn(other)) {
            assert!(seen.insert(window));
        }
        assert_eq!(bytes[..10], other[..10]);
        assert_eq!(bytes[66..4096], other[66..4096]);
    }
}

#[test]
fn what_cannot_be_read_is_told_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    state.says(1, "one");
    history.settle(&state.stand(BOB), None).unwrap();
    drop(history);
    let written = fs::read(home.path().join(FILE)).unwrap();
    let (other, problem) = History::open(home.path(), &[8; 32]);
    assert!(problem.unwrap().contains("'sotto history --keep N'"));
    other.settle(&state.stand(BOB), None).unwrap();
    // What would not outlive the process is refused.
    assert!(other.set_blocked(BOB, true).is_err());
    assert_eq!(fs::read(home.path().join(FILE)).unwrap(), written);
    other.keep(5).unwrap();
    drop(other);
    assert_eq!(History::open(home.path(), &[8; 32]).1, None);
    assert!(History::open(home.path(), &SEED).1.is_some());
}

/// Whoever hears that it failed does not find it done, and may ask again.
#[test]
fn a_block_that_could_not_be_stored_does_not_hold() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("gone");
    fs::create_dir(&place).unwrap();
    let history = open(&place);
    let blocks = |id| history.blocked().blocks(id);
    fs::remove_dir(&place).unwrap();
    assert!(history.set_blocked(BOB, true).is_err() && !blocks(BOB));
    fs::create_dir(&place).unwrap();
    history.set_blocked(BOB, true).unwrap();
    drop(history);
    assert!(open(&place).blocked().blocks(BOB));
}

#[test]
fn a_text_that_nobody_has_seen_says_when_it_came() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    state.hears(BOB, 3, "one");
    history.settle(&state.stand(BOB), Some(UnixMillis(77))).unwrap();
    let text = |number: u64| Text {
        number,
        id: BOB,
        conversation: "bob".to_owned(),
        group: false,
        from: "bob".to_owned(),
        text: crate::daemon::message::Private::new("one"),
        sequence: 3,
        at_ms: None,
        quote: None,
        file: None,
        again: false,
    };
    assert_eq!(history.present(text(3)).at_ms, Some(77));
    // Until it is seen, in its own conversation and not another one.
    history.seen(CAROL, 9);
    assert!(history.has_unread(3) && !history.has_unread(4));
    history.seen(BOB, 2);
    assert!(history.has_unread(3));
    history.seen(BOB, 3);
    assert!(!history.has_unread(3));
    assert_eq!(history.present(text(4)).at_ms, None);
}

/// Whatever is said, a page goes into a frame, and all pages together are all texts.
#[test]
fn pages_are_bounded_and_have_everything_once() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    let nasty = "\u{1}".repeat(16 * 1024);
    for number in 1..=30 {
        state.unshown.clear();
        state.hears(BOB, number, if number % 3 == 0 { "short" } else { &nasty });
        history.settle(&state.stand(BOB), None).unwrap();
    }
    let (mut before, mut all) = (None, Vec::new());
    loop {
        let (texts, more) = history.page(&state.stand(BOB), before, 7);
        let frame = serde_json::to_vec(&texts).unwrap();
        assert!(frame.len() < crate::daemon::frame::FRAME_MAX && texts.len() <= 7 && !texts.is_empty());
        before = Some(texts[0].place);
        all.splice(0..0, texts.iter().map(|past| past.number.unwrap()));
        if !more {
            break;
        }
    }
    assert_eq!(all, (1..=30).collect::<Vec<_>>());
}

/// Parts come in order, in pieces of time; the process may die behind any of them.
#[test]
fn a_file_is_put_together_once_wherever_the_process_dies() {
    let content: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
    let parcel = Parcel::new("../notes.txt", content.clone()).unwrap();
    for dies in 0..=parcel.parts() + 1 {
        let home = tempfile::tempdir().unwrap();
        let (mut history, mut state) = (open(home.path()), State::default());
        for number in 0..=parcel.parts() {
            state.hears(BOB, 10 + u64::from(number), &parcel.text(number));
            if dies == number {
                // Kept, and the state has not heard of it.
                history.settle(&state.stand(BOB), None).unwrap();
                history = open(home.path());
            }
            let taken = history.settle(&state.stand(BOB), None).unwrap();
            state.unshown.retain(|text| !taken.contains(&text.number));
            assert_eq!(state.unshown.len(), usize::from(number == parcel.parts()), "{dies}");
        }
        if dies > parcel.parts() {
            history = open(home.path());
            history.settle_all(&[state.stand(BOB)], None).unwrap();
        }
        let kept = page(&history, BOB, &state);
        let [Past { text, file: Some(file), mark: PastMark::Unread, .. }] = &kept[..] else {
            panic!("{kept:?}")
        };
        assert_eq!((text.0.as_str(), file.size), ("../notes.txt", 5000));
        let path = file.path.clone().unwrap();
        assert_eq!(path, home.path().join("received/_notes.txt").display().to_string());
        assert_eq!(fs::read(path).unwrap(), content);
        assert_eq!(fs::read_dir(home.path().join("received")).unwrap().count(), 1);
        // The parts are not kept any longer.
        history.keep(100).unwrap();
        assert!(!records(home.path()).iter().any(|record| matches!(record, Record::Piece(_))));
    }
}

/// Whoever begins files and does not end them takes the room of two, and none of anybody else's.
#[test]
fn files_that_never_end_take_no_more_room() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    let parcel = |name: &str| Parcel::new(name, vec![1; 4000]).unwrap();
    for number in 0..20_u64 {
        state.hears(BOB, 1 + number, &parcel(&number.to_string()).text(0));
        let taken = history.settle(&state.stand(BOB), None).unwrap();
        assert_eq!(taken, [1 + number]);
        state.unshown.clear();
    }
    history.keep(100).unwrap();
    let pieces = records(home.path()).into_iter().filter(|record| matches!(record, Record::Piece(_)));
    assert_eq!(pieces.count(), 2);
    // One whose beginning was dropped comes incomplete, and says so.
    state.hears(BOB, 50, &parcel("3").text(3));
    history.settle(&state.stand(BOB), None).unwrap();
    let kept = page(&history, BOB, &state);
    assert!(kept.len() == 1 && kept[0].file.as_ref().is_some_and(|file| file.path.is_none()));
    assert!(!home.path().join("received").exists());
}

/// All of them come at once, as when the receiver's machine has slept.
#[test]
fn many_short_files_that_come_at_the_same_time_are_all_there() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state, mut number) = (open(home.path()), State::default(), 0);
    for file in 0..9_u8 {
        let parcel = Parcel::new(&format!("{file}.txt"), vec![file; 12 + 100 * usize::from(file)]).unwrap();
        for part in 0..=parcel.parts() {
            number += 1;
            state.hears(BOB, number, &parcel.text(part));
        }
        // Repeated by whoever sends many.
        number += 1;
        state.hears(BOB, number, &parcel.text(parcel.parts()));
    }
    let taken = history.settle(&state.stand(BOB), None).unwrap();
    state.unshown.retain(|text| !taken.contains(&text.number));
    let kept = page(&history, BOB, &state);
    let whole = kept.iter().filter(|past| past.file.as_ref().is_some_and(|file| file.path.is_some()));
    assert_eq!((kept.len(), whole.count()), (18, 18));
    assert_eq!(fs::read_dir(home.path().join("received")).unwrap().count(), 9);
}

/// What somebody is blocked for before it was seen is gone, from the history, too, also after a restart.
#[test]
fn what_nobody_saw_of_somebody_who_is_blocked_leaves_the_history() {
    for restarts in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let (mut history, mut state) = (open(home.path()), State::default());
        state.hears(BOB, 1, "seen");
        history.settle(&state.stand(BOB), None).unwrap();
        state.unshown.clear();
        state.hears(BOB, 2, "not seen");
        history.settle(&state.stand(BOB), None).unwrap();
        assert_eq!(shown(&history, &state).len(), 2);
        if restarts {
            history = open(home.path());
        }
        history.set_blocked(BOB, true).unwrap();
        let hidden = core::mem::take(&mut state.unshown);
        history.settle(&Stand { hidden, ..state.stand(BOB) }, None).unwrap();
        assert_eq!(shown(&history, &state), [("seen".to_owned(), PastMark::Read)]);
        assert_eq!(shown(&open(home.path()), &state), [("seen".to_owned(), PastMark::Read)]);
    }
}

/// Of a file that is sent every part is handed in once, a few at a time, wherever the process dies.
#[test]
fn parts_are_handed_in_once_wherever_the_process_dies() {
    let parcel = Parcel::new("a", vec![3; 9000]).unwrap();
    let mut rng: rand::rngs::StdRng = rand::make_rng();
    for dies in [0, 1, 2, 3, 99] {
        let home = tempfile::tempdir().unwrap();
        let mut history = open(home.path());
        let mut alice = crate::testing::client("alice");
        alice.invite("bob", UnixMillis(0), &mut rng).unwrap();
        let id = alice.find("bob").unwrap();
        history.send(id, &parcel).unwrap();
        for round in 0..3 {
            let [(to, sent, next)] = &history.sending()[..] else { panic!() };
            assert!(*to == id && *sent == parcel);
            let next = hand_in(&mut alice, id, &parcel, *next).unwrap();
            if dies == round {
                history = open(home.path());
            } else {
                history.handed(id, &parcel, next).unwrap();
            }
        }
        let waiting = alice.outgoing_texts(id).unwrap().waiting;
        let numbers: Vec<u16> = waiting.iter().map(|text| read(&text.text).unwrap().number).collect();
        assert_eq!(numbers, [0, 1], "{dies}");
        history.handed(id, &parcel, parcel.parts() + 1).unwrap();
        assert!(open(home.path()).sending().is_empty());
    }
}

/// Parts of several files that came at the same time would drop each other where they come.
#[test]
fn files_to_one_contact_go_one_after_the_other_and_all_of_them_come() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (sender, receiver, mut state) = (open(here.path()), open(there.path()), State::default());
    let parcel = |number: u8| Parcel::new(&format!("{number}"), vec![number; 4000]).unwrap();
    (0..4).for_each(|number| sender.send(BOB, &parcel(number)).unwrap());
    sender.send(CAROL, &parcel(9)).unwrap();
    assert_eq!((sender.files_sent(), sender.sending().len()), (5, 2));
    let mut number = 0;
    while let Some((id, parcel, next)) = sender.sending().into_iter().find(|(id, ..)| *id == BOB) {
        number += 1;
        state.hears(BOB, number, &parcel.text(next));
        let taken = receiver.settle(&state.stand(BOB), None).unwrap();
        state.unshown.retain(|text| !taken.contains(&text.number));
        sender.handed(id, &parcel, next + 1).unwrap();
    }
    let kept = page(&receiver, BOB, &state);
    assert_eq!(
        kept.iter().filter(|past| past.file.as_ref().is_some_and(|file| file.path.is_some())).count(),
        4
    );
}

/// Numbers are given again by a state that was brought back, and what was said before it was is not what comes then.
#[test]
fn a_text_of_a_number_that_was_there_before_a_state_was_brought_back_is_another_one() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    for text in ["before", "after"] {
        state.unshown.clear();
        state.hears(BOB, 7, text);
        history.settle(&state.stand(BOB), None).unwrap();
    }
    let expected = [("before".to_owned(), PastMark::Read), ("after".to_owned(), PastMark::Unread)];
    assert_eq!(shown(&history, &state), expected);
}

/// What a file meets on the disk must not cost what was said.
#[test]
fn attack_a_file_that_cannot_be_put_anywhere_keeps_no_text_out_of_the_history() {
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    fs::write(home.path().join("received"), b"in the way").unwrap();
    let parcel = Parcel::new("a", vec![1]).unwrap();
    state.hears(BOB, 1, &parcel.text(0));
    state.hears(BOB, 2, &parcel.text(1));
    state.hears(BOB, 3, "a text");
    state.says(1, "an answer");
    assert!(history.settle(&state.stand(BOB), None).is_err());
    drop(history);
    let (history, _) = History::look(home.path(), &SEED);
    let texts: Vec<String> = shown(&history, &state).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["an answer", "a", "a text"]);
}

/// A person who has removed a file asks for it again.
#[test]
fn a_file_that_was_removed_comes_again() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let parcel = Parcel::new("a.txt", vec![1; 3000]).unwrap();
    let path = home.path().join("received/a.txt");
    for again in 0..3 {
        let mut state = State::default();
        for number in 0..=parcel.parts() {
            state.hears(BOB, 10 * again + u64::from(number), &parcel.text(number));
            let taken = history.settle(&state.stand(BOB), None).unwrap();
            state.unshown.retain(|text| !taken.contains(&text.number));
        }
        fs::remove_file(&path).unwrap();
    }
}

/// A member of a group chooses which number its reply names, and knows the numbers of its own texts.
#[test]
fn attack_a_member_cannot_have_its_own_words_shown_as_anothers() {
    use crate::daemon::reply::{Reference, Roster, Whose};
    let home = tempfile::tempdir().unwrap();
    let (history, mut state) = (open(home.path()), State::default());
    let mut says = |number: u64, from: &str, text: &str| {
        state.hears(BOB, number, text);
        state.unshown.last_mut().unwrap().from = from.to_owned();
    };
    says(5, "carol", "I owe you nothing");
    says(6, "mallory", "I owe you a thousand");
    let named = |whose, sequence, text: &str| Reference::to(whose, sequence, text).write("see above");
    says(7, "mallory", &named(Whose::Member(1), 6, "I owe you a thousand"));
    says(8, "mallory", &named(Whose::Mine, 5, "I owe you nothing"));
    says(9, "mallory", &named(Whose::Member(1), 5, "I owe you nothing"));
    let stand = Stand { roster: Roster::group(&["alice", "carol", "mallory"], 0), ..state.stand(BOB) };
    history.settle(&stand, None).unwrap();
    let quotes: Vec<_> = history.page(&stand, None, 9).0.into_iter().filter_map(|past| past.quote).collect();
    let quotes: Vec<_> = quotes
        .iter()
        .map(|quote| (quote.from.as_deref().unwrap(), quote.text.as_ref().map(|text| text.0.as_str())))
        .collect();
    assert_eq!(quotes, [("carol", None), ("mallory", None), ("carol", Some("I owe you nothing"))]);
}
