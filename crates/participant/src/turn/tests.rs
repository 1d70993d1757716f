use core::time::Duration;

use sotto_protocol::{Directory, Round, RoundMode};
use sotto_wire::Address;

use super::{Pause, Turn, draw};
use sotto_session::ConnectionSettings;

fn turn_of(nodes: &str, mode: RoundMode) -> Turn {
    let address: Address = format!("sotto://{nodes}/{}", "a".repeat(52)).parse().unwrap();
    Turn::new(ConnectionSettings::new(address), [7; 32], mode, None)
}

fn turn(nodes: &str) -> Turn {
    turn_of(nodes, RoundMode::Deadline)
}

fn names(nodes: impl IntoIterator<Item = ConnectionSettings>) -> Vec<String> {
    nodes.into_iter().map(|node| node.address.authority()).collect()
}

fn rest(turn: &mut Turn) -> Vec<String> {
    names(core::iter::from_fn(|| turn.next()))
}

#[test]
fn after_a_loss_the_others_are_asked_in_order_and_home_before_all() {
    let mut turn = turn("a:1,b:1,c:1");
    let all = rest(&mut turn);
    assert_eq!(all.len(), 3);
    assert!(turn.has_others());
    assert!(turn.next().is_none());
    // The session was with the last.
    turn.others();
    assert_eq!(rest(&mut turn), all[..2]);
    // And now with the second.
    turn.others();
    assert_eq!(rest(&mut turn), [all[0].clone(), all[2].clone()]);
    turn.again();
    assert_eq!(rest(&mut turn), all);
    turn.again();
    turn.end();
    assert!(turn.next().is_none());
}

#[test]
fn a_node_alone_is_asked_once_and_then_after_a_pause() {
    let mut turn = turn("a:1");
    assert!(!turn.has_others());
    assert_eq!(rest(&mut turn).len(), 1);
    turn.others();
    assert!(turn.next().is_none() && turn.stand_ins().is_empty());
}

#[test]
fn a_stand_in_is_taken_once_in_a_turn() {
    let mut turn = turn("a:1,b:1,c:1");
    let home = turn.next().unwrap();
    let all = names(turn.stand_ins());
    assert!(!all.contains(&home.address.authority()));
    turn.others();
    let [second, third] = [0, 1].map(|place| turn.stand_ins()[place].address.clone());
    assert!(turn.take(&third) && !turn.take(&third) && !turn.take(&home.address));
    assert_eq!(names(turn.stand_ins()), [home.address.authority(), second.authority()]);
    assert_eq!(rest(&mut turn), [second.authority()]);
}

#[test]
fn a_directory_comes_before_the_address_and_takes_nothing_from_it() {
    let mut turn = turn("a:1,b:1");
    // The last three are no nodes, or are not written as nodes are.
    let nodes = ["b:1", "c:1", "C:2", "none", "d:0"].map(str::to_owned);
    turn.learn(&Directory::new(1, Round(1), nodes).unwrap());
    turn.again();
    let all = rest(&mut turn);
    assert_eq!(all.len(), 3);
    assert_eq!(all[2], "a:1");
    assert!(all[..2].contains(&"b:1".to_owned()) && all[..2].contains(&"c:1".to_owned()));
}

#[test]
fn connections_are_probed_more_often_where_there_are_others_and_less_hastily_where_that_fails() {
    let timeouts = |turn: &Turn| {
        let settings = &turn.to(turn.nodes[0].clone());
        (settings.keep_alive.as_secs(), settings.keep_alive_timeout.as_secs())
    };
    assert_eq!(timeouts(&turn("a:1")), (15, 15));
    assert_eq!(timeouts(&turn_of("a:1,b:1", RoundMode::ClosedLoop)), (15, 15));
    let mut turn = turn("a:1,b:1");
    let lasting = [1, 1, 1, 1, 600, 600, 600, 600].map(|seconds| {
        turn.lasted(Duration::from_secs(seconds));
        timeouts(&turn)
    });
    assert_eq!(lasting, [4, 8, 15, 15, 7, 3, 2, 2].map(|timeout| (1, timeout)));
}

/// From the text of the protocol, for other implementations.
#[test]
fn pauses_are_the_published_ones_and_spread_accounts() {
    let spread = Duration::from_secs(60);
    let drawn = |account: u8, pause, number| draw(&[account; 32], pause, number, spread).as_millis();
    assert_eq!([1, 2, 3].map(|number| drawn(7, Pause::BetweenTurns, number)), PUBLISHED[0]);
    assert_eq!([1, 2, 3].map(|number| drawn(7, Pause::BeforeStandIn, number)), PUBLISHED[1]);
    let mut turn = turn("a:1,b:1");
    let pauses: Vec<_> = (0..1000).map(|_| turn.pause(Duration::from_millis(500)).as_millis()).collect();
    assert!(pauses.iter().all(|pause| (250..750).contains(pause)));
    let mut quarters = [0; 4];
    (0..200).for_each(|account| quarters[(drawn(account, Pause::BeforeStandIn, 1) / 15_000) as usize] += 1);
    assert!(quarters.iter().all(|quarter| (30..70).contains(quarter)), "{quarters:?}");
}

const PUBLISHED: [[u128; 3]; 2] = [[27_806, 50_979, 11_499], [38_738, 42_009, 21_593]];
