//! Nodes that follow others, which come and go, and from which they are torn; and whose own disks fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;

use super::{Fed, Feeding, FollowingLog, Food, Kept, LOOKING, LogId, Upstream, Writer};
use crate::entry::{Entry, decode_one, log_id};
use crate::kept::Behind;
use crate::testing::options;
use crate::testing::{History, Simulated};
use crate::tests::{entries, rng};
use crate::{Feed, LogError, Phase, Role, RoundLog, Sequencer};

/// Nodes that can be followed, one chosen by dice, for as long as the dice say.
struct Others {
    nodes: Arc<Mutex<Vec<Kept>>>,
    dice: StdRng,
    /// How many snapshots were sent.
    snapshots: Arc<Mutex<u64>>,
}

impl Upstream for Others {
    async fn follow(&mut self, mut last: Option<LogId>) -> Option<Feeding> {
        let nodes = self.nodes.lock().unwrap().clone();
        let kept = nodes.get(self.dice.random_range(0..nodes.len().max(1)))?.clone();
        if let Some(last) = last {
            assert_ne!(kept.is_of_log(last).await.unwrap(), Some(false), "nobody has another log");
        }
        let (messages, snapshots) = (self.dice.random_range(1..20), Arc::clone(&self.snapshots));
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for _ in 0..messages {
                let what = match kept.behind(last).await.unwrap() {
                    Behind::Nothing => {
                        sleep(Duration::from_millis(5)).await;
                        Food::Entries(Vec::new())
                    }
                    Behind::Entries(entries, upto) => {
                        last = Some(upto);
                        Food::Entries(entries.iter().map(|entry| decode_one(entry).unwrap()).collect())
                    }
                    Behind::Snapshot(bytes, upto) => {
                        last = upto;
                        *snapshots.lock().unwrap() += 1;
                        Food::Snapshot(bytes)
                    }
                };
                if sender.send(Fed { leader: Some(7), what }).await.is_err() {
                    return;
                }
            }
        });
        Some(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn is_better_there(&mut self, _: Option<LogId>) -> bool {
        false
    }
}

async fn source() -> Kept {
    let disk = Arc::new(Simulated::default());
    let (writer, opened) = Writer::start_inline(disk, options(1), || Duration::ZERO).await.unwrap();
    Kept::new(writer, opened)
}

async fn start(disk: &Simulated, upstream: Others) -> Result<(FollowingLog, Kept), LogError> {
    let mut joined = None;
    let joining = |kept: Kept, _| joined = Some(kept);
    let pace = || Duration::from_millis(1);
    let log = FollowingLog::start_inline(upstream, joining, Arc::new(disk.clone()), options(2), pace).await?;
    Ok((log, joined.unwrap()))
}

/// Waits until one has all that another has, and compares the two; or until its disk has crashed.
async fn agree(log: &FollowingLog, source: &Kept, disk: &Simulated) {
    let until = Instant::now() + Duration::from_secs(60);
    while log.kept.machine.lock().applied != source.machine.lock().applied {
        if disk.crashed() {
            return;
        }
        assert!(Instant::now() < until, "it does not come");
        sleep(Duration::from_millis(10)).await;
    }
    let (found, expected) = (log.state().clone(), source.machine.lock().clone());
    assert_eq!(History::from(&found), History::from(&expected));
    assert_eq!((&found.accounts, &found.tokens), (&expected.accounts, &expected.tokens));
    for (round, phase) in expected.rounds() {
        assert_eq!(found.rounds[&round], expected.rounds[&round]);
        if phase != Phase::Open {
            assert_eq!(log.sealed(round).await.unwrap(), source.sealed(round).await.unwrap());
        }
    }
    assert_eq!(*log.role().borrow(), Role::Follows { leader: Some(7) });
}

#[tokio::test(start_paused = true)]
async fn who_follows_has_what_was_committed_whatever_breaks() {
    const ENTRIES: usize = 300;
    const LIVES: usize = 4;
    let (mut crashes, snapshots) = (0, Arc::new(Mutex::new(0)));
    for seed in 0..20 {
        let mut dice = rng(seed);
        let source = source().await;
        let nodes = Arc::new(Mutex::new(vec![source.clone()]));
        let others = |dice: &mut StdRng| Others {
            nodes: Arc::clone(&nodes),
            dice: rng(dice.random()),
            snapshots: Arc::clone(&snapshots),
        };
        let calm = Simulated::default();
        // One follows the source or another one that does, which stays.
        let (between, kept) = start(&calm, others(&mut dice)).await.unwrap();
        nodes.lock().unwrap().push(kept);
        let mut disk = Simulated::default();
        let mut entries = entries(seed, ENTRIES as u64).into_iter();
        for life in 0..LIVES {
            let is_last = life + 1 == LIVES;
            disk.crash_at((!is_last).then(|| dice.random_range(0..60)));
            let log = start(&disk, others(&mut dice)).await;
            for entry in entries.by_ref().take(ENTRIES / LIVES) {
                assert!(source.take_entries(vec![entry]).await.unwrap());
                source.reclaim().await.unwrap();
                between.reclaim().await.unwrap();
                sleep(Duration::from_millis(dice.random_range(0..10))).await;
            }
            if let Ok((log, _)) = log {
                agree(&log, &source, &disk).await;
                if disk.crashed() {
                    // Whoever asks who leads is told that it ended, and why.
                    let mut role = log.role();
                    while role.changed().await.is_ok() {}
                    assert!(matches!(log.failure(), LogError::File { .. }), "{}", log.failure());
                } else if let Err(error) = log.reclaim().await {
                    assert!(disk.crashed(), "{error}");
                }
                log.close().await;
            }
            crashes += usize::from(disk.crashed());
            disk = disk.survivor(dice.random());
        }
        agree(&between, &source, &calm).await;
        // Who comes now finds that the beginning is gone.
        let (late, _) = start(&Simulated::default(), others(&mut dice)).await.unwrap();
        agree(&late, &source, &calm).await;
        late.close().await;
        between.close().await;
    }
    assert!(crashes > 20, "{crashes} crashes");
    assert!(*snapshots.lock().unwrap() > 20, "snapshots {}", snapshots.lock().unwrap());
}

/// Says one thing and then nothing, as often as it is asked.
struct Liar(Vec<Entry>);

impl Upstream for Liar {
    async fn follow(&mut self, _: Option<LogId>) -> Option<Feeding> {
        let fed = Fed { leader: Some(1), what: Food::Entries(self.0.clone()) };
        Some(Box::pin(tokio_stream::once(fed)))
    }

    async fn is_better_there(&mut self, _: Option<LogId>) -> bool {
        false
    }
}

/// Follows somebody who has always more to tell, until there is somebody better.
struct SecondChoice {
    there: watch::Receiver<bool>,
    asked: mpsc::UnboundedSender<()>,
}

impl Upstream for SecondChoice {
    async fn follow(&mut self, last: Option<LogId>) -> Option<Feeding> {
        self.asked.send(()).unwrap();
        let next = last.map_or(0, |last| last.index + 1);
        let entry = |index| Entry { log_id: log_id(1, 1, index), payload: openraft::EntryPayload::Blank };
        let fed = move |index| Fed { leader: Some(1), what: Food::Entries(vec![entry(index)]) };
        Some(Box::pin(tokio_stream::iter((next..).map(fed))))
    }

    async fn is_better_there(&mut self, _: Option<LogId>) -> bool {
        *self.there.borrow()
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_better_is_followed_once_there_and_more_seldom_each_time() {
    let (there, seen) = watch::channel(false);
    let (asked, mut asks) = mpsc::unbounded_channel();
    let (upstream, disk) = (SecondChoice { there: seen, asked }, Arc::new(Simulated::default()));
    let pace = || Duration::from_millis(20);
    let log = FollowingLog::start_inline(upstream, |_, _| {}, disk, options(1), pace).await.unwrap();
    asks.recv().await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(asks.try_recv().is_err(), "who was followed was left for nobody");
    there.send_replace(true);
    let [first, most] = LOOKING;
    let disk = Duration::from_millis(100);
    timeout(first + disk, asks.recv()).await.expect("nobody looks for a better one");
    // Somebody who is soon lost again is not gone to for ever.
    for pause in [2 * first, 4 * first, 8 * first] {
        let from = Instant::now();
        timeout(pause + disk, asks.recv()).await.expect("nobody looks for a better one").unwrap();
        assert!(from.elapsed() > pause - disk);
    }
    let entries = log.state().next_index();
    assert!(entries > 1000 && most > 8 * first, "{entries} entries");
    log.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_follow_is_not_taken() {
    let good = entries(1, 20);
    let (mut gap, mut older) = (good[..10].to_vec(), good[..10].to_vec());
    gap.remove(4);
    older[9].log_id = log_id(0, 1, 9);
    for (wrong, right) in [(gap, None), (older, None), (good[1..].to_vec(), None), (good.clone(), Some(19))] {
        let disk = Arc::new(Simulated::default());
        let pace = || Duration::ZERO;
        let log = FollowingLog::start_inline(Liar(wrong), |_, _| {}, disk, options(1), pace).await.unwrap();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(log.state().applied.map(|last| last.index), right);
        log.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_another_log_is_told_from_one_of_this() {
    let source = source().await;
    let all = entries(3, 300);
    for some in all[..250].chunks(10) {
        assert!(source.take_entries(some.to_vec()).await.unwrap());
    }
    source.reclaim().await.unwrap();
    let purged = source.writer.run(|store| Ok(store.bounds().0)).await.unwrap().unwrap();
    assert!(purged.index > 0 && purged.index < 249);
    let is_of_log = async |index| source.is_of_log(log_id(1, 1, index)).await.unwrap();
    assert_eq!(is_of_log(249).await, Some(true));
    assert_eq!(is_of_log(purged.index).await, Some(true));
    assert_eq!(source.is_of_log(log_id(2, 1, 249)).await.unwrap(), Some(false));
    // Not yet, and not any more.
    assert_eq!(is_of_log(250).await, None);
    assert_eq!(is_of_log(purged.index - 1).await, None);
}
