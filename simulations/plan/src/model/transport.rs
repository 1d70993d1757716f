//! What it costs a server to move bytes, with all that it does beside answers: TLS, gRPC, deposits.

use anyhow::Context;
use sotto_closed_loop::{Config, GATHER_MS, run_once};
use sotto_measuring::code::CodeName;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;

use super::fit::fit;

/// CPU time of the server, microseconds: for the calls of one client in a round, and for a KiB that they carry. From rounds
/// that carry little and rounds that carry much.
pub(super) fn measure(quick: bool) -> anyhow::Result<[f64; 2]> {
    let sizes = if quick { [(64, 1), (1024, 4)] } else { [(1 << 10, 1), (1 << 15, 16)] };
    let clients = if quick { 2 } else { 16 };
    let mut points = Vec::new();
    for (users, retrieve) in sizes {
        let report = run_once(
            &Config {
                users,
                clients,
                retrieve,
                rounds: if quick { 1 } else { 3 },
                engine: EngineName::Sealpir,
                prefer: sottod::Preference::Balanced,
                code: if retrieve == 1 { CodeName::Single } else { CodeName::Cuckoo },
                threads: None,
                gather_ms: GATHER_MS,
                without_bare: true,
                seed: 1,
            },
            &progress::bar(0, ""),
        )
        .context("transport")?;
        report.ensure_sound()?;
        let bytes = report.bytes.deposit + report.bytes.mapping + report.bytes.query + report.bytes.answer;
        let server = report.stages_ms.other + report.stages_ms.deposits;
        points.push(([1.0, bytes / 1024.0], 1e3 * server));
    }
    Ok(fit(&points))
}
