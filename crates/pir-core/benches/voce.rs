//! Voce: the set-up of a pack, and answers to tiles of clients.
//!
//! Every time is for all that the name says: `setup` of one unit, on one thread; `answer` of one unit to all clients of a tile.

use criterion::{Criterion, criterion_group, criterion_main};
use pir_core::ring::Backend;
use pir_core::voce::{Ending, Pools, Request, Shape, Unit, request, select};

const SEED: [u8; 32] = [9; 32];
const BYTES: usize = 288;

/// Buckets of 2^18 elements in three copies at k = 256, 64, 16 and of one alone, with columns as [`Shape::choose`] would, or more.
const SHAPES: [(usize, usize); 5] = [(2_048, 1), (8_192, 4), (32_768, 8), (32_768, 16), (262_144, 32)];

/// The same where a column is selected.
const SELECTED: [(usize, usize); 5] = [(2_048, 4), (8_192, 8), (22_528, 12), (32_768, 16), (262_144, 64)];

fn contents(shape: &Shape) -> Vec<Vec<u8>> {
    let byte = |at: usize| (at.wrapping_mul(0x9E37_79B9) >> 13) as u8;
    let bucket = |number| (0..shape.elements() * BYTES).map(|at| byte(at ^ number << 20)).collect();
    (0..shape.unit_buckets()).map(bucket).collect()
}

fn unit(pool: &Pools, shape: &Shape, contents: &[Vec<u8>]) -> Unit {
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    Unit::new(pool, shape, &SEED.into(), 0, &contents).expect("a unit of this shape")
}

fn voce(criterion: &mut Criterion) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let back_end = Backend::active().name();
    for (elements, columns) in SHAPES {
        let shape = Shape::new(Ending::Hint, 1 << 10, elements, BYTES, columns).expect("an admissible shape");
        let name = format!("{elements}x{BYTES}/{columns}-columns/{}-packs/{back_end}", shape.packs());
        let (pool, contents) = (Pools::default(), contents(&shape));
        let mut group = criterion.benchmark_group("voce");
        group.sample_size(10);
        group.bench_function(format!("setup/{name}"), |b| {
            b.iter(|| one.install(|| unit(&pool, &shape, &contents)));
        });
        let unit = unit(&pool, &shape, &contents);
        let targets = vec![7; shape.unit_buckets()];
        let asked: Vec<Vec<u8>> = (0..64)
            .map(|client| request(&shape, &SEED, &targets, &[client; 32]).expect("targets in range").0)
            .collect();
        for clients in [1, 4, 16, 64] {
            let requests = asked.iter().take(clients);
            let requests = requests.map(|bytes| Request::new(&shape, shape.unit_buckets(), bytes));
            let tile: Vec<_> = requests.map(|request| request.expect("just made")).collect();
            let tile: Vec<_> = tile.iter().collect();
            group.bench_function(format!("answer/{clients}/{name}"), |b| b.iter(|| unit.answer(0, &tile)));
        }
        group.finish();
    }
}

fn selected(criterion: &mut Criterion) {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let back_end = Backend::active().name();
    for (elements, columns) in SELECTED {
        // A single database at k = 1.
        let buckets = if columns == 64 { 1 } else { 1 << 10 };
        let shape =
            Shape::new(Ending::Selected, buckets, elements, BYTES, columns).expect("an admissible shape");
        let name =
            format!("{elements}x{BYTES}/{columns}-columns/{}-buckets/{back_end}", shape.unit_buckets());
        let (pool, contents) = (Pools::default(), contents(&shape));
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let unit =
            || select::Unit::new(&pool, &shape, &SEED.into(), 0, &contents).expect("a unit of this shape");
        let mut group = criterion.benchmark_group("voce-selected");
        group.sample_size(10);
        group.bench_function(format!("setup/{name}"), |b| b.iter(|| one.install(unit)));
        let unit = unit();
        let targets = vec![7; shape.unit_buckets()];
        let clients: Vec<_> = (0..16)
            .map(|client| {
                let mut secret = select::Secret::new(&[client; 32]);
                let keys = select::PublicKeys::read(&secret.public_keys()).expect("just made");
                let (bytes, _) =
                    secret.request(&shape, &SEED, &targets, &[client + 64; 32]).expect("targets in range");
                (keys, bytes)
            })
            .collect();
        for tile in [1, 16] {
            let requests = clients.iter().take(tile);
            let requests: Vec<_> = requests
                .map(|(keys, bytes)| select::Request::new(&shape, shape.unit_buckets(), keys, bytes))
                .map(|request| request.expect("just made"))
                .collect();
            let requests: Vec<_> = requests.iter().collect();
            group.bench_function(format!("answer/{tile}/{name}"), |b| b.iter(|| unit.answer(0, &requests)));
        }
        group.finish();
    }
}

criterion_group!(benches, voce, selected);
criterion_main!(benches);
