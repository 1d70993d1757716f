//! The screen with 100,000 texts in memory, without a terminal: what happens between a key or a message and what is handed
//! to the terminal, at 120 columns and 40 rows.
#![allow(missing_docs, reason = "a benchmark")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sotto::screen::stage::Stage;

const TEXTS: u32 = 100_000;

fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("screen");
    group.sample_size(20);
    for conversations in [4, 255] {
        let mut stage = Stage::with_texts(conversations, TEXTS);
        assert_eq!(stage.texts(), TEXTS as usize);
        let of = |what: &str| format!("{what}, {conversations} conversations");
        group.bench_function(of("attach again"), |bencher| {
            bencher.iter(|| {
                stage.attach_again();
                stage.redraw();
            });
        });
        group.bench_function(of("switch"), |bencher| bencher.iter(|| stage.switch()));
        group.bench_function(of("draw anew"), |bencher| bencher.iter(|| stage.redraw()));
        group.bench_function(of("a text comes, and one is forgotten"), |bencher| {
            bencher.iter(|| {
                stage.hear_one(0);
                stage.redraw();
            });
        });
        group.bench_function(of("search without success"), |bencher| bencher.iter(|| stage.search()));
    }
    group.bench_function("100,000 texts come, and are drawn", |bencher| {
        bencher.iter_batched(|| (), |()| Stage::with_texts(4, TEXTS), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(screen, benchmarks);
criterion_main!(screen);
