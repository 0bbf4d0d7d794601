//! Fuzzing on stable Rust: inputs from a corpus are mutated and given to everything that reads bytes from
//! outside. There is no feedback from coverage; the corpus has to bring the shapes. Demanded are no panic
//! and no input that takes a second.

mod mutate;
mod targets;

pub use targets::Target;

use mutate::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const SLOW: Duration = Duration::from_secs(1);
/// How long one target has its turn.
const TURN: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub struct Fuzzed {
    pub inputs: u64,
    /// What made the target panic or dawdle.
    pub panics: Vec<Vec<u8>>,
    pub slow: Vec<Vec<u8>>,
}

/// Lets every target have its turns until the time is over. Gives what each has seen.
pub fn fuzz(seed: u64, within: Duration) -> Vec<(&'static str, Fuzzed)> {
    let begun = Instant::now();
    let mut targets: Vec<(Target, Mutator, Fuzzed)> = Target::all()
        .into_iter()
        .map(|target| {
            let mutator = Mutator::new(seed, target.corpus());
            (target, mutator, Fuzzed::default())
        })
        .collect();
    while begun.elapsed() < within {
        for (target, mutator, fuzzed) in &mut targets {
            turn(target, mutator, fuzzed);
        }
    }
    targets.into_iter().map(|(target, _, fuzzed)| (target.name(), fuzzed)).collect()
}

fn turn(target: &Target, mutator: &mut Mutator, fuzzed: &mut Fuzzed) {
    let begun = Instant::now();
    while begun.elapsed() < TURN {
        let input = mutator.next();
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target.read(&input)));
        fuzzed.inputs += 1;
        if outcome.is_err() {
            fuzzed.panics.push(input.clone());
        }
        if started.elapsed() > SLOW {
            fuzzed.slow.push(input);
        }
    }
}
