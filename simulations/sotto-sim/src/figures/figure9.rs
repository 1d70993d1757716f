//! Figure 9: what one retrieval costs client, server and network, for several sizes of the database.

use anyhow::Context;
use sotto_measuring::cpu::alone;
use sotto_measuring::engine::EngineName;
use sotto_measuring::progress;
use sotto_measuring::table::{Table, short, short_or_none};

use super::chart::{Quantity, beside_paper};
use super::engines::{ELEMENT_BYTES, ENGINES, power_of_two};
use super::section::Figure;
use crate::pir::{Report, measure};

/// The paper's database sizes.
const SIZES: [usize; 3] = [65_536, 262_144, 1_048_576];

/// The paper's values of one engine: for each quantity, for each of its sizes.
type Paper = [Option<[f64; 3]>; QUANTITIES.len()];

const XPIR_2: Paper = [
    Some([13.83, 27.57, 55.14]),
    Some([0.34, 0.29, 0.30]),
    Some([0.15, 0.57, 2.27]),
    None,
    Some([0.21, 0.63, 2.12]),
    Some([4384.0, 8768.0, 17536.0]),
    Some([256.0, 256.0, 256.0]),
];
const XPIR_3: Paper = [
    Some([4.98, 8.03, 12.74]),
    Some([2.47, 2.49, 2.57]),
    Some([0.15, 0.58, 2.32]),
    None,
    Some([0.27, 0.78, 2.52]),
    Some([1632.0, 2560.0, 4064.0]),
    Some([1824.0, 1952.0, 1952.0]),
];
/// With d = 2.
const SEALPIR: Paper = [
    Some([3.37, 3.37, 3.37]),
    Some([1.37, 1.39, 1.69]),
    Some([0.23, 1.04, 4.26]),
    Some([0.05, 0.11, 0.23]),
    Some([0.13, 0.5, 2.01]),
    Some([64.0, 64.0, 64.0]),
    Some([256.0, 256.0, 256.0]),
];

const QUANTITIES: [Quantity<Row>; 7] = [
    ("client, QUERY, ms", |row| [row.paper(0), Some(row.costs.query_cpu_ms)]),
    ("client, EXTRACT, ms", |row| [row.paper(1), Some(row.costs.extract_cpu_ms)]),
    ("server, SETUP, s", |row| [row.paper(2), Some(row.costs.setup_cpu_ms / 1e3)]),
    ("server, EXPAND, s", |row| [row.paper(3), row.costs.expand_cpu_ms.map(|time| time / 1e3)]),
    ("server, ANSWER, s", |row| [row.paper(4), Some(row.without_expand() / 1e3)]),
    ("query, KB", |row| [row.paper(5), Some(row.costs.query_bytes as f64 / 1024.0)]),
    ("answer, KB", |row| [row.paper(6), Some(row.costs.answer_bytes as f64 / 1024.0)]),
];

/// One engine at one size.
struct Row {
    engine: (&'static str, EngineName),
    n: usize,
    /// Medians of CPU time of one thread.
    costs: Report,
}

impl Row {
    /// The paper's value of a quantity, where it has this size.
    fn paper(&self, quantity: usize) -> Option<f64> {
        let size = SIZES.iter().position(|size| *size == self.n)?;
        let paper = match self.engine.1 {
            EngineName::Xpir2 => XPIR_2,
            EngineName::Xpir3 => XPIR_3,
            EngineName::Sealpir | EngineName::PaperT20 | EngineName::PaperT23 => SEALPIR,
            _ => return None,
        };
        paper[quantity].map(|values| values[size])
    }

    fn without_expand(&self) -> f64 {
        self.costs.answer_cpu_ms - self.costs.expand_cpu_ms.unwrap_or(0.0)
    }
}

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (sizes, runs): (&[usize], u16) = if quick { (&[1 << 10, 1 << 11], 1) } else { (&SIZES, 5) };
    let rows = alone(|| {
        let progress = progress::bar(sizes.len() * ENGINES.len() * usize::from(runs), "");
        let mut rows = Vec::new();
        for engine in ENGINES {
            for &n in sizes {
                let label = format!("{}, n = {n}", engine.0);
                progress.set_message(format!("figure 9: {label}"));
                let round = engine.1.bucket(n, ELEMENT_BYTES)?;
                let costs = measure(engine.1, &round, 1, runs, 1, &progress);
                let costs = costs.and_then(|costs| costs.ensure_verified().map(|()| costs));
                rows.push(Row { engine, n, costs: costs.with_context(|| label)? });
            }
        }
        progress.finish_and_clear();
        Ok(rows)
    })?;
    let mut table = Table::new("Figure 9: CPU and network costs of one retrieval", vec!["engine", "n"]);
    for (title, _) in QUANTITIES {
        table.header.extend([format!("{title}, paper"), title.to_owned()]);
    }
    table.header.extend(["hint, KB", "keys, once, KB"].map(str::to_owned));
    for row in &rows {
        let mut cells = vec![row.engine.0.to_owned(), row.n.to_string()];
        cells.extend(QUANTITIES.iter().flat_map(|(_, values)| values(row)).map(short_or_none));
        let hint = (row.costs.hint_bytes > 0).then_some(row.costs.hint_bytes as f64 / 1024.0);
        cells.push(short_or_none(hint));
        cells.push(short(row.costs.key_bytes as f64 / 1024.0));
        table.row(cells);
    }
    let measured = if runs == 1 { "one run".to_owned() } else { format!("medians of {runs} runs") };
    table.note(format!(
        "Elements of {ELEMENT_BYTES} bytes; {measured}, CPU time of one thread. ANSWER does not include EXPAND, \
         here as in the paper. KB are 1,024 bytes, as sent at the application's layer. The paper counts no keys."
    ));
    let name = |row: &Row| format!("{}, {}", row.engine.0, power_of_two(row.n));
    let svg = beside_paper("Figure 9: one retrieval, CPU time of one thread", &rows, name, &QUANTITIES)?;
    let shows = "What one private retrieval costs: the client makes a query (QUERY) and reads the answer (EXTRACT); the \
        server prepares the database once (SETUP), and for every query unfolds it into selectors (EXPAND, SealPIR only) \
        and multiplies them with the whole database (ANSWER).";
    let differs = "SealPIR is here a ring of degree 2048 with a modulus of 50 bits for queries and 36 for answers (128 \
        bits of security and more by the tables of 2018), where the paper has 60 bits throughout. One seeded ciphertext, \
        cut to the coefficients that matter, is the query for both dimensions, and answers are switched to a smaller \
        modulus; hence queries and answers much smaller than the paper's. XPIR is the same with all selectors sent, so it \
        profits from the smaller moduli, too. \"Paper's SealPIR\" has the parameters and the steps of the paper (log t = 23, \
        which Equation (1) lowers), and with them less than 128 bits of security: it is there to be compared, never to be \
        used. The paper leaves keys out, which are uploaded once. Voce \
        computes nearly everything once in a round for all clients, in SETUP; its ANSWER is that of a client alone, and costs a \
        part of it for each of several that ask together. Its keys with a hint are in the query, and the hint is downloaded by \
        everybody in every round. Its times are those of its own machine.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}
