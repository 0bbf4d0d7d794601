//! Fuzzes everything that reads bytes from outside: `fuzz [--seconds N] [--seed S]`.

use anyhow::{Context, bail};
use codeq_tests::fuzz::{Until, fuzz};
use std::time::Duration;

fn main() -> anyhow::Result<()> {
    let (mut seconds, mut seed) = (60, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let number = arguments.next().context("every option has a number")?.parse()?;
        match name.as_str() {
            "--seconds" => seconds = number,
            "--seed" => seed = number,
            _ => bail!("unknown option {name}"),
        }
    }
    let (mut inputs, mut found) = (0, 0);
    for (name, fuzzed) in fuzz(seed, Until::Over(Duration::from_secs(seconds))) {
        println!(
            "{name}: {} inputs, {} panics, {} slow",
            fuzzed.inputs,
            fuzzed.panics.len(),
            fuzzed.slow.len()
        );
        for input in fuzzed.panics.iter().chain(&fuzzed.slow).take(5) {
            println!("  {:?}", String::from_utf8_lossy(&input[..input.len().min(400)]));
        }
        inputs += fuzzed.inputs;
        found += fuzzed.panics.len() + fuzzed.slow.len();
    }
    println!("{inputs} inputs in {seconds} s, {} inputs/s, seed {seed}", inputs / seconds.max(1));
    match found {
        0 => Ok(()),
        _ => bail!("{found} inputs panicked or took more than a second"),
    }
}
