//! From a sealed round to what is served: a pure function, run on the compute threads.

use std::time::Instant;

use bytes::Bytes;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};
use mpir::{Contents, Engine, Form, PreparedRound, Profile, RoundSpec};
use pbc::{BatchCode as _, BucketIndex, Encoding, PartitionedCode};
use rayon::prelude::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use sotto_log::{SealedRound, TableSeal};
use sotto_protocol::deposit::{BOX_BYTES, arrange};
use sotto_protocol::manifest::{
    Manifest, bucket_digest, buckets_digest, deposits_digest, hint_digest, mapping_kind, unit_hint_digests,
};
use sotto_protocol::{BloomMapping, Deposit, Label, MANIFEST_VERSION, ServerParameters, Table};
use sotto_wire::{RootKey, limits};

use crate::largest::sizes_fit;
use crate::reused::{Left, Taken, fit};

/// Memory that rounds are built in, to be used by the next ones.
#[derive(Clone, Default)]
pub(crate) struct Buffers {
    boxes: Left<Vec<u8>>,
    /// Of each content of a bucket; only while a round is built.
    contents: Left<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Any bytes, and room for exactly so many boxes or somewhat more.
    fn room_for_boxes(&self, boxes: usize) -> Taken<Vec<u8>> {
        let bytes = boxes * BOX_BYTES;
        let mut room = self.boxes.take(|buffer| fit(buffer, bytes));
        let more = bytes.saturating_sub(room.len());
        room.reserve_exact(more);
        room
    }
}

/// A round as it is served.
pub(crate) struct RoundDatabase {
    /// Complete but for its predecessor's digest, which is known when it is published.
    pub(crate) manifest: Manifest,
    pub(crate) database: Box<dyn PreparedRound>,
    pub(crate) mapping: Bytes,
    /// What everybody downloads to read answers; of no bytes for most engines.
    pub(crate) hint: Bytes,
    /// What buckets are made of for those who check answers.
    encoding: Encoding,
    boxes: Taken<Vec<u8>>,
    /// Of every bucket, ascending.
    digests: Vec<[u8; 32]>,
    /// How long building took, ms.
    pub(crate) setup_ms: u64,
}

impl RoundDatabase {
    /// Encodes and preprocesses a round's deposits and builds its mapping.
    ///
    /// Order and selection of the deposits follow from the set of them and the seed: the database then says nothing
    /// about when, or how often, a deposit arrived.
    #[cfg(test)]
    pub(crate) fn build(
        sealed: SealedRound,
        engine: &dyn Engine,
        root: &RootKey,
        parameters: &ServerParameters,
    ) -> Result<Self, BuildError> {
        Self::build_as(&Buffers::default(), sealed, engine, root, parameters, None)
    }

    /// The same under the profile that was published, if the round was.
    pub(crate) fn build_as(
        buffers: &Buffers,
        sealed: SealedRound,
        engine: &dyn Engine,
        root: &RootKey,
        parameters: &ServerParameters,
        published: Option<Profile>,
    ) -> Result<Self, BuildError> {
        let started = Instant::now();
        let SealedRound { round, seed, at: _, deposits, table } = sealed;
        let laid = if parameters.code.has_slots() {
            Laid::in_table(buffers, &deposits, &seed, table.ok_or(BuildError::NoTable)?)?
        } else {
            Laid::by_labels(buffers, deposits, &seed)
        };

        let mut manifest = Manifest {
            version: MANIFEST_VERSION,
            round,
            entries: laid.entries(),
            engine: engine.name().to_owned(),
            code: parameters.code,
            retrieve: parameters.retrieve,
            buckets: parameters.buckets,
            choices: parameters.choices,
            mapping_kind: mapping_kind(parameters.code),
            bucket_size: 1,
            round_seed: seed,
            mapping_digest: [0; 32],
            deposits_digest: laid.digest,
            buckets_digest: [0; 32],
            profile: [0; 16],
            hint_digest: [0; 32],
            previous: [0; 32],
        };
        let Laid { labels, boxes, .. } = laid;
        let code = if parameters.code.has_slots() { None } else { Some(manifest.code()?) };
        let encoding = match &code {
            Some(code) => {
                let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
                code.encode(&keys)
            }
            None => {
                let keys: Vec<[u8; 8]> = (0..manifest.entries).map(PartitionedCode::key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
                manifest.slot_code()?.encode(&keys)
            }
        };
        let padded = encoding.largest().max(1);
        manifest.bucket_size = u32::try_from(padded).map_err(|_| BuildError::TooLarge)?;
        manifest.check()?;
        let form = Form { buckets: manifest.buckets.into(), elements: padded, element_bytes: BOX_BYTES };
        manifest.profile = match published {
            Some(published) => published.0,
            None => engine.profile(form)?.0,
        };
        let spec = spec_of(&manifest, root);
        if manifest.mapping_bytes() > limits::MAPPING_MAX as u64 || !sizes_fit(&engine.sizes(&spec)?) {
            return Err(BuildError::TooLarge);
        }

        let (buckets, copies) = (manifest.buckets, encoding.copies());
        let setup = || {
            let mut contents = buffers.contents.take(|contents| {
                contents.iter_mut().for_each(|content| fit(content, padded * BOX_BYTES));
            });
            encoding.materialise_contents(BOX_BYTES, &boxes, padded, &mut contents)?;
            let database = || engine.prepare(&spec, Contents { different: &contents, copies });
            let (database, digests) = rayon::join(database, || digests_of(buckets, copies, &contents));
            Ok::<_, BuildError>((database?, digests))
        };
        let mapping = || match &code {
            Some(code) => {
                BloomMapping::build(&seed, &**code, &encoding, &labels, manifest.bucket_size).map(Some)
            }
            None => Ok(None),
        };
        let (database, mapping) = rayon::join(setup, mapping);
        let ((database, digests), mapping) = (database?, mapping?);
        let hint = Bytes::copy_from_slice(database.hint());
        manifest.hint_digest = hint_digest(&unit_hint_digests(database.sizes().hints(&hint)?));
        manifest.buckets_digest = buckets_digest(&digests);
        manifest.mapping_digest = mapping.as_deref().map_or([0; 32], BloomMapping::digest);
        let mapping = mapping.unwrap_or_default();
        let setup_ms = started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Ok(Self { manifest, database, mapping: mapping.into(), hint, encoding, boxes, digests, setup_ms })
    }

    /// Bytes of what is sent of one unit.
    pub(crate) fn unit_bytes(&self, unit: u16) -> usize {
        let boxes =
            usize::try_from(self.manifest.bucket_size).unwrap_or(usize::MAX).saturating_mul(BOX_BYTES);
        let buckets = self.database.sizes().units.range(unit.into()).len();
        self.digests.as_flattened().len().saturating_add(boxes.saturating_mul(buckets))
    }

    /// What is sent of one unit: the digests of all buckets, and the boxes of its buckets with those that pad them. None if
    /// there is no such unit.
    pub(crate) fn unit(&self, unit: u16) -> Option<Bytes> {
        let padded = usize::try_from(self.manifest.bucket_size).ok()?;
        let mut sent = self.digests.as_flattened().to_vec();
        let buckets = self.database.sizes().units.range(unit.into());
        if buckets.is_empty() {
            return None;
        }
        for bucket in buckets {
            let index = BucketIndex::from_usize(bucket)?;
            sent.extend(self.encoding.materialise_bucket(index, BOX_BYTES, &self.boxes, padded).ok()?);
        }
        Some(sent.into())
    }
}

/// The boxes of a round in their order.
struct Laid {
    /// Under which they are found; none where they are found by their places.
    labels: Vec<Label>,
    boxes: Taken<Vec<u8>>,
    digest: [u8; 32],
}

impl Laid {
    fn by_labels(buffers: &Buffers, mut deposits: Vec<Deposit>, seed: &[u8; 32]) -> Self {
        arrange(&mut deposits, seed);
        let mut boxes = buffers.room_for_boxes(deposits.len());
        boxes.clear();
        deposits.iter().for_each(|deposit| boxes.extend_from_slice(&deposit.sealed.0));
        Self {
            labels: deposits.iter().map(|deposit| deposit.label).collect(),
            boxes,
            digest: deposits_digest(&deposits),
        }
    }

    /// Where nobody has deposited anything, something lies that nobody can tell from a box.
    fn in_table(
        buffers: &Buffers,
        deposits: &[Deposit],
        seed: &[u8; 32],
        sealed: TableSeal,
    ) -> Result<Self, BuildError> {
        let table = Table::holding(sealed.lots).ok_or(BuildError::TooLarge)?;
        let laid = table.lay(deposits, seed);
        let mut boxes = buffers.room_for_boxes(table.places() as usize);
        // What lay here is overwritten, every place of it.
        boxes.resize(table.places() as usize * BOX_BYTES, 0);
        let (places, _) = boxes.as_chunks_mut::<BOX_BYTES>();
        let cover = |place: u32, bytes: &mut [u8; BOX_BYTES]| {
            let mut nonce = [0; 12];
            nonce[..4].copy_from_slice(&place.to_le_bytes());
            // Not in place: memory that is read before it is written costs a fault more, and other threads an interrupt.
            let mut keystream = [0; BOX_BYTES];
            ChaCha20::new(&sealed.cover.into(), &nonce.into()).apply_keystream(&mut keystream);
            *bytes = keystream;
        };
        (0..table.places())
            .into_par_iter()
            .zip(places)
            .with_min_len(256)
            .for_each(|(place, bytes)| laid.fill(place, bytes, |bytes| cover(place, bytes)));
        Ok(Self { labels: Vec::new(), boxes, digest: [0; 32] })
    }

    fn entries(&self) -> u64 {
        (self.boxes.len() / BOX_BYTES) as u64
    }
}

/// What a round is to its engine.
pub(crate) fn spec_of(manifest: &Manifest, root: &RootKey) -> RoundSpec {
    RoundSpec {
        seed: manifest.query_seed(&root.0),
        whitening: manifest.retrieval_seed(&root.0),
        round: manifest.round.0,
        form: Form {
            buckets: manifest.buckets.into(),
            elements: usize::try_from(manifest.bucket_size).unwrap_or(usize::MAX),
            element_bytes: BOX_BYTES,
        },
        profile: Profile(manifest.profile),
    }
}

/// Digests of all buckets, of which `copies` that follow each other have one content.
fn digests_of(buckets: u16, copies: usize, contents: &[Vec<u8>]) -> Vec<[u8; 32]> {
    let content =
        |bucket: u16| contents.get(usize::from(bucket) / copies.max(1)).map_or(&[][..], Vec::as_slice);
    let digest = |bucket| bucket_digest(bucket, content(bucket));
    (0..buckets).into_par_iter().with_max_len(1).map(digest).collect()
}

/// Why a round cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("the round is larger than the protocol allows")]
    TooLarge,
    #[error("the round was sealed by a server without slots")]
    NoTable,
    #[error(transparent)]
    Protocol(#[from] sotto_protocol::Error),
    #[error(transparent)]
    Code(#[from] pbc::Error),
    #[error(transparent)]
    Engine(#[from] mpir::Error),
    #[error(transparent)]
    Log(#[from] sotto_log::LogError),
    #[error("the computation failed")]
    Compute,
}

#[cfg(test)]
mod tests {
    use mpir::noop;
    use sotto_protocol::deposit::{BOX_BYTES, COPIES_MAX};
    use sotto_protocol::{
        CodeKind, Deposit, Label, PROTOCOL_VERSION, Round, RoundMode, SealedBox, SeedCommitment,
        ServerParameters, UnixMillis,
    };

    use sotto_wire::RootKey;

    use super::{Buffers, RoundDatabase};
    use sotto_log::{SealedRound, TableSeal};

    fn deposits(labels: impl Iterator<Item = u64>) -> Vec<Deposit> {
        let deposit = |(number, named): (u64, u64)| {
            let (mut label, mut sealed) = ([0; 16], [0; BOX_BYTES]);
            label[..8].copy_from_slice(&named.to_le_bytes());
            sealed[..8].copy_from_slice(&number.to_le_bytes());
            Deposit { label: Label(label), sealed: SealedBox(sealed) }
        };
        (0..).zip(labels).map(deposit).collect()
    }

    fn parameters(code: CodeKind, retrieve: u16) -> ServerParameters {
        ServerParameters {
            protocol_version: PROTOCOL_VERSION,
            serial: 1,
            manifest_key: [1; 32],
            seeds: SeedCommitment::default(),
            engine: "noop-no-privacy".into(),
            security_bits: 0,
            code,
            retrieve,
            buckets: match code {
                CodeKind::Cuckoo => 2 * retrieve,
                CodeKind::Hybrid => 9 * retrieve,
                CodeKind::Single => retrieve,
                CodeKind::Partitioned | CodeKind::Standing => 3 * retrieve,
            },
            choices: match code {
                CodeKind::Cuckoo | CodeKind::Partitioned | CodeKind::Standing => 3,
                CodeKind::Hybrid => 2,
                CodeKind::Single => 1,
            },
            retained: 2,
            mode: RoundMode::Deadline,
            round_ms: 1000,
            deposit_ms: 100,
            lookup_ms: 200,
            query_ms: 300,
            deposit_spread_ms: 0,
            query_spread_ms: 0,
            key_epoch: sotto_protocol::KeyEpoch::ENDLESS,
        }
    }

    fn sealed(seed: u8, deposits: Vec<Deposit>, table: Option<TableSeal>) -> SealedRound {
        SealedRound { round: Round(1), seed: [seed; 32], at: UnixMillis(0), deposits, table }
    }

    fn entries(code: CodeKind, retrieve: u16, seed: u8, deposits: Vec<Deposit>) -> u64 {
        let sealed = sealed(seed, deposits, None);
        let parameters = parameters(code, retrieve);
        RoundDatabase::build(sealed, &*noop(), &RootKey([0; 32]), &parameters).unwrap().manifest.entries
    }

    #[test]
    fn a_round_lies_in_the_memory_of_the_one_before() {
        let buffers = Buffers::default();
        let boxes_at = |many| {
            let laid = super::Laid::by_labels(&buffers, deposits(0..many), &[1; 32]);
            assert_eq!(laid.boxes.len(), many as usize * BOX_BYTES);
            (laid.boxes.as_ptr(), laid.boxes.capacity())
        };
        let first = boxes_at(1300);
        assert_eq!(first.1, 1300 * BOX_BYTES);
        assert_eq!([boxes_at(1290), boxes_at(1300)], [first, first]);
    }

    /// Nodes that have been up for different times publish the same, and nobody is shown a box of another round.
    #[test]
    fn a_round_does_not_depend_on_what_earlier_ones_have_left() {
        let buffers = Buffers::default();
        let (engine, root) = (noop(), RootKey([0; 32]));
        for (code, retrieve) in
            [(CodeKind::Cuckoo, 4), (CodeKind::Hybrid, 2), (CodeKind::Single, 4), (CodeKind::Partitioned, 4)]
        {
            for (seed, many) in [(1, 3000), (2, 10), (3, 0), (4, 2900), (5, 700), (6, 900)] {
                // In a table their labels are slots and knocks.
                let table = (code == CodeKind::Partitioned)
                    .then(|| TableSeal { lots: u32::from(seed % 3 + 1), cover: [seed; 32] });
                let sealed = || sealed(seed, deposits(0..many), table);
                let parameters = parameters(code, retrieve);
                let new = RoundDatabase::build(sealed(), &*engine, &root, &parameters).unwrap();
                let again =
                    RoundDatabase::build_as(&buffers, sealed(), &*engine, &root, &parameters, None).unwrap();
                assert!(new.manifest == again.manifest, "{code:?} {many}");
                for unit in 0..parameters.buckets {
                    assert!(new.unit(unit) == again.unit(unit), "{code:?} {many}, unit {unit}");
                }
            }
        }
    }

    /// One person with many accounts would otherwise end every round for all.
    #[test]
    fn equal_labels_never_abandon_a_round() {
        for (honest, equal) in [(0, 150), (10, 60), (10, 250), (10, 2500), (1000, 1500), (5000, 2500)] {
            for (code, retrieve) in [(CodeKind::Single, 1), (CodeKind::Single, 4)]
                .into_iter()
                .chain([4, 16].map(|retrieve| (CodeKind::Cuckoo, retrieve)))
                .chain([2, 16].map(|retrieve| (CodeKind::Hybrid, retrieve)))
            {
                let labels = (1..=honest).chain(std::iter::repeat_n(0, equal));
                let kept = entries(code, retrieve, 7, deposits(labels));
                assert_eq!(kept, honest + COPIES_MAX as u64);
            }
        }
    }

    /// As many boxes under every label as there may be make buckets as uneven as they can become.
    #[test]
    fn a_round_full_of_repeated_labels_is_within_the_bounds_of_its_manifest() {
        for labels in [1, 3, 10, 50, 100, 200, 350, 700, 2000] {
            for (code, retrieve, seed) in [
                (CodeKind::Cuckoo, 2, 1),
                (CodeKind::Cuckoo, 16, 2),
                (CodeKind::Cuckoo, 16, 3),
                (CodeKind::Cuckoo, 64, 4),
                (CodeKind::Hybrid, 2, 5),
                (CodeKind::Hybrid, 16, 6),
                (CodeKind::Single, 2, 7),
            ] {
                let repeated = (0..labels).flat_map(|label| std::iter::repeat_n(label, 6));
                assert_eq!(entries(code, retrieve, seed, deposits(repeated)), labels * COPIES_MAX as u64);
            }
        }
    }

    /// `cargo test --release -p sottod --lib time_of_the_digest_of_buckets -- --ignored --nocapture`
    #[test]
    #[ignore = "measures"]
    fn time_of_the_digest_of_buckets() {
        const BUCKETS: u16 = 32;
        let padded = 3 * (1 << 18) / usize::from(BUCKETS);
        let contents = vec![vec![7; padded * BOX_BYTES]; BUCKETS.into()];
        for _ in 0..3 {
            let began = std::time::Instant::now();
            std::hint::black_box(super::digests_of(BUCKETS, 1, &contents));
            println!("{BUCKETS} buckets of {padded} boxes: {:?}", began.elapsed());
        }
    }
}
