//! The screen with 100,000 texts in memory, and at a participant that keeps 100,000 texts on the disk, without a terminal: what
//! happens between a key or a message and what is handed to the terminal, at 120 columns and 40 rows, with all that goes through
//! the socket.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

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
    for conversations in [1, 4, 255] {
        let directory = tempfile::tempdir().unwrap();
        Stage::fill_history(directory.path(), conversations, TEXTS).unwrap();
        let mut stage = Stage::with_history(directory.path(), conversations);
        assert_eq!(stage.kept(), TEXTS as usize);
        let of = |what: &str| format!("kept: {what}, {conversations} conversations");
        group.bench_function(of("a screen comes"), |bencher| bencher.iter(|| stage.come()));
        assert!(stage.texts() >= 100);
        group.bench_function(of("a page back"), |bencher| bencher.iter(|| stage.page_back()));
        drop(stage);
        let open = || Stage::with_history(directory.path(), conversations);
        group.bench_function(of("the participant comes"), |bencher| bencher.iter_with_large_drop(open));
    }
    group.finish();
}

criterion_group!(screen, benchmarks);
criterion_main!(screen);
