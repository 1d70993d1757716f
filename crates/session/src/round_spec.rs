//! What a round is to an engine, from what its server announces.

use mpir::{Engine, Error, Form, Profile, RoundSpec, Sizes};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::{Manifest, ServerParameters};
use sotto_wire::{RootKey, limits};

/// Why nothing is asked of a round.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundRefused {
    /// The engine has no such arrangement.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The announced arrangement is less secure than the engine's own, or than 128 bits.
    #[error("the announced arrangement of the databases has only {bits} bits of security")]
    Security {
        /// Its security, bits.
        bits: u32,
    },
    /// The announced arrangement loses more than one message in 2^40.
    #[error("with the announced arrangement of the databases too many answers cannot be read")]
    Failure,
    /// Something that is sent would be larger than the protocol allows.
    #[error("requests, answers or hints of the announced arrangement are larger than the protocol allows")]
    Sizes,
}

/// Largest probability that an answer which is right is read wrongly, as a logarithm to base 2.
const FAILURE_LOG2_MAX: f64 = -40.0;

/// The specification of a round, and the sizes of its calls, from its manifest and the root key of the cluster. The engine's
/// profile is the announced one, and is refused if it promises too little.
///
/// # Errors
/// [`RoundRefused`].
pub fn round_spec(
    engine: &dyn Engine,
    root: &RootKey,
    manifest: &Manifest,
) -> Result<(RoundSpec, Sizes), RoundRefused> {
    let elements = usize::try_from(manifest.bucket_size).map_err(|_| RoundRefused::Sizes)?;
    let spec = RoundSpec {
        seed: manifest.query_seed(&root.0),
        whitening: manifest.retrieval_seed(&root.0),
        round: manifest.round.0,
        form: Form { buckets: manifest.buckets.into(), elements, element_bytes: BOX_BYTES },
        profile: Profile(manifest.profile),
    };
    let assurance = engine.assurance(&spec)?;
    // An engine without privacy was let in, or not, when the server was met.
    if assurance.security_bits < security_bits(engine).min(ServerParameters::SECURITY_MIN) {
        return Err(RoundRefused::Security { bits: assurance.security_bits });
    }
    // Not a number is no bound.
    if assurance.failure_log2.is_nan() || assurance.failure_log2 > FAILURE_LOG2_MAX {
        return Err(RoundRefused::Failure);
    }
    let sizes = engine.sizes(&spec)?;
    let fit = sizes.request.bytes() <= limits::QUERY_MAX
        && (1..=limits::ANSWER_MAX).contains(&sizes.answer.bytes())
        && sizes.hint.bytes() <= limits::HINT_MAX
        && sizes.units.buckets() == spec.form.buckets;
    if fit { Ok((spec, sizes)) } else { Err(RoundRefused::Sizes) }
}

/// The security of an engine's own arrangement of its smallest database, bits.
pub(crate) fn security_bits(engine: &dyn Engine) -> u32 {
    let form = Form { buckets: 1, elements: 1, element_bytes: BOX_BYTES };
    // It does not depend on the seed.
    let spec = engine.profile(form).map(|profile| RoundSpec {
        seed: [0; 32],
        whitening: [0; 32],
        round: 0,
        form,
        profile,
    });
    spec.and_then(|spec| engine.assurance(&spec)).map_or(0, |assurance| assurance.security_bits)
}

#[cfg(test)]
mod tests {
    use mpir::{
        Assurance, Contents, Engine, EngineClient, Error, Form, Parts, PreparedRound, Profile, PublicKeys,
        Recomputed, RoundSpec, Sizes, Units, noop, sealpir,
    };
    use sotto_protocol::deposit::BOX_BYTES;
    use sotto_protocol::manifest::MAPPING_BLOOM;
    use sotto_protocol::{CodeKind, MANIFEST_VERSION, Manifest, Round};
    use sotto_wire::{RootKey, limits};

    use super::{RoundRefused, round_spec};

    fn manifest(engine: &dyn Engine, elements: usize) -> Manifest {
        let form = Form { buckets: 8, elements, element_bytes: BOX_BYTES };
        Manifest {
            version: MANIFEST_VERSION,
            round: Round(7),
            entries: 2 * elements as u64,
            engine: engine.name().into(),
            code: CodeKind::Cuckoo,
            retrieve: 4,
            buckets: 8,
            choices: 3,
            mapping_kind: MAPPING_BLOOM,
            bucket_size: elements as u32,
            round_seed: [1; 32],
            mapping_digest: [2; 32],
            deposits_digest: [3; 32],
            buckets_digest: [4; 32],
            profile: engine.profile(form).unwrap().0,
            hint_digest: [5; 32],
            previous: [6; 32],
        }
    }

    /// What is announced is asked for; a server may choose, but not what loses messages or costs without bound.
    #[test]
    fn the_announced_profile_counts_and_is_refused_if_it_promises_too_little() {
        for engine in [sealpir(), noop()] {
            let good = manifest(&*engine, 1000);
            let (spec, sizes) = round_spec(&*engine, &RootKey([9; 32]), &good).unwrap();
            assert_eq!((spec.round, spec.form.buckets, spec.form.elements), (7, 8, 1000));
            assert_eq!(spec.seed, good.retrieval_seed(&[9; 32]));
            assert_eq!((sizes.units.count(), sizes.hint.bytes()), (8, 0));
            for byte in 0..16 {
                for value in [0, 1, 2, 0x7f, 0xff] {
                    let mut bad = good.clone();
                    bad.profile[byte] ^= value;
                    match round_spec(&*engine, &RootKey([9; 32]), &bad) {
                        Ok((other, sizes)) => {
                            let assurance = engine.assurance(&other).unwrap();
                            assert!(assurance.failure_log2 <= -40.0 && sizes.answer.bytes() > 0);
                        }
                        Err(refused) => assert!(value > 0, "{refused}"),
                    }
                }
            }
        }
        let other = Manifest { profile: [0xff; 16], ..manifest(&*sealpir(), 1000) };
        let refused = round_spec(&*sealpir(), &RootKey([9; 32]), &other);
        assert!(matches!(refused, Err(RoundRefused::Engine(_))));
    }

    /// An engine with an arrangement of any promise and size.
    #[derive(Debug)]
    struct Any(Assurance, Sizes);

    impl Engine for Any {
        fn name(&self) -> &'static str {
            "any"
        }

        fn profile(&self, _: Form) -> Result<Profile, Error> {
            Ok(Profile::default())
        }

        fn sizes(&self, _: &RoundSpec) -> Result<Sizes, Error> {
            Ok(self.1)
        }

        /// Its own arrangement has 130 bits.
        fn assurance(&self, spec: &RoundSpec) -> Result<Assurance, Error> {
            let own = Assurance { security_bits: 130, failure_log2: -41.0 };
            Ok(if spec.form.buckets == 1 { own } else { self.0 })
        }

        fn public_keys_bytes(&self) -> usize {
            0
        }

        fn client(&self, seed: &[u8; 32]) -> Box<dyn EngineClient> {
            noop().client(seed)
        }

        fn public_keys(&self, encoded: &[u8]) -> Result<PublicKeys, Error> {
            noop().public_keys(encoded)
        }

        fn prepare(&self, _: &RoundSpec, _: Contents<'_>) -> Result<Box<dyn PreparedRound>, Error> {
            Err(Error::Bucket)
        }

        fn recompute(
            &self,
            _: &RoundSpec,
            _: usize,
            _: &[u8],
            _: &[u8],
            _: &[u8],
        ) -> Result<Recomputed, Error> {
            Err(Error::Bucket)
        }
    }

    #[test]
    fn no_promise_below_the_limits_and_no_size_above_them_is_accepted() {
        let judge = |bits, failure_log2, request, answer, hint, buckets| {
            let parts = |bytes| Parts::new(bytes, 1).unwrap();
            let units = Units::new(1, buckets).unwrap();
            let [request, answer, hint] = [request, answer, hint].map(parts);
            let engine = Any(
                Assurance { security_bits: bits, failure_log2 },
                Sizes { units, keys: 0, request, answer, hint },
            );
            round_spec(&engine, &RootKey([9; 32]), &manifest(&engine, 1000)).map(|_| ())
        };
        let good = |bits, failure| judge(bits, failure, 1, 1, 0, 8);
        assert_eq!(good(130, -41.0), Ok(()));
        assert_eq!(good(128, -40.0), Ok(()));
        assert_eq!(good(127, -40.0), Err(RoundRefused::Security { bits: 127 }));
        assert_eq!(good(0, -40.0), Err(RoundRefused::Security { bits: 0 }));
        for failure in [-39.9, 0.0, f64::INFINITY, f64::NAN] {
            assert_eq!(good(130, failure), Err(RoundRefused::Failure));
        }
        let sized = |request, answer, hint, buckets| judge(130, -41.0, request, answer, hint, buckets);
        assert_eq!(sized(limits::QUERY_MAX, limits::ANSWER_MAX, limits::HINT_MAX, 8), Ok(()));
        for refused in [
            sized(limits::QUERY_MAX + 1, 1, 0, 8),
            sized(1, limits::ANSWER_MAX + 1, 0, 8),
            sized(1, 0, 0, 8),
            sized(1, 1, limits::HINT_MAX + 1, 8),
            sized(1, 1, 0, 7),
        ] {
            assert_eq!(refused, Err(RoundRefused::Sizes));
        }
    }
}
