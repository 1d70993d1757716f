//! The numbers of docs/PARAMETERS.md that belong to the Spiral family, as Markdown tables.
//!
//! ```sh
//! cargo run --release -p pir-baselines --example spiral                          # what is in the documents
//! cargo run --release -p pir-baselines --example spiral -- 262144x288 1048576x256   # other numbers and sizes
//! ```
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use pir_baselines::Spiral;
use pir_baselines::spiral::{
    AS_PUBLISHED, ONIONPIR_AS_PUBLISHED, Parameters, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM, SPIRAL_STREAM_PACK,
    Stages, stages,
};
use pir_core::{Error, Scheme};

/// Sotto's, and those of the paper's table I and II.
const SHAPES: [(usize, usize); 7] = [
    (1000, 288),
    (1 << 16, 288),
    (1 << 18, 288),
    (1 << 20, 288),
    (1 << 20, 256),
    (1 << 18, 30_000),
    (1 << 14, 100_000),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = Vec::new();
    for word in std::env::args().skip(1) {
        let (elements, bytes) = word.split_once('x').ok_or("elements x bytes, as 262144x288")?;
        given.push((elements.parse()?, bytes.parse()?));
    }
    let shapes = if given.is_empty() { &SHAPES[..] } else { &given };
    family::<SPIRAL>(shapes)?;
    family::<SPIRAL_PACK>(shapes)?;
    family::<SPIRAL_STREAM>(shapes)?;
    family::<SPIRAL_STREAM_PACK>(shapes)?;
    family::<{ SPIRAL + AS_PUBLISHED }>(shapes)?;
    family::<{ SPIRAL_PACK + AS_PUBLISHED }>(shapes)?;
    family::<{ SPIRAL_STREAM + AS_PUBLISHED }>(shapes)?;
    family::<{ SPIRAL_STREAM_PACK + AS_PUBLISHED }>(shapes)?;
    family::<ONIONPIR_AS_PUBLISHED>(shapes)?;
    Ok(())
}

/// One of the presets.
fn family<const P: usize>(shapes: &[(usize, usize)]) -> Result<(), Error> {
    println!("{}, public keys {} bytes\n", Spiral::<P>::NAME, Spiral::<P>::public_keys_bytes());
    println!(
        "| n x bytes | dimension | log2 p | rows | columns | groups | digits | query, bytes | answer, bytes | rate | security | failure |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for &(n, bytes) in shapes {
        let p = Parameters::new_allowing_insecure_parameters(P, n, bytes)?;
        println!(
            "| {n} x {bytes} | {} | {} | {} | {} | {} | {} x {} | {} | {} | {:.3} | {} | 2^{:.1} |",
            p.dimension(),
            p.plaintext_bits(),
            p.rows(),
            p.columns(),
            p.groups(),
            p.folding().digits,
            p.folding().base_bits,
            p.query_bytes(),
            p.answer_bytes(),
            bytes as f64 / p.answer_bytes() as f64,
            Spiral::<P>::security_bits(&p),
            Spiral::<P>::failure_log2(&p)
        );
    }
    println!("\n| n x bytes | leaf | row | column | bit | of a | fold | folded | packed | answer | budget |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for &(n, bytes) in shapes {
        let predicted = stages(&Parameters::new_allowing_insecure_parameters(P, n, bytes)?);
        let Stages { leaf, row, column, bit, bit_of_a, fold, folded, packed, answer, budget } = predicted;
        let all = [leaf, row, column, bit, bit_of_a, fold, folded, packed, answer, budget];
        println!("| {n} x {bytes} | {} |", all.map(|value| format!("2^{:.2}", value.log2())).join(" | "));
    }
    println!();
    Ok(())
}
