//! The four systems of the paper's case study (section 7.4): Pung as it was, and with SealPIR, with mPIR, with both.

use anyhow::Context;
use mpir::Form;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sotto_measuring::code::CodeName;
use sotto_measuring::engine::EngineName;
use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES, LABEL_BYTES};
use sotto_protocol::{BloomMapping, CodeKind, CodeShape, ServerParameters};
use sotto_wire::limits;

/// Users of the paper's deployment, each with one message in a round.
pub(super) const USERS: usize = 1 << 18;

/// Messages that a user retrieves in a round.
pub(super) const BATCHES: [usize; 4] = [1, 16, 64, 256];

/// One of the four.
pub(super) struct System {
    pub(super) name: &'static str,
    pub(super) engine: EngineName,
    pub(super) engine_title: &'static str,
    /// For k above 1; one message is retrieved without a code.
    code: CodeName,
}

/// The paper's names; all engines and codes are this project's.
pub(super) static SYSTEMS: [System; 4] = {
    const fn of(name: &'static str, engine: EngineName, code: CodeName) -> System {
        let engine_title = if matches!(engine, EngineName::Sealpir) { "SealPIR" } else { "XPIR d = 2" };
        System { name, engine, engine_title, code }
    }
    [
        of("Pung", EngineName::Xpir2, CodeName::Hybrid),
        of("Pung+S", EngineName::Sealpir, CodeName::Hybrid),
        of("Pung+M", EngineName::Xpir2, CodeName::Cuckoo),
        of("Pung+MS", EngineName::Sealpir, CodeName::Cuckoo),
    ]
};

/// What a client sends and receives, bytes.
pub(super) struct Traffic {
    pub(super) buckets: usize,
    pub(super) bucket_size: usize,
    /// Once, with the first round.
    pub(super) keys: usize,
    pub(super) deposit: usize,
    pub(super) mapping: usize,
    pub(super) queries: usize,
    pub(super) answers: usize,
}

impl Traffic {
    /// Of one round, without the keys.
    pub(super) const fn round(&self) -> usize {
        self.deposit + self.mapping + self.queries + self.answers
    }

    /// Whether the limits of the protocol allow such a round.
    pub(super) fn fits(&self) -> bool {
        self.buckets <= usize::from(ServerParameters::BUCKETS_MAX)
            && self.mapping <= limits::MAPPING_MAX
            && self.queries <= limits::QUERY_MAX
            && self.answers <= limits::ANSWER_MAX
    }
}

impl System {
    pub(super) const fn code(&self, k: usize) -> CodeName {
        if k == 1 { CodeName::Single } else { self.code }
    }

    /// What one of `n` users who all deposit sends and receives in a round. All sizes follow from the largest bucket; so
    /// labels are drawn, and encoded as in a round.
    pub(super) fn traffic(&self, k: usize, n: usize) -> anyhow::Result<Traffic> {
        let kind = self.code(k).kind()?;
        let (buckets, choices) = match kind {
            CodeKind::Single => (k, 1),
            CodeKind::Hybrid => (9 * k, 2),
            CodeKind::Partitioned | CodeKind::Standing => {
                anyhow::bail!("slots are no part of the case study")
            }
            CodeKind::Cuckoo => {
                let buckets = pbc::recommended_buckets(k, pbc::DEFAULT_CHOICES);
                (buckets.context("no number of buckets is recommended")?, pbc::DEFAULT_CHOICES as u8)
            }
        };
        let shape =
            CodeShape { kind, retrieve: u16::try_from(k)?, buckets: u16::try_from(buckets)?, choices };
        let mut labels = vec![0; n * LABEL_BYTES];
        StdRng::seed_from_u64(1).fill_bytes(&mut labels);
        let labels: Vec<&[u8]> = labels.chunks_exact(LABEL_BYTES).collect();
        let bucket_size = shape.code([1; 32])?.encode(&labels).largest();
        let form = Form { buckets, elements: bucket_size, element_bytes: BOX_BYTES };
        let sizes = self.engine.engine().sizes(&self.engine.round(form, None)?)?;
        Ok(Traffic {
            buckets,
            bucket_size,
            keys: sizes.keys,
            deposit: DEPOSIT_BYTES,
            mapping: usize::try_from(BloomMapping::encoded_bytes(shape, u32::try_from(bucket_size)?))?,
            queries: sizes.request.bytes(),
            answers: sizes.answer.bytes(),
        })
    }
}

/// A code in tables.
pub(super) const fn code_title(code: CodeName) -> &'static str {
    match code {
        CodeName::Single => "none",
        CodeName::Hybrid => "Pung hybrid",
        _ => "cuckoo",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
mod tests {
    use super::{BATCHES, SYSTEMS, USERS};

    /// Traffic is what sizes and the number of buckets say, and what the paper replaced must show in it.
    #[test]
    fn every_replaced_part_saves_traffic() {
        let of = |system: usize, k| SYSTEMS[system].traffic(k, 1 << 12).unwrap();
        for k in [16, 64] {
            let [pung, seal, mpir, both] = [0, 1, 2, 3].map(|system| of(system, k));
            assert_eq!((pung.buckets, both.buckets), (9 * k, if k == 16 { 32 } else { 96 }));
            assert!(seal.queries < pung.queries && both.queries < mpir.queries);
            assert!(mpir.round() < pung.round() && both.round() < seal.round());
            assert!(both.mapping > (3 * 3) << 12, "three copies of three bytes: {}", both.mapping);
        }
        let alone = SYSTEMS.each_ref().map(|system| system.traffic(1, 1 << 12).unwrap());
        assert_eq!(alone[0].round(), alone[2].round());
        assert_eq!(alone[1].round(), alone[3].round());
        assert!(BATCHES.contains(&16) && USERS == 262_144);
    }
}
