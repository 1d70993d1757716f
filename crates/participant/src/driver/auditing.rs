//! Which answers are checked, and what is told of them.

use mpir::Engines;
use sotto_protocol::audit::{AUDITED, AUDITED_WHEN_ASKED, AuditCoins};
use sotto_protocol::{Manifest, Round, SignedManifest};
use sotto_wire::RootKey;
use tokio::sync::oneshot;

use super::{Done, Driver};
use crate::audit::{Announced, Verdict};
use crate::auditing::{Audit, Auditing, Evidence, download, judge_evidence, unit_bytes};
use crate::keys::PublicKeys;
use crate::retrieval::Shape;
use crate::{Event, Finding};

/// What a driver needs to check answers.
pub(crate) struct Audits {
    coins: AuditCoins,
    root: RootKey,
    engines: Engines,
    /// What the client keeps of the server, as the root has signed it: what proofs begin with.
    announced: Announced,
    /// Answers that the person wants to have checked.
    wanted: u32,
}

impl Audits {
    pub(crate) fn new(coins: AuditCoins, root: RootKey, engines: Engines, announced: Announced) -> Self {
        Self { coins, root, engines, announced, wanted: 0 }
    }

    /// The client has taken over what is announced.
    pub(super) fn adopt(&mut self, announced: Announced) {
        self.announced = announced;
    }

    /// The root key of the server's cluster.
    pub(super) fn root(&self) -> &RootKey {
        &self.root
    }

    pub(super) fn ask(&mut self, answers: u32) {
        self.wanted = self.wanted.saturating_add(answers);
    }

    /// The unit to check in a round, if one is drawn.
    fn draw(&mut self, round: Round, units: u16) -> Option<u16> {
        let of = if self.wanted > 0 { AUDITED_WHEN_ASKED } else { AUDITED };
        let drawn = self.coins.draw(round, units, of)?;
        self.wanted = self.wanted.saturating_sub(1);
        Some(drawn)
    }
}

impl Driver {
    /// Draws whether an answer of a round is checked, and waits for it if one is.
    pub(super) fn audit(
        &mut self,
        announced: Manifest,
        signed: SignedManifest,
        shape: &Shape,
        keys: &PublicKeys,
    ) -> (Auditing, oneshot::Sender<Evidence>) {
        let round = announced.round;
        let (evidence, collected) = oneshot::channel::<Evidence>();
        let sizes = shape.sizes();
        // The largest; whether there is a coin must not depend on which unit it is.
        let checkable = unit_bytes(&announced, sizes, 0).is_some();
        // There are no more units than buckets.
        let units = u16::try_from(sizes.units.count()).unwrap_or(u16::MAX);
        let drawn = self.audits.draw(round, units).filter(|_| checkable);
        let drawn = drawn.and_then(|unit| Some((unit, unit_bytes(&announced, sizes, unit)?)));
        if let Some((unit, bytes)) = drawn {
            let (sessions, keys) = (self.sessions.clone(), keys.clone());
            let (host, root) = (std::sync::Arc::clone(&self.host), self.audits.root);
            let engines = self.audits.engines.clone();
            self.calls.spawn(async move {
                // Without an answer there is nothing to check.
                let Ok(evidence) = collected.await else {
                    return Done::Audited(round, unit, Audit::NoAnswer);
                };
                let downloaded = download(&sessions, &keys, round, unit, bytes).await;
                let audit = judge_evidence(&host, engines, evidence, downloaded, root).await;
                Done::Audited(round, unit, audit)
            });
        }
        let manifest_key = self.server.manifest_key_of(announced.round);
        let (server, unit) = (self.audits.announced.clone(), drawn.map(|(unit, _)| unit));
        (Auditing { server, announced, signed, manifest_key, unit, published: None }, evidence)
    }

    /// Tells what was found. A proof is kept before the person is told of it.
    pub(super) fn audited(&mut self, round: Round, unit: u16, audit: Audit) {
        let finding = match audit {
            Audit::Judged(proof, Verdict::Cheated) => {
                let kept = self.keeper.keep_proof(round, proof.encode());
                return self.await_keeper(kept, move |kept| Done::ProofKept(round, unit, kept));
            }
            Audit::Judged(_, Verdict::Honest) => Finding::Honest,
            Audit::Judged(_, verdict) => Finding::Open(verdict.to_string()),
            Audit::Unavailable(failure) => Finding::Open(format!("its buckets did not come: {failure}")),
            Audit::NoReceipt => Finding::Open("there is no receipt under the answers".to_owned()),
            Audit::NoAnswer => Finding::Open("no answer came".to_owned()),
            Audit::Failed => Finding::Open("this program failed; that is a mistake in it".to_owned()),
        };
        self.person.tell(Event::Audited { round, unit, finding });
    }
}
