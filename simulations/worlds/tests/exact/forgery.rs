//! Rounds as they are shown: the honest one, and those that are built and signed for one person.

use std::sync::Arc;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use mpir::{Contents, Engine, Form, PreparedRound, PublicKeys, Query, RoundSpec, Sizes};
use pbc::{BatchCode as _, Codeword, Encoding, PartitionedCode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sotto_protocol::deposit::{BOX_BYTES, LABEL_BYTES, arrange};
use sotto_protocol::manifest::seed::SegmentEnd;
use sotto_protocol::manifest::{
    Manifest, SignedManifest, bucket_digest, buckets_digest, deposits_digest, hint_digest, mapping_bytes,
    unit_hint_digests,
};
use sotto_protocol::mapping::MAPPING_HEADER_BYTES;
use sotto_protocol::table::KNOCK_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, SealedBox, Table, table};
use tokio::time::Instant;

use crate::lies::Forgery;
use crate::server::Account;

/// A round that can be retrieved.
pub(crate) struct Ready {
    pub(crate) manifest: Manifest,
    pub(crate) signed: SignedManifest,
    pub(crate) at: Instant,
    pub(crate) mapping: Bytes,
    pub(crate) hint: Bytes,
    /// None if it has only a size.
    pub(crate) database: Option<Arc<dyn PreparedRound>>,
    /// None if the engine has none.
    pub(crate) sizes: Option<Sizes>,
    pub(crate) boxes: Vec<u8>,
    /// Of every bucket, and the digests of all; none if there is only a size.
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) digests: Vec<[u8; 32]>,
}

/// What everything is made of.
pub(crate) struct Material<'a> {
    pub(crate) deposited: &'a [(Account, Deposit)],
    /// A manifest of which everything that does not follow from the deposits is right.
    pub(crate) manifest: Manifest,
    pub(crate) key: &'a SigningKey,
    /// Of the cluster.
    pub(crate) root: [u8; 32],
    pub(crate) segment: Option<SegmentEnd>,
    pub(crate) engine: &'a dyn Engine,
}

/// What a round is to the engine.
fn round_spec(engine: &dyn Engine, root: &[u8; 32], manifest: &Manifest) -> Option<RoundSpec> {
    let (buckets, elements) = (manifest.buckets.into(), manifest.bucket_size as usize);
    let form = Form { buckets, elements, element_bytes: BOX_BYTES };
    let (seed, whitening) = (manifest.query_seed(root), manifest.retrieval_seed(root));
    Some(RoundSpec { seed, whitening, round: manifest.round.0, form, profile: engine.profile(form).ok()? })
}

/// What stands where in a round, as its mapping says.
struct Laid {
    encoding: Encoding,
    boxes: Vec<u8>,
    mapping: Vec<u8>,
}

/// Moves what stands in the buckets.
fn displace(contents: &mut [Vec<Codeword>], forgery: Option<Forgery>) {
    match forgery {
        Some(Forgery::OtherBuckets) => contents.rotate_right(1),
        Some(Forgery::OtherPositions) => contents.iter_mut().for_each(|bucket| bucket.reverse()),
        _ => {}
    }
}

impl Laid {
    fn by_labels(
        mut deposits: Vec<Deposit>,
        theirs: &[Deposit],
        manifest: &mut Manifest,
        forgery: Option<Forgery>,
    ) -> Self {
        let seed = manifest.round_seed;
        arrange(&mut deposits, &seed);
        if forgery == Some(Forgery::Twice) {
            deposits.extend_from_slice(theirs);
        }
        manifest.entries = deposits.len() as u64;
        manifest.deposits_digest = deposits_digest(&deposits);
        // As large as any bucket could be, so that sizes do not depend on labels, which are random.
        manifest.bucket_size = deposits.len().max(1) as u32;

        let mut labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let code = manifest.code().unwrap();
        let encoding = code.encode(&keys);
        let mut contents: Vec<Vec<Codeword>> = encoding.buckets().iter().cloned().collect();
        let mut boxes: Vec<&SealedBox> = deposits.iter().map(|deposit| &deposit.sealed).collect();
        displace(&mut contents, forgery);
        match forgery {
            Some(Forgery::SwappedBoxes) if boxes.len() > 1 => boxes.rotate_left(1),
            Some(Forgery::OneBoxEverywhere) => {
                let everywhere = theirs.iter().map(|deposit| &deposit.sealed).next();
                boxes.iter_mut().zip(everywhere.into_iter().cycle()).for_each(|(place, one)| *place = one);
            }
            Some(Forgery::SomeLabels) => labels.iter_mut().step_by(2).for_each(|label| label.0[0] ^= 0xff),
            _ => {}
        }
        let encoding = Encoding::new(labels.len(), contents).unwrap();
        let mut mapping =
            BloomMapping::build(&seed, &*code, &encoding, &labels, manifest.bucket_size).unwrap();
        if forgery == Some(Forgery::OtherMapping) {
            manifest.mapping_digest = BloomMapping::digest(&mapping);
        }
        let filters = MAPPING_HEADER_BYTES + 4 * usize::from(manifest.buckets);
        match forgery {
            Some(Forgery::AllOnes | Forgery::OtherMapping) => mapping[filters..].fill(0xff),
            Some(Forgery::AllZeros) => mapping[filters..].fill(0),
            _ => {}
        }
        let boxes: Vec<u8> = boxes.iter().flat_map(|sealed| sealed.0).collect();
        Self { encoding, boxes, mapping }
    }

    /// Where nobody has deposited anything stands what follows from the seed.
    fn in_table(
        deposits: &[Deposit],
        theirs: &[Deposit],
        manifest: &mut Manifest,
        forgery: Option<Forgery>,
    ) -> Self {
        let table = Table::holding(1).unwrap();
        let mut boxes = vec![0; table.places() as usize * BOX_BYTES];
        ChaCha20Rng::from_seed(manifest.round_seed).fill_bytes(&mut boxes);
        table.lay(deposits, &manifest.round_seed).fill_all(&mut boxes);
        manifest.entries = table.places().into();
        manifest.bucket_size =
            table.places().div_ceil(u32::from(manifest.buckets / u16::from(manifest.choices)));
        match forgery {
            Some(Forgery::SwappedBoxes) => boxes.rotate_left(BOX_BYTES),
            Some(Forgery::OneBoxEverywhere) => {
                let everywhere = theirs.first().map(|deposit| deposit.sealed.0);
                let places = boxes.chunks_mut(BOX_BYTES);
                places
                    .zip(everywhere.into_iter().cycle())
                    .for_each(|(place, one)| place.copy_from_slice(&one));
            }
            _ => {}
        }
        let keys: Vec<[u8; 8]> = (0..manifest.entries).map(PartitionedCode::key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let encoding = manifest.slot_code().unwrap().encode(&keys);
        let mut contents: Vec<Vec<Codeword>> = encoding.buckets().iter().cloned().collect();
        displace(&mut contents, forgery);
        Self { encoding: Encoding::new(keys.len(), contents).unwrap(), boxes, mapping: Vec::new() }
    }
}

impl Ready {
    /// Builds a round; a forged one for somebody.
    pub(crate) fn new(material: Material<'_>, forged: Option<(Forgery, &Account)>) -> Self {
        let Material { deposited, mut manifest, key, root, segment, engine } = material;
        let forgery = forged.map(|(forgery, _)| forgery);
        let foreign = |owner: &Account| forged.is_some_and(|(_, account)| account != owner);
        let keeps = |owner: &Account| match forgery {
            Some(Forgery::OnlyTheirOwn) => !foreign(owner),
            Some(Forgery::Empty) => false,
            _ => true,
        };
        let kept = deposited.iter().filter(|(owner, _)| keeps(owner));
        let mut deposits: Vec<Deposit> = kept.map(|(_, deposit)| deposit.clone()).collect();
        let theirs: Vec<Deposit> = deposited
            .iter()
            .filter(|(owner, _)| foreign(owner))
            .map(|(_, deposit)| deposit.clone())
            .collect();
        match (forgery, forged) {
            (Some(Forgery::MoreDeposits), _) => deposits.extend((1..=3).map(|fill| Deposit {
                label: if manifest.code.has_slots() {
                    table::stored(20 + u32::from(fill), &[fill; KNOCK_BYTES])
                } else {
                    Label([fill ^ manifest.round_seed[0]; LABEL_BYTES])
                },
                sealed: SealedBox([fill; BOX_BYTES]),
            })),
            (Some(Forgery::OtherSeed), Some((_, account))) => {
                manifest.round_seed.iter_mut().zip(account).for_each(|(byte, other)| *byte ^= other);
            }
            (Some(Forgery::Chain), _) => manifest.previous[0] ^= 1,
            _ => {}
        }
        let Laid { encoding, boxes, mut mapping } = if manifest.code.has_slots() {
            Laid::in_table(&deposits, &theirs, &mut manifest, forgery)
        } else {
            Laid::by_labels(deposits, &theirs, &mut manifest, forgery)
        };
        let mut database: Option<Arc<dyn PreparedRound>> = None;
        let (mut contents, mut digests) = (Vec::new(), Vec::new());
        if let Some(Forgery::Counts(entries, bucket_size)) = forgery {
            (manifest.entries, manifest.bucket_size) = (entries, bucket_size);
            let bytes = mapping_bytes(manifest.shape(), bucket_size);
            mapping = vec![0x5a; usize::try_from(bytes).unwrap().min(1 << 22)];
        } else {
            let padded = manifest.bucket_size as usize;
            let buckets = encoding.materialise(BOX_BYTES, &boxes, padded).unwrap();
            let spec = round_spec(engine, &root, &manifest).unwrap();
            let different = Contents { different: &buckets, copies: 1 };
            database = Some(Arc::from(engine.prepare(&spec, different).unwrap()));
            digests = (0..).zip(&buckets).map(|(number, boxes)| bucket_digest(number, boxes)).collect();
            manifest.buckets_digest = buckets_digest(&digests);
            contents = buckets;
        }
        if forgery != Some(Forgery::OtherMapping) && !manifest.code.has_slots() {
            manifest.mapping_digest = BloomMapping::digest(&mapping);
        }
        let mut hint = Bytes::new();
        let spec = round_spec(engine, &root, &manifest);
        let sizes = spec.as_ref().and_then(|spec| engine.sizes(spec).ok());
        if let (Some(spec), Some(sizes)) = (spec, &sizes) {
            manifest.profile = spec.profile.0;
            // Of a round that has only a size, anything.
            hint = match &database {
                Some(database) => Bytes::copy_from_slice(database.hint()),
                None => vec![0x5a; sizes.hint.bytes()].into(),
            };
            if forgery == Some(Forgery::WrongHint) {
                let mut wrong = hint.to_vec();
                (0..sizes.units.count()).for_each(|unit| wrong[sizes.hint.range(unit)][7] ^= 1);
                hint = wrong.into();
            }
            manifest.hint_digest = hint_digest(&unit_hint_digests(sizes.hints(&hint).unwrap()));
        }
        match forgery {
            Some(Forgery::Profile) => manifest.profile = [0xff; 16],
            Some(Forgery::Hint) => manifest.hint_digest[0] ^= 1,
            _ => {}
        }
        let signed = SignedManifest::sign(&manifest, key).with_segment(segment);
        Self {
            manifest,
            signed,
            at: Instant::now(),
            mapping: mapping.into(),
            hint,
            database,
            sizes,
            boxes,
            contents,
            digests,
        }
    }

    /// The same as the successor of another round than it is.
    pub(crate) fn after(&self, previous: [u8; 32], key: &SigningKey) -> Self {
        let manifest = Manifest { previous, ..self.manifest.clone() };
        let signed = SignedManifest::sign(&manifest, key).with_segment(self.signed.segment.clone());
        let (mapping, database) = (self.mapping.clone(), self.database.clone());
        let (contents, digests) = (self.contents.clone(), self.digests.clone());
        Self {
            manifest,
            signed,
            at: self.at,
            mapping,
            hint: self.hint.clone(),
            database,
            sizes: self.sizes,
            boxes: self.boxes.clone(),
            contents,
            digests,
        }
    }

    /// The answers to a multi-query; of noise if there is nothing to answer with. None if it is no query.
    pub(crate) fn answer(&self, keys: &PublicKeys, request: &[u8]) -> Option<Bytes> {
        let sizes = self.sizes?;
        let Some(database) = &self.database else { return Some(vec![0x5a; sizes.answer.bytes()].into()) };
        let tile = [Query { keys, request }];
        let answers = (0..sizes.units.count()).map(|unit| database.answer(unit, &tile).pop()?.ok());
        Some(answers.collect::<Option<Vec<_>>>()?.concat().into())
    }
}
