//! Whatever kernel has computed an answer, whoever computes it again with another gets the same bytes. Otherwise an honest
//! server would be convicted by a client on another machine.
//!
//! A process has one kernel for as long as it runs. So each test here starts itself again, with the kernel whose turn it
//! is: once as the server, which writes what it served to a file, and once as the one who checks that.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use pir_core::ring::{Backend, KERNEL_VARIABLE};
use sha2::{Digest as _, Sha256};
use sotto_participant::audit::Verdict;
use sotto_protocol::audit::RECEIPT_BYTES;

use super::judge;
use super::scene::{BUCKETS, Scene, Served};

/// Tells a test that was started again what its part is.
const PART: &str = "SOTTO_TEST_PART";
/// Precedes what a part has to say.
const SAID: &str = "said: ";

/// Some multi-queries of one client in one round.
#[derive(Clone, Copy)]
struct Batch {
    seed: u64,
    /// Boxes of a bucket.
    size: usize,
    queries: usize,
}

impl Batch {
    /// What was served, at full length: for every multi-query the receipt, the queries and the answers.
    fn serve(self) -> Vec<u8> {
        let mut scene = Scene::new(self.seed, self.size);
        let mut file = Vec::new();
        for _ in 0..self.queries {
            let Served { queries, answers, receipt } = scene.serve(|_| {});
            file.extend(receipt);
            queries.iter().chain(&answers).for_each(|bytes| file.extend(bytes));
        }
        file
    }

    /// How many answers were computed again; every one of them is right, as a stranger would find.
    fn audit(self, file: &[u8]) -> usize {
        let scene = Scene::new(self.seed, self.size);
        let [query, answer] = scene.lengths();
        let one = RECEIPT_BYTES + usize::from(BUCKETS) * (query + answer);
        assert_eq!(file.len(), self.queries * one);
        for (number, bytes) in file.chunks(one).enumerate() {
            let (receipt, bytes) = bytes.split_at(RECEIPT_BYTES);
            let (queries, answers) = bytes.split_at(usize::from(BUCKETS) * query);
            let served = Served {
                queries: queries.chunks(query).map(<[u8]>::to_vec).collect(),
                answers: answers.chunks(answer).map(<[u8]>::to_vec).collect(),
                receipt: receipt.try_into().unwrap(),
            };
            for bucket in 0..BUCKETS {
                let verdict = judge(&scene.proof(bucket, &served), &scene.root());
                assert_eq!(
                    verdict,
                    Verdict::Honest,
                    "batch {} of {}: {number}, {bucket}",
                    self.seed,
                    self.size
                );
            }
        }
        self.queries * usize::from(BUCKETS)
    }

    /// Starts a test again for one part of this batch, with a kernel; what it said.
    fn start(self, test: &str, part: &str, kernel: &str, file: &Path) -> String {
        let Self { seed, size, queries } = self;
        let output = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--include-ignored", "--nocapture"])
            .env(PART, format!("{part} {seed} {size} {queries} {}", file.display()))
            .env(KERNEL_VARIABLE, kernel)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{part} with {kernel}: {said}{errors}");
        // A program that finds no such test says nothing and is content.
        let (_, said) = said.split_once(SAID).expect("the test was started again");
        said.lines().next().unwrap_or_default().to_owned()
    }
}

/// Plays the part for which this process was started again, if it was.
fn played() -> bool {
    let Ok(part) = env::var(PART) else { return false };
    // A kernel that there is not would be replaced by another one in silence.
    assert_eq!(env::var(KERNEL_VARIABLE).unwrap(), Backend::active().name());
    let [part, seed, size, queries, file] = part.splitn(5, ' ').collect::<Vec<_>>().try_into().unwrap();
    let batch =
        Batch { seed: seed.parse().unwrap(), size: size.parse().unwrap(), queries: queries.parse().unwrap() };
    if part == "serve" {
        let served = batch.serve();
        let digest = Sha256::digest(&served);
        fs::write(file, served).unwrap();
        println!("{SAID}{digest:x?}");
    } else {
        println!("{SAID}{}", batch.audit(&fs::read(file).unwrap()));
    }
    true
}

fn kernels() -> Vec<&'static str> {
    Backend::available().map(Backend::name).collect()
}

#[test]
fn answers_are_the_same_bytes_with_every_kernel_and_every_one_finds_another_honest() {
    if played() {
        return;
    }
    const NAME: &str =
        "audit::kernels::answers_are_the_same_bytes_with_every_kernel_and_every_one_finds_another_honest";
    let (kernels, files) = (kernels(), tempfile::tempdir().unwrap());
    // Buckets of a few boxes, of a hundred, and of more.
    for (seed, size) in (1..).zip([9, 100, 1500]) {
        let batch = Batch { seed, size, queries: 1 };
        let path = |kernel: &str| files.path().join(kernel);
        let digests: Vec<String> =
            kernels.iter().map(|kernel| batch.start(NAME, "serve", kernel, &path(kernel))).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{size}: {kernels:?} {digests:?}");
        for (server, auditor) in kernels.iter().zip(kernels.iter().cycle().skip(1)) {
            let audited = batch.start(NAME, "audit", auditor, &path(server));
            assert_eq!(audited, BUCKETS.to_string(), "{server} {auditor}");
        }
    }
}

/// `cargo test --release -p sotto --test it hundred -- --ignored --nocapture`
#[test]
#[ignore = "takes a quarter of an hour"]
fn a_hundred_thousand_honest_answers_convict_nobody_whatever_kernels_serve_and_check() {
    if played() {
        return;
    }
    const NAME: &str =
        "audit::kernels::a_hundred_thousand_honest_answers_convict_nobody_whatever_kernels_serve_and_check";
    const ANSWERS: usize = 100_000;
    let (kernels, files) = (kernels(), tempfile::tempdir().unwrap());
    let file = files.path().join("served");
    let mut pairs = Vec::new();
    for server in &kernels {
        let others = kernels.iter().filter(|auditor| kernels.len() == 1 || *auditor != server);
        pairs.extend(others.map(|auditor| (*server, *auditor)));
    }
    let mut audited = BTreeMap::<_, usize>::new();
    let mut turns = pairs.iter().cycle();
    for seed in 0.. {
        let (server, auditor) = turns.next().unwrap();
        let sizes = [9, 40, 100, 300];
        let batch = Batch { seed, size: sizes[seed as usize / pairs.len() % sizes.len()], queries: 100 };
        batch.start(NAME, "serve", server, &file);
        let answers: usize = batch.start(NAME, "audit", auditor, &file).parse().unwrap();
        *audited.entry((server, auditor)).or_default() += answers;
        let all: usize = audited.values().sum();
        if all >= ANSWERS {
            break;
        }
        if seed % 25 == 24 {
            println!("{all} answers computed again");
        }
    }
    for ((server, auditor), answers) in audited {
        println!("served with {server}, checked with {auditor}: {answers} answers, all right");
    }
}
