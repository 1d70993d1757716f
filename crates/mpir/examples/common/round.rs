//! A round with a mapping, for programs that watch how labels are looked up in it.

use sotto_protocol::manifest::{MAPPING_BLOOM, Manifest};
use sotto_protocol::{BloomMapping, CodeKind, Label, MANIFEST_VERSION, Round};

/// A round in which boxes lie under these labels, and its mapping.
pub(crate) fn published(
    seed: [u8; 32],
    kind: CodeKind,
    [retrieve, buckets, choices]: [u16; 3],
    labels: &[Label],
) -> (Manifest, BloomMapping) {
    let mut manifest = Manifest {
        version: MANIFEST_VERSION,
        round: Round(1),
        entries: labels.len() as u64,
        engine: "example".to_owned(),
        code: kind,
        retrieve,
        buckets,
        choices: choices as u8,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: 1,
        round_seed: seed,
        mapping_digest: [0; 32],
        deposits_digest: [0; 32],
        buckets_digest: [0; 32],
        profile: [0; 16],
        hint_digest: [0; 32],
        previous: [0; 32],
    };
    let code = manifest.code().expect("a code of this shape");
    let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
    let encoding = code.encode(&keys);
    manifest.bucket_size = encoding.largest() as u32;
    let encoded = BloomMapping::build(&manifest.round_seed, &*code, &encoding, labels, manifest.bucket_size)
        .expect("the encoding of these labels");
    manifest.mapping_digest = BloomMapping::digest(&encoded);
    let mapping = BloomMapping::decode(&encoded, &manifest).expect("what was just encoded");
    (manifest, mapping)
}
