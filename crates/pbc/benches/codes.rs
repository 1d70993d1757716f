//! Figure 15 of the paper: Encode, GenSchedule and Decode of every code, on one core, for 524,288 elements of 288
//! bytes and batches of 64.
//!
//! Encode includes the bytes of the buckets. *into used memory* writes them into the buffers of the encoding before, as
//! a server does round by round; *into fresh memory* includes what the operating system takes to hand out the pages.
//! Buckets of the same content are made once. *schedule drawn* is what clients take: of all schedules one at random, in constant
//! time; for batches of other sizes by the code that Sotto runs.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pbc::{
    BatchCode, CuckooCode, HybridCode, PartitionedCode, ReplicationCode, Search, ShardingCode, TwoChoiceCode,
};

const ELEMENTS: usize = 524_288;
const ELEMENT_BYTES: usize = 288;
const BATCH: usize = 64;

fn codes() -> Vec<(&'static str, Box<dyn BatchCode>)> {
    let seed = [7; 32];
    let cuckoo = CuckooCode::recommended(BATCH, 3, seed).unwrap();
    let walk = Search::RandomWalk { displacements: 1_000 };
    vec![
        ("replication", Box::new(ReplicationCode::new(BATCH, seed).unwrap())),
        ("sharding", Box::new(ShardingCode::of_paper(BATCH, seed).unwrap())),
        ("two-choice", Box::new(TwoChoiceCode::of_paper(BATCH, seed).unwrap())),
        ("hybrid", Box::new(HybridCode::of_paper(BATCH, seed).unwrap())),
        ("cuckoo", Box::new(cuckoo.clone())),
        ("cuckoo, random walk", Box::new(cuckoo.with_search(walk))),
        ("partitioned", Box::new(PartitionedCode::new(BATCH, 96, 3, ELEMENTS, seed).unwrap())),
    ]
}

fn benchmarks(criterion: &mut Criterion) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let keys: Vec<[u8; 8]> = (0..ELEMENTS as u64).map(u64::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let elements: Vec<u8> = (0..ELEMENTS * ELEMENT_BYTES).map(|i| (i / 7) as u8).collect();
    let wanted: Vec<&[u8]> = keys.iter().step_by(ELEMENTS / BATCH).copied().collect();

    for (name, code) in codes() {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        if name != "cuckoo, random walk" {
            let encoding = code.encode(&keys);
            let padded = encoding.largest();
            let mut buffers = Vec::new();
            encoding.materialise_contents(ELEMENT_BYTES, &elements, padded, &mut buffers).unwrap();
            group.bench_function("encode, without bytes", |bench| {
                bench.iter(|| code.encode(black_box(&keys)));
            });
            group.bench_function("encode into used memory", |bench| {
                bench.iter(|| {
                    let encoding = code.encode(black_box(&keys));
                    encoding
                        .materialise_contents(ELEMENT_BYTES, &elements, encoding.largest(), &mut buffers)
                        .unwrap();
                });
            });
            drop(buffers);
            group.bench_function("encode into fresh memory", |bench| {
                bench.iter(|| {
                    let encoding = code.encode(black_box(&keys));
                    let mut buffers = Vec::new();
                    encoding
                        .materialise_contents(ELEMENT_BYTES, &elements, encoding.largest(), &mut buffers)
                        .unwrap();
                    buffers
                });
            });
        }
        group.sample_size(50);
        group.bench_function("schedule", |bench| {
            bench.iter(|| code.schedule(black_box(&wanted), &|_, _| true));
        });
        group.bench_function("schedule drawn", |bench| {
            let mut words = words();
            bench.iter(|| code.schedule_drawn(black_box(&wanted), &mut words));
        });
        let codewords = [&elements[..ELEMENT_BYTES], &elements[..ELEMENT_BYTES]];
        let summands = if name == "hybrid" { 2 } else { 1 };
        group.bench_function("decode", |bench| {
            bench.iter(|| code.decode(black_box(&codewords[..summands])));
        });
        group.finish();
    }

    let mut group = criterion.benchmark_group("cuckoo, batches");
    for batch in [16, 64, 256] {
        let code = CuckooCode::recommended(batch, 3, [7; 32]).unwrap();
        let wanted: Vec<&[u8]> = keys.iter().step_by(ELEMENTS / batch).copied().collect();
        let mut words = words();
        group.bench_function(format!("schedule drawn, {batch}"), |bench| {
            bench.iter(|| code.schedule_drawn(black_box(&wanted), &mut words));
        });
    }
    group.finish();
}

fn words() -> impl FnMut() -> u64 {
    let mut word = 0u64;
    move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word
    }
}

criterion_group!(codes_of_the_paper, benchmarks);
criterion_main!(codes_of_the_paper);
