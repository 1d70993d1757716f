//! Cutting and putting together, without anybody who lies about what it is.

use std::collections::BTreeSet;

use super::{ANSWER, Answer, PAIR_CONTENT, REQUEST, Requests, part_of_answer, part_of_request};

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A block of eight rounds, of which the first may be lost to a knock, has all of them.
#[test]
fn seven_turns_say_all_parts() {
    let request = bytes(REQUEST.whole);
    assert_eq!((REQUEST.parts(), ANSWER.parts()), (6, 5));
    for first in (0..800).step_by(8).flat_map(|turn| [turn, turn + 1]) {
        let said: BTreeSet<u8> = (first..first + 7).map(|turn| part_of_request(&request, turn)[0]).collect();
        assert_eq!(said.len(), 6, "from turn {first}");
        // With what is said once in place of a part.
        let said: BTreeSet<_> = (first..first + 7).map(|turn| part_of_answer(&request, turn)).collect();
        assert_eq!(said.len(), 6, "from turn {first}");
    }
}

#[test]
fn what_was_cut_is_put_together_and_every_part_fills_its_message() {
    let (request, answer) = (bytes(REQUEST.whole), bytes(ANSWER.whole));
    let (mut requests, mut answers) = (Requests::default(), Answer::default());
    for turn in (0..6).rev() {
        let part = part_of_request(&request, turn);
        assert_eq!(part.len(), if turn == 5 { 222 } else { PAIR_CONTENT });
        let whole = requests.take(&part).unwrap();
        assert_eq!(whole.map(Vec::from), (turn == 0).then(|| request.clone()));
    }
    for turn in 0..5 {
        let part = part_of_answer(&answer, turn).unwrap();
        assert_eq!(part.len(), if turn == 4 { 229 } else { PAIR_CONTENT });
        assert_eq!(answers.take(&part).unwrap(), (turn == 4).then(|| answer.clone()));
    }
    assert!(answers.0.0.is_empty(), "kept after it was whole");
}

#[test]
fn what_is_no_part_is_refused_and_changes_nothing() {
    let (request, answer) = (bytes(REQUEST.whole), bytes(ANSWER.whole));
    let (mut requests, mut answers) = (Requests::default(), Answer::default());
    for turn in 0..5 {
        requests.take(&part_of_request(&request, turn)).unwrap();
        let part = part_of_request(&request, 5);
        let long = [&part[..], &[0]].concat();
        let numbered = |number: u8| [&[number], &part[1..]].concat();
        for wrong in [&part[..221], &long, &numbered(0), &numbered(6), &numbered(255), &part[..8], &[]] {
            assert!(requests.take(wrong).is_err());
        }
    }
    assert!(requests.take(&part_of_request(&request, 5)).unwrap().is_some());
    for turn in 0..4 {
        answers.take(&part_of_answer(&answer, turn).unwrap()).unwrap();
        let part = part_of_answer(&answer, 4).unwrap();
        for wrong in [&part[..228], &[&[0], &part[1..]].concat(), &[&[5], &part[1..]].concat(), &[]] {
            assert!(answers.take(wrong).is_err());
        }
    }
    assert!(answers.take(&part_of_answer(&answer, 4).unwrap()).unwrap().is_some());
}

/// Whatever somebody else has said under its name, a request that is said in a row is whole.
#[test]
fn six_parts_in_a_row_are_a_request() {
    let (request, mut garbage) = (bytes(REQUEST.whole), bytes(REQUEST.whole));
    garbage[8..].fill(7);
    for mask in 0..64_u32 {
        let mut requests = Requests::default();
        for turn in (0..6).filter(|turn| mask >> turn & 1 == 1) {
            let _ = requests.take(&part_of_request(&garbage, turn));
        }
        let mut whole = None;
        for turn in 0..6 {
            whole = requests.take(&part_of_request(&request, turn)).unwrap();
        }
        assert_eq!(whole.map(Vec::from), Some(request.clone()), "{mask:b}");
    }
}

/// A request is known by its own first bytes: under those of another one it is none.
#[test]
fn a_whole_under_another_name_is_refused() {
    let (request, mut requests) = (bytes(REQUEST.whole), Requests::default());
    for turn in 0..6 {
        let mut part = part_of_request(&request, turn);
        part[1] ^= 1;
        assert_eq!(requests.take(&part).is_err(), turn == 5);
    }
}
