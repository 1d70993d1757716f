//! An append is told to be durable when it is, in order, and by nobody before.

use std::sync::Arc;
use std::time::Duration;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{EntryPayload, RaftLogReader};
use tokio::sync::oneshot;

use crate::LogError;
use crate::entry::{Entry, Runtime, TypeConfig, Vote, log_id};
use crate::record::{Batch, Record};
use crate::replica::LogStorage;
use crate::store::Store;
use crate::testing::{Simulated, options};
use crate::writer::Writer;

fn entry(index: u64) -> Entry {
    let record = Record::Accounts(vec![[index as u8; 32]]);
    Entry { log_id: log_id(1, 1, index), payload: EntryPayload::Normal(Batch(vec![record])) }
}

type Told = oneshot::Receiver<Result<(), std::io::Error>>;

async fn append(storage: &mut LogStorage, index: u64) -> Told {
    let (flushed, told) = TypeConfig::oneshot();
    storage.append([entry(index)], IOFlushed::signal(flushed)).await.unwrap();
    told
}

/// With a disk that takes its time.
async fn slow(disk: &Simulated) -> (LogStorage, Writer) {
    let pace = || Duration::from_secs(1);
    let (writer, _) = Writer::start_inline(Arc::new(disk.clone()), options(1), pace).await.unwrap();
    let mut storage = LogStorage { writer: writer.clone() };
    storage.save_vote(&Vote::new(9, 1)).await.unwrap();
    (storage, writer)
}

/// How many entries a power failure would leave at least.
fn durable(disk: &Simulated) -> usize {
    (0..8).map(|seed| disk.survivor(seed)).map(|left| entries(&left)).min().unwrap()
}

fn entries(disk: &Simulated) -> usize {
    let (mut store, _) = Store::open(Arc::new(disk.clone()), options(2)).unwrap();
    store.entries(.., u64::MAX).unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn an_append_returns_before_it_is_durable_and_is_told_when_it_is() {
    let disk = Simulated::default();
    let (mut storage, writer) = slow(&disk).await;
    let mut told = Vec::new();
    for index in 0..3 {
        told.push(append(&mut storage, index).await);
    }
    assert!(told.iter_mut().all(|told| told.try_recv().is_err()), "it was told before it was written");
    assert_eq!(durable(&disk), 0);
    // Who reads, reads what was appended, durable or not.
    let mut reader = storage.get_log_reader().await;
    let (read, waited) = tokio::join!(reader.try_get_log_entries(0..3), async {
        for (index, told) in told.iter_mut().enumerate() {
            told.await.unwrap().unwrap();
            assert!(durable(&disk) > index, "it was told before it was durable");
        }
    });
    assert_eq!((read.unwrap(), waited), ((0..3).map(entry).collect(), ()));
    writer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_failed_append_fails_as_well_and_is_told() {
    let disk = Simulated::default();
    let (mut storage, writer) = slow(&disk).await;
    append(&mut storage, 0).await.await.unwrap().unwrap();
    disk.crash_at(Some(disk.trace().len()));
    for told in [append(&mut storage, 1).await, append(&mut storage, 2).await] {
        assert!(told.await.unwrap().is_err());
    }
    assert!(matches!(writer.failure("otherwise"), LogError::File { .. }));
    assert!(durable(&disk) >= 1);
    writer.stop().await;
}

/// Nobody waits for ever for a thread that is gone.
#[tokio::test(start_paused = true)]
async fn an_append_that_nobody_does_is_told() {
    let disk = Simulated::default();
    let (mut storage, writer) = slow(&disk).await;
    // It is ordered behind the end.
    let (told, ()) = tokio::join!(
        async {
            tokio::task::yield_now().await;
            append(&mut storage, 0).await.await
        },
        writer.stop()
    );
    assert!(told.unwrap().is_err());
    assert_eq!(entries(&disk), 0);

    // It is ordered behind what breaks the thread.
    let (mut storage, writer) = slow(&disk).await;
    let broken = |_: &mut Store| -> Result<(), LogError> { panic!("a defect of the store") };
    writer.order(broken, drop).await.unwrap();
    assert!(append(&mut storage, 0).await.await.unwrap().is_err());
    assert_eq!(entries(&disk), 0);
}

/// What openraft draws in a scope follows from its seed.
#[tokio::test]
async fn a_seed_decides_what_is_drawn() {
    use openraft::AsyncRuntime;
    use rand::RngExt;

    let drawn = |seed| {
        Runtime::scope(seed, async {
            let task = Runtime::spawn(async { Runtime::thread_rng().random::<u64>() });
            (task.await.unwrap(), Runtime::thread_rng().random::<u64>())
        })
    };
    assert_eq!(drawn(7).await, drawn(7).await);
    assert_ne!(drawn(7).await, drawn(8).await);
}
