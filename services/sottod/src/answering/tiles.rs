//! Which requests are answered together, and which of them next.

use core::time::Duration;
use std::collections::BTreeMap;

use sotto_protocol::Round;
use tokio::time::Instant;

/// How requests gather.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Clients in a tile, at most.
    pub(super) most: usize,
    /// How long a tile that is not full waits for more.
    pub(super) patience: Duration,
}

/// Requests that wait, by round.
///
/// Rounds come in the order in which they end, the requests of one in the order in which they came.
pub(super) struct Tiles<M> {
    gathering: Gathering,
    waiting: BTreeMap<Round, Waiting<M>>,
}

struct Waiting<M> {
    full: Vec<Vec<M>>,
    /// When the first of those came that do not fill a tile yet.
    since: Instant,
    rest: Vec<M>,
}

/// What a worker does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<M> {
    /// It answers these. There may be more.
    Tile(Vec<M>),
    /// It looks again at this time, or when something comes.
    Wait(Option<Instant>),
}

impl<M> Tiles<M> {
    pub(super) fn new(gathering: Gathering) -> Self {
        Self { gathering, waiting: BTreeMap::new() }
    }

    /// One more request for a round. Those of the same round that nobody waits for any more make room.
    pub(super) fn join(&mut self, round: Round, member: M, now: Instant, waits: impl Fn(&M) -> bool) {
        let new = || Waiting { full: Vec::new(), since: now, rest: Vec::new() };
        let waiting = self.waiting.entry(round).or_insert_with(new);
        waiting.rest.retain(&waits);
        waiting.full.iter_mut().for_each(|tile| tile.retain(&waits));
        waiting.full.retain(|tile| !tile.is_empty());
        if waiting.rest.is_empty() {
            waiting.since = now;
        }
        waiting.rest.push(member);
        if waiting.rest.len() >= self.gathering.most.max(1) {
            waiting.full.push(core::mem::take(&mut waiting.rest));
        }
    }

    /// Takes the next tile out: a full one, or one that has waited long enough, of the round that ends first.
    pub(super) fn next(&mut self, now: Instant) -> Next<M> {
        let Gathering { patience, .. } = self.gathering;
        let due = |waiting: &Waiting<M>| {
            !waiting.full.is_empty() || now.saturating_duration_since(waiting.since) >= patience
        };
        let first = self.waiting.iter().find(|(_, waiting)| due(waiting)).map(|(round, _)| *round);
        let Some(round) = first else {
            return Next::Wait(self.waiting.values().map(|waiting| waiting.since + patience).min());
        };
        let Some(waiting) = self.waiting.get_mut(&round) else { return Next::Wait(None) };
        let tile = match waiting.full.is_empty() {
            true => core::mem::take(&mut waiting.rest),
            false => waiting.full.remove(0),
        };
        if waiting.full.is_empty() && waiting.rest.is_empty() {
            self.waiting.remove(&round);
        }
        Next::Tile(tile)
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};

    use super::{Duration, Gathering, Instant, Next, Round, Tiles};

    fn tiles() -> (Tiles<u8>, Instant) {
        let patience = Duration::from_millis(100);
        (Tiles::new(Gathering { most: 3, patience }), Instant::now())
    }

    #[test]
    fn a_full_tile_is_answered_at_once_and_another_one_when_it_has_waited() {
        let (mut tiles, now) = tiles();
        assert_eq!(tiles.next(now), Next::Wait(None));
        for member in 0..4 {
            tiles.join(Round(7), member, now, |_| true);
        }
        assert_eq!(tiles.next(now), Next::Tile(vec![0, 1, 2]));
        let end = now + Duration::from_millis(100);
        assert_eq!(tiles.next(end - Duration::from_millis(1)), Next::Wait(Some(end)));
        // Who comes while nobody has time joins it.
        tiles.join(Round(7), 4, end, |_| true);
        assert_eq!(tiles.next(end), Next::Tile(vec![3, 4]));
        assert!(tiles.is_empty());
        // The next one waits anew.
        tiles.join(Round(7), 5, end, |_| true);
        assert_eq!(tiles.next(end), Next::Wait(Some(end + Duration::from_millis(100))));
    }

    #[test]
    fn rounds_that_end_first_come_first() {
        let (mut tiles, now) = tiles();
        for member in 0..3 {
            tiles.join(Round(9), member, now, |_| true);
        }
        tiles.join(Round(8), 10, now, |_| true);
        assert_eq!(tiles.next(now), Next::Tile(vec![0, 1, 2]), "round 8 still gathers");
        for member in 3..9 {
            tiles.join(Round(9), member, now, |_| true);
        }
        let later = now + Duration::from_millis(100);
        assert_eq!(tiles.next(later), Next::Tile(vec![10]));
        assert_eq!(tiles.next(later), Next::Tile(vec![3, 4, 5]), "in the order in which they came");
        assert_eq!(tiles.next(later), Next::Tile(vec![6, 7, 8]));
        assert!(tiles.is_empty());
    }

    /// Any order of arrivals, departures and answering, against a list that keeps the rules one by one: rounds in the order in
    /// which they end, of a round those who came first, at most three, and fewer only when the first has waited long enough.
    #[test]
    fn any_schedule_gives_what_a_plain_list_gives() {
        for seed in 0..300_u64 {
            let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
            let (mut tiles, start) = tiles();
            let mut now = start;
            // Round, member, and when it came.
            let mut list: Vec<(u64, u8, Instant)> = Vec::new();
            let mut gone: BTreeSet<u8> = BTreeSet::new();
            for member in 0..60_u8 {
                now += Duration::from_millis(rng.random_range(0..60));
                match rng.random_range(0..10) {
                    0..6 => {
                        let round = rng.random_range(1..4);
                        tiles.join(Round(round), member, now, |member| !gone.contains(member));
                        list.retain(|(of, member, _)| *of != round || !gone.contains(member));
                        list.push((round, member, now));
                    }
                    6 => gone.extend(list.get(rng.random_range(0..list.len().max(1))).map(|entry| entry.1)),
                    _ => {
                        let answered = match tiles.next(now) {
                            Next::Tile(tile) => tile,
                            Next::Wait(_) => Vec::new(),
                        };
                        // Nobody is answered twice, or out of turn, or without having come.
                        let mut rounds = answered.iter().map(|member| {
                            let at = list.iter().position(|entry| entry.1 == *member).unwrap();
                            (list[at].0, at)
                        });
                        if let Some((round, first)) = rounds.next() {
                            let of_round = |entry: &&(u64, u8, Instant)| entry.0 == round;
                            let expected: Vec<u8> = list
                                .iter()
                                .filter(of_round)
                                .map(|entry| entry.1)
                                .take(answered.len())
                                .collect();
                            assert_eq!(answered, expected, "seed {seed}");
                            assert!(answered.len() <= 3, "seed {seed}");
                            let waited = now - list[first].2 >= Duration::from_millis(100);
                            // A tile that was full, or has waited, goes on when somebody leaves it.
                            let complete = answered.len() == 3 || !gone.is_empty();
                            assert!(complete || waited, "seed {seed}: {answered:?}");
                            assert!(rounds.all(|(of, _)| of == round), "seed {seed}");
                        } else {
                            let oldest = list.iter().map(|entry| entry.2).min();
                            let full = (1..4).any(|round| {
                                list.iter().filter(|entry| entry.0 == round).count() >= 3 && gone.is_empty()
                            });
                            assert!(!full, "seed {seed}: a full tile waits");
                            let due = oldest.is_some_and(|since| now - since >= Duration::from_millis(100));
                            assert!(!due || !gone.is_empty(), "seed {seed}: somebody waits too long");
                        }
                        list.retain(|entry| !answered.contains(&entry.1));
                    }
                }
            }
            // In the end everybody is answered who came and was not found gone.
            now += Duration::from_millis(100);
            let mut left: Vec<u8> = list.iter().map(|entry| entry.1).collect();
            while let Next::Tile(tile) = tiles.next(now) {
                left.retain(|member| !tile.contains(member));
            }
            assert!(left.is_empty() && tiles.is_empty(), "seed {seed}: {left:?}");
        }
    }

    #[test]
    fn whoever_has_gone_makes_room() {
        let (mut tiles, now) = tiles();
        for member in 0..5 {
            tiles.join(Round(7), member, now, |_| true);
        }
        tiles.join(Round(7), 5, now, |member| *member == 1);
        tiles.join(Round(7), 6, now, |_| true);
        assert_eq!(tiles.next(now), Next::Tile(vec![1]));
        assert_eq!(tiles.next(now + Duration::from_millis(100)), Next::Tile(vec![5, 6]));
        assert!(tiles.is_empty());
    }
}
