//! Delivery in groups, where several read what one says, each as far as it has got.
//!
//! A sender in a group never numbers anew: one reader who lies would make it repeat everything to all the others, as often
//! as it likes. Readers follow the sender instead. A numbered message carries the check of those before it, and is taken
//! behind exactly these: behind all that has come, or, if the sender has gone back, at the place where what it says now
//! parts from what it said before. The oldest message that a sender keeps ([`FIRST`]) is taken wherever a reader stands.
//! So what a reader has after a message follows from that message alone.
//!
//! An acknowledgement is the check of what a reader has. It agrees with that of a message which the sender keeps, or of the
//! newest that it has forgotten, or says nothing: a number alone would be true of other messages, too.

use core::cmp::Ordering;

use super::inbox::Partial;
use super::{Delivered, Inbox, Item, Outbox, WINDOW, WentBack, check};
use crate::message::{FIRST, MORE};

/// Taken messages whose checks are known: a window of what may be repeated, and what is late by as much.
const KNOWN: u32 = 2 * WINDOW;

impl Item {
    /// What is kept of a message that was taken.
    fn taken(&self, check: u32) -> Self {
        Self::received(check, self.sequence, self.kind, self.flags, &[])
    }
}

impl Outbox {
    /// The check of all that was sent.
    pub(crate) fn head(&self) -> u32 {
        let newest = self.items.iter().rev().find(|item| item.sent.is_some());
        newest.map_or(self.forgotten.1, |item| item.check)
    }

    /// Up to which number a member has what was said, if what it has is this client's.
    pub(crate) fn agrees(&self, check: u32) -> Option<u32> {
        let sent = self.items.iter().find(|item| item.sent.is_some() && item.check == check);
        let forgotten = Some(self.forgotten).filter(|(_, forgotten)| *forgotten == check);
        sent.map(|item| item.sequence).or(forgotten.map(|(sequence, _)| sequence))
    }

    /// All members are taken to have everything up to this number.
    pub(crate) fn forgotten(&self) -> u32 {
        self.forgotten.0
    }

    /// Whether anything behind this number was sent and has not arrived with all, or would be if there were room.
    pub(crate) fn is_under_way_after(&self, sequence: u32) -> bool {
        self.unacknowledged() >= WINDOW as usize
            || self.pending().any(|item| item.sent.is_some() && item.sequence > sequence)
    }

    /// A member has something else than was said, or less than it had. The person is told of it once, until something more
    /// has arrived with all: a member who lies must not be able to warn it for ever.
    pub(crate) fn differ(&mut self) -> Result<(), WentBack> {
        if core::mem::replace(&mut self.unchecked, true) { Ok(()) } else { Err(WentBack) }
    }

    /// As [`Outbox::acknowledge`], for what all members have.
    pub(crate) fn all_have(&mut self, sequence: u32) -> Vec<u32> {
        let before = self.acknowledged;
        if sequence < before && self.forgotten.0 < before {
            // A member has gone back, and may need the beginning of a text that has not arrived as a whole.
            self.stray.get_or_insert(self.forgotten);
        }
        let texts = self.acknowledge(sequence);
        self.unchecked &= self.acknowledged == before;
        texts
    }
}

impl Inbox {
    /// Takes a numbered message of a member, [behind](Item::received) others, and returns those that are now complete,
    /// in order; and whether the member has gone back, or this client has.
    pub(crate) fn follow(&mut self, item: Item) -> (Vec<Delivered>, Result<(), WentBack>) {
        let Some(before) = item.sequence.checked_sub(1).filter(|_| !self.full) else {
            return (Vec::new(), Ok(()));
        };
        self.owed = true;
        let same = check(item.check, &item);
        if self.complete > 0 && self.check == 0 {
            // From a time without checks: the member's are taken for right.
            if item.sequence == self.complete {
                self.check = same;
            }
            if item.sequence <= self.complete {
                return (Vec::new(), Ok(()));
            }
            if before == self.complete {
                self.check = item.check;
            }
        }
        if self.check_at(item.sequence) == Some(same) {
            return (Vec::new(), Ok(()));
        }
        let fits = self.check_at(before) == Some(item.check);
        if !fits && item.flags & FIRST == 0 {
            let ahead = item.sequence.saturating_sub(self.complete);
            if (1..=WINDOW).contains(&ahead) {
                self.near.insert(item.sequence, item);
            }
            return (Vec::new(), Ok(()));
        }
        let in_order = if fits && before == self.complete {
            Ok(())
        } else {
            self.stand_at(before, item.check);
            Err(WentBack)
        };
        (self.take_behind(item), in_order)
    }

    /// Takes the check of all that a member has sent, by its newest word. If that is what this client has had already, and
    /// more, the member has gone back, and may never say anything else.
    pub(crate) fn follow_back(&mut self, head: u32) -> Result<(), WentBack> {
        // The rest of a text is still to come, and is the same as it was.
        let ends = |item: &Item| item.check == head && item.flags & MORE == 0;
        let past = self.near.range(..self.complete).find(|(_, item)| ends(item)).map(|(number, _)| *number);
        let Some(past) = past.filter(|_| head != self.check) else { return Ok(()) };
        self.stand_at(past, head);
        self.owed = true;
        Err(WentBack)
    }

    /// The check of all messages up to one of the last that were taken.
    fn check_at(&self, sequence: u32) -> Option<u32> {
        match sequence.cmp(&self.complete) {
            Ordering::Less => self.near.get(&sequence).map(|item| item.check),
            Ordering::Equal => Some(self.check),
            Ordering::Greater => None,
        }
    }

    /// Goes back, or passes over what does not come.
    fn stand_at(&mut self, sequence: u32, check: u32) {
        let (taken, ahead) = (self.complete.min(sequence), self.complete.max(sequence));
        let last = sequence.saturating_add(WINDOW);
        self.near.retain(|number, _| *number <= taken || (*number > ahead && *number <= last));
        (self.complete, self.check, self.partial) = (sequence, check, Partial::default());
    }

    fn take_behind(&mut self, item: Item) -> Vec<Delivered> {
        let mut delivered = Vec::new();
        let mut next = Some(item);
        while let Some(item) = next {
            (self.complete, self.check) = (item.sequence, check(item.check, &item));
            delivered.extend(self.assemble(&item));
            self.near.insert(item.sequence, item.taken(self.check));
            next = self.complete.checked_add(1).and_then(|next| self.near.remove(&next));
            next = next.filter(|item| item.check == self.check);
        }
        let oldest = self.complete.saturating_sub(KNOWN);
        self.near.retain(|number, _| *number > oldest);
        delivered
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::{Inbox, Item, KNOWN, Outbox, WINDOW, check};
    use crate::Round;
    use crate::message::{FIRST, Kind, MORE};
    use crate::reaction::REACTION_ROUNDS;

    /// A message on its way, as its reader gets it.
    fn on_its_way(item: &Item) -> Item {
        Item::received(item.before(), item.sequence, item.kind, item.flags, &item.content)
    }

    fn read(inbox: &mut Inbox, item: &Item) -> (usize, bool) {
        let (delivered, in_order) = inbox.follow(on_its_way(item));
        (delivered.len(), in_order.is_err())
    }

    /// A sender that numbers its messages as it likes, and names any checks, learns by the answer to a block which message was
    /// the last to change what the reader has, whose head was, or behind which message the reader found something that it
    /// had kept: one of 25 things, where which of eight messages were read are 256.
    #[test]
    fn an_answer_tells_one_message_of_its_block() {
        for seed in 0..40 {
            let mut coins = ChaCha20Rng::seed_from_u64(seed);
            let mut coin = |below: usize| usize::try_from(coins.next_u64()).unwrap() % below;
            let (mut inbox, mut outbox) = (Inbox::default(), Outbox::default());
            let mut checks = vec![(0, 0)];
            for _ in 0..12 {
                outbox.push(Kind::Text, b"x", 8).unwrap();
                read(&mut inbox, &outbox.next(Round(0), false).unwrap());
                checks.push((inbox.complete, inbox.check));
            }
            let mut any = |checks: &mut Vec<(u32, u32)>, flags: u8| {
                // Behind a message, and sometimes under another number than would follow.
                let (place, before) = checks[coin(checks.len())];
                let sequence = place + 1 + u32::try_from(coin(4) / 3 * coin(5)).unwrap();
                let flags = [0, flags, MORE, flags | MORE][coin(4)];
                let item = Item::received(before, sequence, Kind::Text, flags, &[coin(3) as u8]);
                checks.push((sequence, check(before, &item)));
                (item, checks[coin(checks.len())].1)
            };
            let mut messages: Vec<(Item, u32)> =
                (0..REACTION_ROUNDS).map(|_| any(&mut checks, FIRST)).collect();
            let kept: Vec<(Item, u32)> = (0..6).map(|_| any(&mut checks, 0)).collect();
            for (item, _) in kept.iter().filter(|(item, _)| item.sequence > 13) {
                read(&mut inbox, item);
            }
            // Of those that are read, none only repeats what the reader has.
            messages.retain(|(item, _)| inbox.check_at(item.sequence) != Some(check(item.before(), item)));
            inbox.begin(Round(REACTION_ROUNDS));
            let inbox = postcard::to_allocvec(&inbox).unwrap();
            for heads in [false, true] {
                let mut answers = std::collections::BTreeSet::new();
                for read_of_it in 0_u32..1 << messages.len() {
                    let mut inbox: Inbox = postcard::from_bytes(&inbox).unwrap();
                    for (number, (item, head)) in messages.iter().enumerate() {
                        if read_of_it >> number & 1 == 1 {
                            read(&mut inbox, item);
                            if heads {
                                let _ = inbox.follow_back(*head);
                            }
                        }
                    }
                    inbox.begin(Round(2 * REACTION_ROUNDS));
                    answers.insert(inbox.acknowledgement().1);
                }
                let most = if heads { 3 * messages.len() + 1 } else { 2 * messages.len() + 1 };
                assert!(answers.len() <= most, "{} answers, seed {seed}", answers.len());
            }
        }
    }

    /// What of a block shows in the next one, if texts wait for the acknowledgements of the member who wrote it: what the
    /// reader has, and what it still keeps. In random attempts.
    #[test]
    fn an_answer_while_texts_wait_is_counted() {
        let mut worst = 0;
        for seed in 0..1000 {
            let mut coins = ChaCha20Rng::seed_from_u64(seed);
            let mut coin = |below: usize| usize::try_from(coins.next_u64()).unwrap() % below;
            let (mut inbox, mut outbox, mut other) = (Inbox::default(), Outbox::default(), Outbox::default());
            let (mut checks, mut heads) = (vec![(0, 0)], vec![0]);
            for _ in 0..12 {
                other.push(Kind::Text, b"x", 8).unwrap();
                read(&mut inbox, &other.next(Round(0), false).unwrap());
                checks.push((inbox.complete, inbox.check));
            }
            for _ in 0..16 {
                outbox.push(Kind::Text, b"y", 8).unwrap();
                outbox.next(Round(0), false).unwrap();
                heads.push(outbox.head());
            }
            // A message, the head and the acknowledgement beside it.
            let messages: Vec<(Item, u32, u32)> = (0..8_usize)
                .map(|number| {
                    let (place, before) = checks[coin(checks.len())];
                    let item = Item::received(before, place + 1, Kind::Text, FIRST, &[number as u8]);
                    checks.push((place + 1, check(before, &item)));
                    let own = checks[coin(checks.len())].1;
                    let has = if coin(3) == 0 { heads[coin(17)] } else { heads[16 - 2 * number] };
                    (item, own, has)
                })
                .collect();
            inbox.begin(Round(REACTION_ROUNDS));
            outbox.begin(Round(REACTION_ROUNDS));
            let state = postcard::to_allocvec(&(&inbox, &outbox)).unwrap();
            let mut answers = std::collections::BTreeSet::new();
            for read_of_it in 0_u32..256 {
                let (mut inbox, mut outbox): (Inbox, Outbox) = postcard::from_bytes(&state).unwrap();
                for (number, (item, head, has)) in messages.iter().enumerate() {
                    if read_of_it >> number & 1 == 1 {
                        // As `Group::receive` does.
                        if let Some(has) = outbox.agrees(*has) {
                            outbox.all_have(has);
                        }
                        read(&mut inbox, item);
                        let _ = inbox.follow_back(*head);
                    }
                }
                inbox.begin(Round(2 * REACTION_ROUNDS));
                outbox.begin(Round(2 * REACTION_ROUNDS));
                let first = outbox.next(Round(2 * REACTION_ROUNDS), false);
                let said = first.map(|item| (item.sequence, item.flags, item.check));
                answers.insert((inbox.acknowledgement().1, said));
            }
            worst = worst.max(answers.len());
        }
        println!("{worst} answers, {:.1} bits", f64::from(u32::try_from(worst).unwrap()).log2());
        assert_eq!(worst, 49);
    }

    #[test]
    fn whatever_a_member_says_little_is_kept_of_it() {
        let mut coins = ChaCha20Rng::seed_from_u64(1);
        let mut inbox = Inbox::default();
        for number in 0..4000_u32 {
            let coin = coins.next_u32();
            let sequence = if number < 2000 { 1 + number + coin % 20 } else { 4000 - number + coin % 20 };
            let flags = if coin >> 8 & 3 == 0 { FIRST } else { 0 };
            let before = if coin >> 10 & 1 == 0 { inbox.check } else { coin };
            let item = Item::received(before, sequence, Kind::Text, flags, b"x");
            let _ = inbox.follow(item);
            assert!(inbox.near.len() <= (KNOWN + WINDOW) as usize);
        }
        let last = Item::received(1, u32::MAX, Kind::Text, FIRST, b"x");
        assert_eq!(read(&mut inbox, &last), (1, true));
        assert_eq!(inbox.complete, u32::MAX);
        let beyond = Item::received(inbox.check, 0, Kind::Text, FIRST, b"x");
        assert_eq!(read(&mut inbox, &beyond), (0, false));
    }

    /// As a box of an earlier round that is read late says it.
    #[test]
    fn what_is_late_or_comes_again_is_told_once_and_takes_nobody_back() {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let mut all: Vec<Item> = Vec::new();
        for number in 0..100_u8 {
            outbox.push(Kind::Text, &[number], 8).unwrap();
            let item = outbox.next(Round(REACTION_ROUNDS * u64::from(number)), false).unwrap();
            assert_eq!((item.sequence, read(&mut inbox, &item)), (u32::from(number) + 1, (1, false)));
            assert_eq!(outbox.agrees(inbox.check), Some(item.sequence));
            all.push(item);
            for late in all.iter().rev().take(WINDOW as usize + 8) {
                assert_eq!(read(&mut inbox, late), (0, false), "{} {}", number, late.sequence);
            }
            outbox.all_have(u32::from(number));
            outbox.begin(Round(REACTION_ROUNDS * u64::from(number) + REACTION_ROUNDS));
        }
        assert_eq!((inbox.complete, inbox.near.len()), (100, KNOWN as usize));
    }

    /// Who is about to lose the keys must not learn a check of what waits until it has lost them.
    #[test]
    fn nothing_is_shown_of_what_was_not_sent() {
        let mut outbox = Outbox::default();
        outbox.push(Kind::Text, b"a", 8).unwrap();
        assert_eq!((outbox.head(), outbox.agrees(0)), (0, Some(0)));
        let item = outbox.next(Round(0), false).unwrap();
        let head = check(0, &item);
        outbox.push(Kind::Text, b"b", 8).unwrap();
        let unsent = outbox.items.back().unwrap().check;
        assert_eq!((outbox.head(), outbox.agrees(head), outbox.agrees(unsent)), (head, Some(1), None));
    }

    /// Of a sender that keeps nothing of the first messages any more a reader who lacks them goes on with the oldest, and with those
    /// behind it that it has already; and what it never took it is never taken to have had.
    #[test]
    fn who_passes_over_what_does_not_come_keeps_what_is_behind_it() {
        let (mut outbox, mut inbox) = (Outbox::default(), Inbox::default());
        let mut all = Vec::new();
        for number in 0..7_u8 {
            outbox.push(Kind::Text, &[number], 8).unwrap();
            all.push(on_its_way(&outbox.next(Round(0), false).unwrap()));
        }
        assert_eq!(read(&mut inbox, &all[0]), (1, false));
        for early in [2, 3, 5, 6] {
            assert_eq!(read(&mut inbox, &all[early]), (0, false));
        }
        // The first four are forgotten, and so the fifth is the oldest.
        outbox.all_have(4);
        outbox.begin(Round(REACTION_ROUNDS));
        let mut oldest = outbox.send(0, Round(REACTION_ROUNDS)).unwrap();
        assert_eq!((oldest.sequence, oldest.flags & FIRST), (5, FIRST));
        assert_eq!(read(&mut inbox, &oldest), (3, true));
        assert_eq!((inbox.complete, inbox.check), (7, outbox.head()));
        // The reader has had all of one message, and of the others that were skipped none: no head of theirs takes it back.
        for skipped in [&all[2], &all[3], &all[4]] {
            assert_eq!(inbox.follow_back(skipped.before()), Ok(()), "before {}", skipped.sequence);
        }
        assert_eq!(inbox.complete, 7);
        // A sender that has gone back, and says something else now.
        oldest.content.push(9);
        assert_eq!(read(&mut inbox, &oldest), (1, true));
        assert_eq!(inbox.complete, 5);
        assert_eq!(inbox.follow_back(all[1].before()), Err(super::WentBack));
        assert_eq!((inbox.complete, inbox.check), (1, all[1].before()));
    }

    /// The reader has had messages without any check, whose numbers the sender repeats and goes on from.
    #[test]
    fn of_a_time_without_checks_the_senders_are_taken_for_right() {
        let of_before = |complete| Inbox { complete, ..Inbox::default() };
        let said = |sequence, before| Item::received(before, sequence, Kind::Text, 0, b"x");
        let after = |item: &Item| check(item.before(), item);
        // The next is taken behind whatever its sender says that comes before.
        let (mut inbox, next) = (of_before(2), said(3, 5));
        assert_eq!(read(&mut inbox, &next), (1, false));
        assert_eq!((inbox.complete, inbox.check), (3, after(&next)));
        // The last one is known by its repetition, and by nothing else.
        let (mut inbox, last) = (of_before(2), said(2, 4));
        assert_eq!(read(&mut inbox, &said(1, 0)), (0, false));
        assert_eq!((inbox.complete, inbox.check), (2, 0));
        assert_eq!(read(&mut inbox, &last), (0, false));
        assert_eq!((inbox.complete, inbox.check), (2, after(&last)));
        assert_eq!(read(&mut inbox, &said(3, 5)), (0, false), "that follows something else");
        assert_eq!(read(&mut inbox, &said(3, after(&last))), (1, false));
        // One that is early waits.
        let mut inbox = of_before(2);
        assert_eq!(read(&mut inbox, &said(4, 5)), (0, false));
        assert_eq!((inbox.complete, inbox.check), (2, 0));
        // With nothing before there is nothing to take for right.
        assert_eq!(read(&mut of_before(0), &said(1, 5)), (0, false));
    }

    /// A sender that has gone back by one message is followed, and not taken to have said what it said before.
    #[test]
    fn another_message_under_the_last_number_takes_its_place() {
        let mut inbox = Inbox::default();
        let said =
            |sequence, before, content: &[u8]| Item::received(before, sequence, Kind::Text, 0, content);
        let first = said(1, 0, b"a");
        let after = check(0, &first);
        assert_eq!(read(&mut inbox, &first), (1, false));
        assert_eq!(read(&mut inbox, &said(2, after, b"b")), (1, false));
        let other = said(2, after, b"c");
        assert_eq!(read(&mut inbox, &other), (1, true));
        assert_eq!((inbox.complete, inbox.check), (2, check(after, &other)));
    }

    /// What was said last of all that may be lost shows by this number and the room there is.
    #[test]
    fn what_is_under_way_is_sent_and_not_with_all() {
        let mut outbox = Outbox::default();
        let under_way = |outbox: &Outbox| [0, 1, 2].map(|has| outbox.is_under_way_after(has));
        for _ in 0..WINDOW + 1 {
            outbox.push(Kind::Text, b"x", 8).unwrap();
        }
        assert_eq!(under_way(&outbox), [false; 3]);
        outbox.next(Round(0), false);
        assert_eq!(under_way(&outbox), [true, false, false]);
        outbox.next(Round(0), false);
        assert_eq!(under_way(&outbox), [true, true, false]);
        (2..WINDOW).for_each(|_| drop(outbox.next(Round(0), false)));
        assert_eq!((outbox.is_under_way_after(WINDOW - 1), outbox.unacknowledged()), (true, WINDOW as usize));
        assert!(outbox.is_under_way_after(WINDOW), "there is no room for what waits");
        outbox.all_have(1);
        assert_eq!([WINDOW - 1, WINDOW].map(|has| outbox.is_under_way_after(has)), [true, false]);
    }

    /// A member who lies must not be able to warn the person for ever, and one who has gone back is told of.
    #[test]
    fn who_differs_is_told_once_until_more_has_arrived() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.push(Kind::Text, b"x", 8).unwrap();
            outbox.next(Round(0), false);
        }
        let told = |outbox: &mut Outbox| outbox.differ().is_err();
        assert_eq!([told(&mut outbox), told(&mut outbox)], [true, false]);
        assert!(outbox.all_have(0).is_empty());
        assert!(!told(&mut outbox), "nothing has arrived since");
        assert_eq!(outbox.all_have(2), [1, 2]);
        assert_eq!([told(&mut outbox), told(&mut outbox)], [true, false]);
        // One with less than all had: nothing more is taken for arrived in this block, and what is kept is said again in the next.
        outbox.all_have(2);
        assert!(outbox.all_have(3) == [3] && outbox.all_have(1).is_empty());
        outbox.push(Kind::Text, b"x", 8).unwrap();
        outbox.next(Round(0), false);
        assert!(outbox.all_have(4).is_empty());
        outbox.begin(Round(REACTION_ROUNDS));
        assert_eq!((outbox.acknowledged(), outbox.forgotten()), (3, 3));
        // What is forgotten nobody needs again: then nothing is held up, as little as by one who has the same as before.
        assert!(outbox.all_have(2).is_empty() && outbox.all_have(3).is_empty());
        assert_eq!(outbox.all_have(4), [4]);
    }
}
