//! Sizes of the mapping, and what its false positives do, for a round of N random labels.
//!
//! ```sh
//! cargo run --release -p sotto-protocol --example mapping -- 16 262144 100000
//! ```
//! takes k, n and the number of labels to look up: so many that were not deposited, and so many that were.
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use pbc::recommended_buckets;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_protocol::manifest::{MAPPING_BLOOM, Manifest};
use sotto_protocol::{BloomMapping, CodeKind, Label, Lookup, MANIFEST_VERSION, Round};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let &[k, n, lookups] = &numbers[..] else { return Err("usage: mapping K N LOOKUPS".into()) };
    let w = if k == 1 { 1 } else { 3 };
    let b = recommended_buckets(k, w).unwrap_or(1);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let labels: Vec<Label> = (0..n).map(|_| label(&mut rng)).collect();

    let mut manifest = Manifest {
        version: MANIFEST_VERSION,
        round: Round(1),
        entries: n as u64,
        engine: "example".to_owned(),
        code: if k == 1 { CodeKind::Single } else { CodeKind::Cuckoo },
        retrieve: u16::try_from(k)?,
        buckets: u16::try_from(b)?,
        choices: u8::try_from(w)?,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: 1,
        round_seed: [5; 32],
        mapping_digest: [0; 32],
        deposits_digest: [0; 32],
        buckets_digest: [0x66; 32],
        profile: [0x77; 16],
        hint_digest: [0x88; 32],
        previous: [0; 32],
    };
    let code = manifest.code()?;
    let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
    let encoding = code.encode(&keys);
    manifest.bucket_size = u32::try_from(encoding.largest().max(1))?;
    let encoded =
        BloomMapping::build(&manifest.round_seed, &*code, &encoding, &labels, manifest.bucket_size)?;
    manifest.mapping_digest = BloomMapping::digest(&encoded);
    manifest.check()?;
    let mapping = BloomMapping::decode(&encoded, &manifest)?;
    println!(
        "k {k}, b {b}, w {w}, n {n}: bucket_size {}, mapping {} bytes",
        manifest.bucket_size,
        encoded.len()
    );

    let hits_of = |label: &Label| -> Vec<usize> {
        let holders = code.holders(&label.0).into_iter();
        holders.map(|content| mapping.hits(&*code, content, label).len()).collect()
    };

    // One that was not deposited: a bucket shows it by error; it is asked for if all its buckets do.
    let (mut buckets_with_hits, mut hits, mut shown) = (0, 0, 0);
    for _ in 0..lookups {
        let found = hits_of(&label(&mut rng));
        buckets_with_hits += found.iter().filter(|hits| **hits > 0).count();
        hits += found.iter().sum::<usize>();
        shown += usize::from(found.iter().all(|hits| *hits > 0));
    }
    let tests = (lookups * w) as f64;
    let rate = buckets_with_hits as f64 / tests;
    println!(
        "absent: {:.3e} false hits per bucket, {rate:.3e} of the buckets have one; {shown} of {lookups} labels shown, \
         expected rate {:.1e}",
        hits as f64 / tests,
        rate.powi(w as i32)
    );

    // One that was: it is missed if a bucket does not show it, and ambiguous if its bucket, which is one of them, shows
    // others beside it.
    let (mut missed, mut beside) = (0, 0);
    for _ in 0..lookups {
        let found = hits_of(&labels[rng.next_u64() as usize % n]);
        missed += usize::from(found.contains(&0));
        beside += found.iter().filter(|hits| **hits > 1).count();
    }
    println!(
        "present: {missed} of {lookups} missed, {:.3e} of the buckets show more than one place, half of which lose a box",
        beside as f64 / tests
    );

    // A whole batch at once, as a client does in a round, on one thread.
    let mut times: Vec<f64> = Vec::new();
    for batch in labels.chunks_exact(k).take(9) {
        let started = Instant::now();
        black_box(Lookup::new(&*code, &mapping, batch, &mut rng));
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "a look-up of {k} labels: {:.1} ms in the median",
        times.get(times.len() / 2).copied().unwrap_or_default()
    );
    Ok(())
}

fn label(rng: &mut impl Rng) -> Label {
    let mut label = [0; 16];
    rng.fill_bytes(&mut label);
    Label(label)
}
