//! The numbers of docs/PARAMETERS.md that belong to XPIR, to FastPIR, to OnionPIR and to the paper's SealPIR, as Markdown tables.
//!
//! ```sh
//! cargo run --release -p pir-baselines --example baselines                # sizes of the paper's databases
//! cargo run --release -p pir-baselines --example baselines -- 1000        # the same for other sizes
//! ```
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use pir_baselines::{FastPir, OnionPir, PaperSealPir, Xpir, fastpir, onionpir, paper, xpir};
use pir_core::{Error, Scheme, bfv};

const ELEMENT_BYTES: usize = 288;
const SIZES: [usize; 4] = [1000, 65_536, 262_144, 1_048_576];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let sizes = if given.is_empty() { &SIZES[..] } else { &given };
    unexpanded::<2>(sizes)?;
    unexpanded::<3>(sizes)?;
    batched::<100>(sizes)?;
    batched::<109>(sizes)?;
    with_external_products(sizes)?;
    of_the_paper::<20>(sizes)?;
    of_the_paper::<23>(sizes)?;
    Ok(())
}

/// XPIR in D dimensions.
fn unexpanded<const D: usize>(sizes: &[usize]) -> Result<(), Error> {
    println!("{}, public keys {} bytes\n", Xpir::<D>::NAME, Xpir::<D>::public_keys_bytes());
    println!("| n | plaintexts | shape | query, bytes | answer, bytes | bits | security | failure |");
    println!("|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = xpir::Parameters::<D>::choose(n, ELEMENT_BYTES)?;
        println!(
            "| {n} | {} | {} | {} | {} | {} | {} | 2^{:.1} |",
            p.plaintexts(),
            p.shape().map(|size| size.to_string()).join(" x "),
            p.query_bytes(),
            p.answer_bytes(),
            p.answer_coefficient_bits(),
            Xpir::<D>::security_bits(&p),
            Xpir::<D>::failure_log2(&p)
        );
    }
    println!("\n| n | selector | after each dimension | switched | answer |\n|---|---|---|---|---|");
    for &n in sizes {
        let stages =
            xpir::Parameters::<D>::choose(n, ELEMENT_BYTES)?.circuit().stages(bfv::Parameters::s2048());
        let all = |deviations: &[f64]| deviations.iter().map(|sd| power(*sd)).collect::<Vec<_>>().join(", ");
        println!(
            "| {n} | {} | {} | {} | {} |",
            power(stages.selector),
            all(&stages.dimensions),
            all(&stages.switched[..D - 1]),
            power(stages.answer)
        );
    }
    println!();
    Ok(())
}

/// FastPIR with keys modulo Q bits.
fn batched<const Q: u32>(sizes: &[usize]) -> Result<(), Error> {
    println!("{}, public keys {} bytes\n", FastPir::<Q>::NAME, FastPir::<Q>::public_keys_bytes());
    println!("| n | t | rows | columns | query, bytes | answer, bytes | bits | security | failure |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let of = |n| fastpir::Parameters::<Q>::new_allowing_insecure_parameters(n, ELEMENT_BYTES);
    for &n in sizes {
        let p = of(n)?;
        println!(
            "| {n} | {} | {} | {} | {} | {} | {} | {} | 2^{:.1} |",
            p.plaintext_modulus(),
            p.rows(),
            p.columns(),
            p.query_bytes(),
            p.answer_bytes(),
            p.answer_coefficient_bits(),
            FastPir::<Q>::security_bits(&p),
            FastPir::<Q>::failure_log2(&p)
        );
    }
    println!(
        "\n| n | query | column | rotation | combined | answer | budget |\n|---|---|---|---|---|---|---|"
    );
    for &n in sizes {
        let stages = fastpir::stages(&of(n)?);
        let fastpir::Stages { query, column, rotation, combined, answer, budget } = stages;
        println!("| {n} | {} |", [query, column, rotation, combined, answer, budget].map(power).join(" | "));
    }
    println!();
    Ok(())
}

/// OnionPIR.
fn with_external_products(sizes: &[usize]) -> Result<(), Error> {
    println!("{}, public keys {} bytes\n", OnionPir::NAME, OnionPir::public_keys_bytes());
    println!("| n | rows | columns | query, bytes | answer, bytes | bits | security | failure |");
    println!("|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = onionpir::Parameters::choose(n, ELEMENT_BYTES)?;
        println!(
            "| {n} | {} | {} | {} | {} | {} | {} | 2^{:.1} |",
            p.rows(),
            p.columns(),
            p.query_bytes(),
            p.answer_bytes(),
            p.answer_coefficient_bits(),
            OnionPir::security_bits(&p),
            OnionPir::failure_log2(&p)
        );
    }
    println!("\n| n | row | column | value | times s | choice | chosen | answer |");
    println!("|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let stages = onionpir::stages(&onionpir::Parameters::choose(n, ELEMENT_BYTES)?);
        let onionpir::Stages { row, column, value, times_secret, choice, chosen, answer } = stages;
        let cells = [row, column, value, times_secret, choice, chosen, answer].map(power);
        println!("| {n} | {} |", cells.join(" | "));
    }
    println!();
    Ok(())
}

/// The paper's SealPIR with log t = T.
fn of_the_paper<const T: u32>(sizes: &[usize]) -> Result<(), Error> {
    println!("{}, public keys {} bytes\n", PaperSealPir::<T>::NAME, PaperSealPir::<T>::public_keys_bytes());
    println!(
        "| n | log t' | alpha | plaintexts | rows | columns | F | query, bytes | answer, bytes | security | failure |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for &n in sizes {
        let p = paper::Parameters::<T>::new_allowing_insecure_parameters(n, ELEMENT_BYTES, 2)?;
        println!(
            "| {n} | {} | {} | {} | {} | {} | {} | {} | {} | {} | 2^{:.1} |",
            p.plaintext_bits(),
            p.elements_per_plaintext(),
            p.plaintexts(),
            p.rows(),
            p.columns(),
            p.expansion_factor(),
            p.query_bytes(),
            p.answer_bytes(),
            PaperSealPir::<T>::security_bits(&p),
            PaperSealPir::<T>::failure_log2(&p)
        );
    }
    println!("\n| n | selector | first | second | budget |\n|---|---|---|---|---|");
    for &n in sizes {
        let p = paper::Parameters::<T>::new_allowing_insecure_parameters(n, ELEMENT_BYTES, 2)?;
        let paper::Stages { selectors, dimensions, budget } = paper::stages(&p);
        let cells = [selectors[0], dimensions[0], dimensions[1], budget].map(power);
        println!("| {n} | {} |", cells.join(" | "));
    }
    println!();
    Ok(())
}

fn power(value: f64) -> String {
    format!("2^{:.2}", value.log2())
}
