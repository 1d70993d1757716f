//! Figure 9: what one retrieval costs client, server and network, for several sizes of the database.

mod paper;

use anyhow::Context;
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Figure;
use super::chart::{self, Bars, Panel, short};
use super::engines::{Compared, ELEMENT_BYTES, ENGINES, Elements, power_of_two, progress_bar};
use super::table::Table;
use crate::cpu::{median, timed};
use crate::engine::{Engine, StageTimes};
use crate::serving::verify;
pub(super) use paper::Paper;

/// Of one engine at one size; medians of CPU time of one thread.
pub(super) struct Costs {
    query_ms: f64,
    extract_ms: f64,
    setup_ms: f64,
    expand_ms: Option<f64>,
    /// Without EXPAND.
    answer_ms: f64,
    query_bytes: usize,
    answer_bytes: usize,
    /// Uploaded once.
    key_bytes: usize,
}

/// A quantity: title, the paper's values, ours, in the same unit.
type Quantity = (&'static str, fn(&Paper) -> Option<[f64; 3]>, fn(&Costs) -> Option<f64>);

const QUANTITIES: [Quantity; 7] = [
    ("client, QUERY, ms", |paper| Some(paper.query_ms), |costs| Some(costs.query_ms)),
    ("client, EXTRACT, ms", |paper| Some(paper.extract_ms), |costs| Some(costs.extract_ms)),
    ("server, SETUP, s", |paper| Some(paper.setup_s), |costs| Some(costs.setup_ms / 1e3)),
    ("server, EXPAND, s", |paper| paper.expand_s, |costs| costs.expand_ms.map(|time| time / 1e3)),
    ("server, ANSWER, s", |paper| Some(paper.answer_s), |costs| Some(costs.answer_ms / 1e3)),
    ("query, KB", |paper| Some(paper.query_kb), |costs| Some(costs.query_bytes as f64 / 1024.0)),
    ("answer, KB", |paper| Some(paper.answer_kb), |costs| Some(costs.answer_bytes as f64 / 1024.0)),
];

pub(super) fn make(quick: bool) -> anyhow::Result<Figure> {
    let (sizes, runs): (&[usize], u16) = if quick { (&[1 << 10, 1 << 11], 1) } else { (&paper::SIZES, 5) };
    // Everything happens on the calling thread, so that its clock sees all of it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let progress = progress_bar(sizes.len() * ENGINES.len() * usize::from(runs));
    let mut table = Table::new("Figure 9: CPU and network costs of one retrieval", vec!["engine", "n"]);
    for (title, ..) in QUANTITIES {
        table.header.extend([format!("{title}, paper"), title.to_owned()]);
    }
    table.header.push("keys, once, KB".to_owned());
    let mut panels: Vec<Panel> =
        QUANTITIES.map(|(title, ..)| Panel { title: title.to_owned(), bars: Vec::new() }).into();
    for engine in &ENGINES {
        for &n in sizes {
            progress.set_message(format!("figure 9: {}, n = {n}", engine.name));
            let costs = pool.install(|| (engine.costs)(&Elements::new(n), runs, &progress));
            let costs = costs.with_context(|| format!("{}, n = {n}", engine.name))?;
            table.row(row(engine, n, &costs));
            for (panel, (_, _, ours)) in panels.iter_mut().zip(QUANTITIES) {
                let (paper, ours) = (of_paper(&panel.title, engine, n), ours(&costs));
                if paper.is_some() || ours.is_some() {
                    let name = format!("{}, {}", engine.name, power_of_two(n));
                    panel.bars.push(Bars { name, paper, ours });
                }
            }
        }
    }
    progress.finish_and_clear();
    let measured = if runs == 1 { "one run".to_owned() } else { format!("medians of {runs} runs") };
    table.note(format!(
        "Elements of {ELEMENT_BYTES} bytes; {measured}, CPU time of one thread. ANSWER does not include EXPAND, \
         here as in the paper. KB are 1,024 bytes, as sent at the application's layer. The paper counts no keys."
    ));
    let svg = chart::svg("Figure 9: one retrieval, CPU time of one thread", &panels)?;
    let shows = "What one private retrieval costs: the client makes a query (QUERY) and reads the answer (EXTRACT); the \
        server prepares the database once (SETUP), and for every query unfolds it into selectors (EXPAND, SealPIR only) \
        and multiplies them with the whole database (ANSWER).";
    let differs = "SealPIR is here a ring of degree 2048 with a modulus of 50 bits for queries and 36 for answers (128 \
        bits of security and more by the tables of 2018), where the paper has 60 bits throughout. One seeded ciphertext, \
        cut to the coefficients that matter, is the query for both dimensions, and answers are switched to a smaller \
        modulus; hence queries and answers much smaller than the paper's. XPIR is the same with all selectors sent, so it \
        profits from the smaller moduli, too. \"Paper's SealPIR\" has the parameters and the steps of the paper (log t = 23, \
        which Equation (1) lowers), and with them less than 128 bits of security: it is there to be compared, never to be \
        used. The paper leaves keys out, which are uploaded once. Its times are those of its own machine.";
    Ok(Figure { table, svg, shows: shows.to_owned(), differs: differs.to_owned() })
}

/// The paper's value of a quantity, where it has this size.
fn of_paper(title: &str, engine: &Compared, n: usize) -> Option<f64> {
    let size = paper::SIZES.iter().position(|size| *size == n)?;
    let (_, paper, _) = QUANTITIES.iter().find(|(of, ..)| *of == title)?;
    paper(&engine.paper).map(|values| values[size])
}

fn row(engine: &Compared, n: usize, costs: &Costs) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), short);
    let mut cells = vec![engine.name.to_owned(), n.to_string()];
    for (title, _, ours) in QUANTITIES {
        cells.extend([shown(of_paper(title, engine, n)), shown(ours(costs))]);
    }
    cells.push(short(costs.key_bytes as f64 / 1024.0));
    cells
}

/// On the calling thread.
pub(super) fn measure<S: Engine>(
    elements: &Elements,
    runs: u16,
    progress: &ProgressBar,
) -> anyhow::Result<Costs> {
    let mut rng = StdRng::seed_from_u64(1);
    let parameters = S::parameters_to_measure(elements.count, ELEMENT_BYTES)?;
    let key = S::client_key(&rng.random());
    let encoded_keys = S::encode_public_keys(&key);
    let keys = S::decode_public_keys(&encoded_keys)?;
    let [mut query, mut extract, mut setup, mut expand, mut answer] = [const { Vec::new() }; 5];
    let mut bytes = (0, 0);
    for run in 0..runs {
        let (database, time) = timed(|| S::setup(&parameters, &elements.bytes));
        let database = database?;
        setup.push(time);
        let index = rng.random_range(0..elements.count);
        let (built, time) = timed(|| S::queries(&key, &[(&parameters, index)], &mut rng));
        let built = built?.pop().context("one query")?;
        query.push(time);
        if run == 0 {
            // The first answer warms the caches.
            S::answer(&database, &keys, &built)?;
        }
        let mut times = StageTimes::default();
        let answered = times.answer::<S>(&database, &[(&keys, &built)])?.pop().context("one answer")?;
        // Without an expansion, the first stage is a part of the answer.
        let expanding = S::EXPANDS.then_some(times.expand);
        expand.extend(expanding);
        answer.push(times.total - expanding.unwrap_or(0.0));
        let (element, time) = timed(|| S::extract(&parameters, &key, index, &answered));
        extract.push(time);
        verify(&elements.bytes, index, &element?)?;
        bytes = (built.len(), answered.len());
        progress.inc(1);
    }
    Ok(Costs {
        query_ms: median(query),
        extract_ms: median(extract),
        setup_ms: median(setup),
        expand_ms: (!expand.is_empty()).then(|| median(expand)),
        answer_ms: median(answer),
        query_bytes: bytes.0,
        answer_bytes: bytes.1,
        key_bytes: encoded_keys.len(),
    })
}
