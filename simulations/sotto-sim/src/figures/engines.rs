//! What figures 9, 10 and 11 share: the engines that they compare, and servers with their databases.

use anyhow::{Context, ensure};
use sotto_closed_loop::{GATHER_MS, Orders, TILE, Took};
use sotto_measuring::code::CodeName;
use sotto_measuring::cpu::cores;
use sotto_measuring::engine::EngineName;
use sottod::Preference;
use tokio::runtime::Runtime;

/// Of every element, as in the paper.
pub(super) const ELEMENT_BYTES: usize = 288;

/// In the order of the tables.
pub(super) const ENGINES: [(&str, EngineName); 6] = [
    ("SealPIR", EngineName::Sealpir),
    ("Voce", EngineName::Voce),
    ("Voce with a hint", EngineName::VoceHint),
    ("XPIR d = 2", EngineName::Xpir2),
    ("XPIR d = 3", EngineName::Xpir3),
    ("paper's SealPIR", EngineName::PaperT23),
];

/// A server whose rounds have `n` elements, the deposits of so many real clients among them, of which each retrieves one.
pub(super) fn orders(engine: EngineName, n: usize, clients: u32) -> anyhow::Result<Orders> {
    let users = u32::try_from(n)?.checked_sub(clients).context("more clients than elements")?;
    let code = CodeName::Single;
    Ok(Orders {
        engine,
        prefer: Preference::default(),
        code,
        retrieve: 1,
        users,
        clients,
        threads: cores(),
        tile: TILE,
        gather_ms: GATHER_MS,
        seed: 1,
    })
}

/// Checks what a measurement rests on: that every client has the element that it wanted.
pub(super) fn ensure_right(took: &[Took]) -> anyhow::Result<()> {
    ensure!(took.iter().all(|took| took.counts.retrieved == 1), "an element is not the database's");
    Ok(())
}

/// What carries sockets and timers; everything that computes for long has threads of its own.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the threads of the network")
}

/// A number of elements as a power of two, if it is one.
pub(super) fn power_of_two(n: usize) -> String {
    if n.is_power_of_two() { format!("2^{}", n.trailing_zeros()) } else { n.to_string() }
}
