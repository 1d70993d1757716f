//! Rounds that the server builds and signs anew for one person, and answers itself: the engine of these tests hides
//! nothing, and a server with a real one could do the same without looking at the queries.

use ed25519_dalek::SigningKey;
use pbc::{Codeword, Encoding};
use sotto_protocol::deposit::{self, BOX_BYTES, LABEL_BYTES};
use sotto_protocol::manifest::{self, Manifest, SignedManifest};
use sotto_protocol::mapping::MAPPING_HEADER_BYTES;
use sotto_protocol::{BloomMapping, Deposit, Label, SealedBox};

use crate::lies::Account;

/// Bytes of a query of the engine without privacy; the first 8 are the position.
const QUERY_BYTES: usize = 16;

/// How a forged round differs from the honest one. But for [`Forgery::OtherMapping`], the manifest fits to what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// The same deposits under another seed.
    OtherSeed,
    /// Deposits that nobody made stand among the others.
    MoreDeposits,
    /// What the others deposited is left out.
    OnlyTheirOwn,
    /// Every bucket's content stands in the next bucket.
    OtherBuckets,
    /// The order within every bucket is turned round.
    OtherPositions,
    /// Each label has the next label's box.
    SwappedBoxes,
    /// One box that somebody else deposited stands everywhere.
    OneBoxEverywhere,
    /// The filters show every label everywhere.
    AllOnes,
    /// The filters show no label anywhere.
    AllZeros,
    /// The filters show every other deposit only.
    SomeLabels,
    /// The mapping is the one with all ones, the manifest that of the honest one.
    OtherMapping,
}

/// A forged round.
pub(crate) struct Forged {
    pub(crate) signed: SignedManifest,
    pub(crate) mapping: Vec<u8>,
    buckets: Vec<Vec<u8>>,
}

impl Forged {
    /// Forges a round for an account: what was deposited, and by whom, and the manifest to begin with.
    pub(crate) fn new(
        forgery: Forgery,
        account: &Account,
        deposited: &[(Account, Deposit)],
        mut manifest: Manifest,
        key: &SigningKey,
    ) -> Self {
        let theirs = |owner: &Account| forgery != Forgery::OnlyTheirOwn || owner == account;
        let mut deposits: Vec<Deposit> =
            deposited.iter().filter(|(owner, _)| theirs(owner)).map(|(_, deposit)| deposit.clone()).collect();
        let foreign = deposited.iter().find(|(owner, _)| owner != account);
        if forgery == Forgery::MoreDeposits {
            deposits.extend((1..=3).map(|fill| Deposit {
                label: Label([fill ^ manifest.round_seed[0]; LABEL_BYTES]),
                sealed: SealedBox([fill; BOX_BYTES]),
            }));
        }
        // Seeds were fixed beforehand: whoever shows another one is found out at once.
        if forgery == Forgery::OtherSeed {
            manifest.round_seed.iter_mut().zip(account).for_each(|(byte, other)| *byte ^= other);
        }
        let seed = manifest.round_seed;
        deposit::arrange(&mut deposits, &seed);
        manifest.entries = deposits.len() as u64;
        manifest.deposits_digest = manifest::deposits_digest(&deposits);

        let mut labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let code = manifest.code().unwrap();
        let encoding = code.encode(&keys);
        let mut contents: Vec<Vec<Codeword>> = encoding.buckets().iter().cloned().collect();
        let mut boxes: Vec<&SealedBox> = deposits.iter().map(|deposit| &deposit.sealed).collect();
        match forgery {
            Forgery::OtherBuckets => contents.rotate_right(1),
            Forgery::OtherPositions => contents.iter_mut().for_each(|bucket| bucket.reverse()),
            Forgery::SwappedBoxes if boxes.len() > 1 => boxes.rotate_left(1),
            Forgery::OneBoxEverywhere => {
                let everywhere = foreign.map(|(_, deposit)| &deposit.sealed);
                boxes.iter_mut().zip(everywhere.into_iter().cycle()).for_each(|(place, one)| *place = one);
            }
            Forgery::SomeLabels => labels.iter_mut().step_by(2).for_each(|label| label.0[0] ^= 0xff),
            _ => {}
        }
        let encoding = Encoding::new(labels.len(), contents).unwrap();
        manifest.bucket_size = encoding.largest().max(1) as u32;
        let mut mapping =
            BloomMapping::build(&seed, &*code, &encoding, &labels, manifest.bucket_size).unwrap();
        if forgery == Forgery::OtherMapping {
            manifest.mapping_digest = BloomMapping::digest(&mapping);
        }
        let filters = MAPPING_HEADER_BYTES + 4 * usize::from(manifest.buckets);
        match forgery {
            Forgery::AllOnes | Forgery::OtherMapping => mapping[filters..].fill(0xff),
            Forgery::AllZeros => mapping[filters..].fill(0),
            _ => {}
        }
        if forgery != Forgery::OtherMapping {
            manifest.mapping_digest = BloomMapping::digest(&mapping);
        }
        let elements: Vec<u8> = boxes.iter().flat_map(|sealed| sealed.0).collect();
        let buckets = encoding.materialise(BOX_BYTES, &elements, manifest.bucket_size as usize).unwrap();
        manifest.check().unwrap();
        Self { signed: SignedManifest::sign(&manifest, key), mapping, buckets }
    }

    /// The answers to a multi-query.
    pub(crate) fn answer(&self, query: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        for (bucket, query) in self.buckets.iter().zip(query.chunks_exact(QUERY_BYTES)) {
            let position = usize::from(u16::from_le_bytes([query[0], query[1]]));
            answers.extend_from_slice(&bucket[position * BOX_BYTES..(position + 1) * BOX_BYTES]);
        }
        answers
    }
}
