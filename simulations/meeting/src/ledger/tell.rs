//! What is printed: a line a round, and sums.

use core::fmt;
use core::time::Duration;

use serde::Serialize;

/// What became of a round.
#[derive(Serialize)]
pub(super) struct Line {
    pub(super) round: u64,
    /// How many have deposited.
    pub(super) clients: u64,
    pub(super) acknowledged: u64,
    pub(super) retrievable: u64,
    pub(super) lost: u64,
    pub(super) unreached: u64,
    /// Whether the box of every client was acknowledged and came back.
    pub(super) complete: bool,
    /// How long after its end it could be retrieved, s, and at which node, counted from 1, that was heard first.
    pub(super) ready_s: Option<f64>,
    pub(super) node: Option<usize>,
}

/// What became of all rounds.
#[derive(Clone, Default, Serialize)]
pub(super) struct Sum {
    pub(super) rounds: u64,
    /// Rounds in which the box of every client was acknowledged and came back.
    pub(super) complete: u64,
    pub(super) acknowledged: u64,
    pub(super) retrievable: u64,
    pub(super) lost: u64,
    pub(super) unreached: u64,
    /// Longest time between the ends of two complete rounds.
    #[serde(rename = "longest_s", serialize_with = "seconds")]
    pub(super) longest: Duration,
    /// What is known of manifests.
    pub(super) manifests: Compared,
}

/// How far nodes say the same.
#[derive(Clone, Default, Serialize)]
pub(super) struct Compared {
    pub(super) nodes: usize,
    /// The newest round of which all nodes have the same manifest, how many there are until then, and of how many of these all
    /// nodes have the same.
    pub(super) newest: u64,
    pub(super) rounds: usize,
    pub(super) same: usize,
    /// Rounds of which two nodes have different ones.
    pub(super) different: u64,
}

impl Line {
    pub(super) fn text(&self, nodes: usize) -> String {
        let Self { round, acknowledged, retrievable, lost, unreached, clients, .. } = self;
        let of = if acknowledged == clients { String::new() } else { format!(" of {clients}") };
        let mut text =
            format!("round {round}: acknowledged {acknowledged}{of}, retrievable {retrievable}, {lost} lost");
        if *unreached > 0 {
            text += &format!(", {unreached} unreached");
        }
        match (self.ready_s, self.node) {
            (Some(ready), Some(node)) => {
                text + &format!(" (ready {ready:.1} s after its end; at node {node} of {nodes})")
            }
            (None, Some(node)) => text + &format!(" (ready; at node {node} of {nodes})"),
            _ => text + " (never ready)",
        }
    }
}

impl Sum {
    /// Whether nothing is lost and all nodes say the same.
    pub(super) fn is_sound(&self) -> bool {
        self.lost == 0 && self.manifests.different == 0
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, complete, acknowledged, retrievable, lost, unreached, .. } = self;
        write!(f, "acknowledged {acknowledged}, retrievable {retrievable}, {lost} lost")?;
        if *unreached > 0 {
            write!(f, ", {unreached} unreached")?;
        }
        let longest = self.longest.as_secs_f64();
        write!(
            f,
            "; {complete} of {rounds} rounds complete, longest time between two of them {longest:.1} s"
        )?;
        let Compared { nodes, newest, rounds, same, different } = &self.manifests;
        write!(
            f,
            "; manifests: {same} of {rounds} rounds up to {newest} the same on {nodes} nodes, {different} different"
        )
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::Line;

    /// The drills read them.
    #[test]
    fn a_complete_round_is_told_from_others() {
        let line = Line {
            round: 123,
            clients: 24,
            acknowledged: 24,
            retrievable: 24,
            lost: 0,
            unreached: 0,
            complete: true,
            ready_s: Some(0.42),
            node: Some(2),
        };
        assert_eq!(
            line.text(3),
            "round 123: acknowledged 24, retrievable 24, 0 lost (ready 0.4 s after its end; at node 2 of 3)"
        );
        let partly = Line { acknowledged: 20, retrievable: 18, unreached: 2, ready_s: None, ..line };
        let told =
            "round 123: acknowledged 20 of 24, retrievable 18, 0 lost, 2 unreached (ready; at node 2 of 3)";
        assert_eq!(partly.text(3), told);
    }
}
