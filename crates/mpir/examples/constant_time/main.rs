//! Whether branches or memory accesses of a client depend on secrets: run by `.ci/constant-time` under valgrind.
//!
//! Secrets are marked as undefined memory, and memcheck reports every conditional jump and every address that depends on
//! such memory, however it was computed with. Each case of [`cases`] must come without a report, and each of [`controls`],
//! which leak on purpose, with one. What the library declares public on the way stands at its uses of
//! `pir_core::constant_time::public`, each with a reason.
//!
//! It sees this machine code, with the kernel that runs, on these inputs. It does not see instructions whose time depends on
//! their operands, nor wiping.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

mod cases;
mod controls;
mod lookups;
mod memcheck;
#[path = "../common/round.rs"]
mod round;

use std::process::ExitCode;
use std::time::Instant;

use pir_core::ring::Backend;

/// Name, what runs, and whether it leaks.
const ALL: [(&str, fn(), bool); 18] = [
    ("control: a branch", controls::branch, true),
    ("control: a table", controls::table, true),
    ("control: a comparison", controls::comparison, true),
    ("control: a loop", controls::length, true),
    ("control: nothing declared public", cases::sampling, true),
    ("sampling", declared_sampling, false),
    ("keys", cases::keys, false),
    ("retrieval, one dimension", cases::one_dimension, false),
    ("retrieval, two dimensions", cases::two_dimensions, false),
    ("retrieval, several parts", cases::parts, false),
    ("retrieval, xpir", cases::xpir, false),
    ("retrieval, buckets", cases::buckets, false),
    ("retrieval, voce", cases::voce, false),
    ("places of a slot", lookups::places, false),
    ("schedule", lookups::schedules, false),
    ("look-up, slots", lookups::slots, false),
    ("look-up, labels", lookups::labels, false),
    ("what is read, of all answers", lookups::reading, false),
];

/// From here on, what the library declares public is.
fn declared_sampling() {
    pir_core::constant_time::on_public(memcheck::make_public_at);
    cases::sampling();
}

fn main() -> ExitCode {
    if !memcheck::is_running() {
        eprintln!("this must run under valgrind, on x86-64: see .ci/constant-time");
        return ExitCode::from(2);
    }
    let kernel = Backend::active().name();
    println!("kernel {kernel}");
    // What draws and looks up has loops of its own for AVX2, and others.
    let mut right = format!("{:?}", pbc::oblivious::vectors()).starts_with("V3") == (kernel == "avx2");
    if !right {
        eprintln!("schedules and look-ups would not run with {kernel}");
    }
    for (name, run, leaks) in ALL {
        let (before, started) = (memcheck::reports(), Instant::now());
        run();
        let reports = memcheck::reports() - before;
        let verdict = if (reports > 0) == leaks { "ok" } else { "WRONG" };
        right &= verdict == "ok";
        println!("{verdict:5} {name}: {reports} reports, {:.1} s", started.elapsed().as_secs_f64());
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
