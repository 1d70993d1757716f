//! Nodes with programs of different versions, which choose different arrangements of the same databases.

use std::sync::Arc;
use std::time::Duration;

use mpir::{
    Assurance, Contents, Engine, EngineClient, Error, Form, PreparedRound, Profile, PublicKeys, Recomputed,
    RoundSpec, Sizes, noop,
};
use sotto_protocol::Round;
use tokio::time::sleep;

use super::breaches::{cluster, leader, play};
use super::node::Cluster;

/// An engine whose arrangements differ in a number alone: it announces one, and has those that share a bit with `knows`.
#[derive(Debug)]
struct Arranged {
    engine: Arc<dyn Engine>,
    announces: u8,
    knows: u8,
}

impl Arranged {
    /// The same round as the engine knows it.
    fn bare(&self, spec: &RoundSpec) -> Result<RoundSpec, Error> {
        let mut spec = spec.clone();
        if core::mem::take(&mut spec.profile.0[15]) & self.knows == 0 {
            return Err(Error::Size);
        }
        Ok(spec)
    }
}

impl Engine for Arranged {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn profile(&self, form: Form) -> Result<Profile, Error> {
        let mut profile = self.engine.profile(form)?;
        profile.0[15] = self.announces;
        Ok(profile)
    }

    fn sizes(&self, spec: &RoundSpec) -> Result<Sizes, Error> {
        self.engine.sizes(&self.bare(spec)?)
    }

    fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
        self.engine.assurance(&self.bare(spec)?)
    }

    fn public_keys_bytes(&self) -> usize {
        self.engine.public_keys_bytes()
    }

    fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
        self.engine.client(seed)
    }

    fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
        self.engine.public_keys(encoded)
    }

    fn prepare(&self, spec: &RoundSpec, contents: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
        self.engine.prepare(&self.bare(spec)?, contents)
    }

    fn recompute(
        &self,
        spec: &RoundSpec,
        unit: usize,
        content: &[u8],
        keys: &[u8],
        request: &[u8],
    ) -> Result<Recomputed, Error> {
        self.engine.recompute(&self.bare(spec)?, unit, content, keys, request)
    }
}

/// The number in the arrangement under which a node serves a round, if it does.
async fn served(cluster: &Cluster, number: u64, round: Round) -> Option<u8> {
    let database = cluster.net.rounds(number)?.served(round).await.ok()?;
    Some(database.manifest.profile[15])
}

/// While a cluster is upgraded, what the node that leads has chosen is what all serve.
#[test]
fn nodes_that_would_choose_otherwise_serve_what_was_published() {
    let mut cluster = cluster(false, 2000);
    cluster.engine_of =
        |number| Arc::new(Arranged { engine: noop(), announces: number as u8, knows: u8::MAX });
    play(cluster, async |cluster, nodes| {
        sleep(Duration::from_secs(10)).await;
        let (leads, _) = leader(&cluster);
        let open = cluster.net.rounds(leads).unwrap().current().await.unwrap();
        for number in 1..=3 {
            assert!(!nodes[number as usize - 1].as_ref().unwrap().rounds.is_finished(), "node {number}");
            assert_eq!(served(&cluster, number, open.back(2)).await, Some(leads as u8), "node {number}");
        }
    });
}

/// A node that does not have an arrangement goes on without those rounds.
#[test]
fn a_node_without_an_arrangement_serves_no_round_of_it_and_stays() {
    let mut cluster = cluster(false, 2000);
    // Whichever leads, the others do not have what it announces.
    cluster.engine_of =
        |number| Arc::new(Arranged { engine: noop(), announces: 1 << number, knows: 1 << number });
    play(cluster, async |cluster, nodes| {
        sleep(Duration::from_secs(10)).await;
        for number in 1..=3 {
            assert!(!nodes[number as usize - 1].as_ref().unwrap().rounds.is_finished(), "node {number}");
        }
        let (leads, _) = leader(&cluster);
        let open = cluster.net.rounds(leads).unwrap().current().await.unwrap();
        for number in (1..=3).filter(|number| *number != leads) {
            assert_eq!(served(&cluster, number, open.back(2)).await, None, "node {number}");
        }
    });
}
