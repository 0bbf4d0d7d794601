//! Runs the simulation: `sim [--seeds N] [--from S] [--threads T]`.

use anyhow::{Context, bail};
use codeq_tests::sim;
use std::time::Instant;

fn main() -> anyhow::Result<()> {
    let (mut seeds, mut from) = (100, 1);
    let mut threads = 2 * std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let number = arguments.next().context("every option has a number")?.parse()?;
        match name.as_str() {
            "--seeds" => seeds = number,
            "--from" => from = number,
            "--threads" => threads = number,
            _ => bail!("unknown option {name}"),
        }
    }
    let begun = Instant::now();
    let threads = usize::try_from(threads)?;
    let (counts, failing) = sim::campaign(from, seeds, threads, None);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{counts:?}");
    println!("{seconds:.1} s, {:.1} seeds/s", counts.seeds as f64 / seconds);
    if let Some(failing) = failing {
        bail!("{}", failing.report());
    }
    Ok(())
}
