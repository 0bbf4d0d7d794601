//! Fuzzing on stable Rust: inputs from a corpus are mutated and given to everything that reads bytes from
//! outside. There is no feedback from coverage; the corpus has to bring the shapes. Demanded are no panic
//! (a target panics as well when what it read breaks one of its promises) and no input that takes a second whenever it is tried.

mod mutate;
mod targets;

pub use targets::Target;

use mutate::Mutator;
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Processor time of this process; a machine with other work makes everything take longer.
const SLOW: Duration = Duration::from_secs(1);
/// Whatever an input waits for.
const STUCK: Duration = Duration::from_secs(20);
/// How often an input has to be slow: once may be the fault of another thread.
const SLOW_TIMES: u32 = 3;
/// How long one target has its turn.
const TURN: Duration = Duration::from_millis(50);
/// Failing inputs of one target that are kept.
const KEPT: usize = 20;

/// When it is enough.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So many inputs over all targets, however long they take.
    Inputs(u64),
    Over(Duration),
}

#[derive(Debug, Default)]
pub struct Fuzzed {
    pub inputs: u64,
    /// What made the target panic or dawdle.
    pub panics: Vec<Vec<u8>>,
    pub slow: Vec<Vec<u8>>,
}

/// Lets every target have its turns until it is enough. Gives what each has seen.
pub fn fuzz(seed: u64, until: Until) -> Vec<(&'static str, Fuzzed)> {
    fuzz_targets(Target::all(), seed, until)
}

pub fn fuzz_targets(targets: Vec<Target>, seed: u64, until: Until) -> Vec<(&'static str, Fuzzed)> {
    let begun = Instant::now();
    let begin = |target: Target| {
        let mutator = Mutator::new(seed, target.corpus());
        let mut fuzzed = Fuzzed::default();
        // What the corpus holds is tried as it is first: known troublemakers are kept there.
        for input in mutator.corpus() {
            try_one(&target, input.clone(), &mut fuzzed);
        }
        (target, mutator, fuzzed)
    };
    let mut targets: Vec<(Target, Mutator, Fuzzed)> = targets.into_iter().map(begin).collect();
    let is_enough = |targets: &[(Target, Mutator, Fuzzed)]| match until {
        Until::Over(time) => begun.elapsed() >= time,
        Until::Inputs(wanted) => targets.iter().map(|(.., fuzzed)| fuzzed.inputs).sum::<u64>() >= wanted,
    };
    while !is_enough(&targets) {
        for (target, mutator, fuzzed) in &mut targets {
            turn(target, mutator, fuzzed);
        }
    }
    targets.into_iter().map(|(target, _, fuzzed)| (target.name, fuzzed)).collect()
}

fn turn(target: &Target, mutator: &mut Mutator, fuzzed: &mut Fuzzed) {
    let begun = Instant::now();
    while begun.elapsed() < TURN {
        let input = mutator.next();
        try_one(target, input, fuzzed);
    }
}

fn try_one(target: &Target, input: Vec<u8>, fuzzed: &mut Fuzzed) {
    fuzzed.inputs += 1;
    let panicked = || catch_unwind(AssertUnwindSafe(|| target.read(&input))).is_err();
    let is_slow = || {
        let watch = Watch::start();
        target.read(&input);
        watch.is_slow()
    };
    let watch = Watch::start();
    if panicked() {
        if fuzzed.panics.len() < KEPT {
            fuzzed.panics.push(input);
        }
    } else if watch.is_slow() && (1..SLOW_TIMES).all(|_| is_slow()) && fuzzed.slow.len() < KEPT {
        fuzzed.slow.push(input);
    }
}

struct Watch {
    begun: Instant,
    processor: Duration,
}

impl Watch {
    fn start() -> Watch {
        Watch { begun: Instant::now(), processor: processor_time() }
    }

    fn is_slow(&self) -> bool {
        let took = self.begun.elapsed();
        took > STUCK || took > SLOW && processor_time() - self.processor > SLOW
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}
