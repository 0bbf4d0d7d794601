//! A short run of the fuzzer, and what it has to have found.

use codeq_tests::fuzz::{Target, fuzz, fuzz_targets};
use std::time::Duration;

/// Inputs that a short run has to reach.
const INPUTS: u64 = 5_000_000;

#[test]
fn no_input_panics_or_takes_a_second() {
    let mut inputs = 0;
    // As long as it takes on a slow machine, but not for ever.
    for seed in 1..=5 {
        for (name, fuzzed) in fuzz(seed, Duration::from_secs(35)) {
            println!("seed {seed}, {name}: {} inputs", fuzzed.inputs);
            let text = |inputs: &[Vec<u8>]| inputs.first().map(|input| input.escape_ascii().to_string());
            assert_eq!(text(&fuzzed.panics), None, "{name} panicked");
            assert_eq!(text(&fuzzed.slow), None, "{name} took a second");
            assert!(fuzzed.inputs > 0, "{name} had no turn");
            inputs += fuzzed.inputs;
        }
        if inputs >= INPUTS {
            break;
        }
    }
    assert!(inputs >= INPUTS, "only {inputs} inputs");
    // Every store that was refused left three threads behind, until there was no memory for the next one.
    let threads = std::fs::read_dir("/proc/self/task").expect("this is Linux").count();
    assert!(threads < 100, "{threads} threads are left behind");
}

/// The fuzzer would see it.
#[test]
fn a_panic_in_a_target_is_found() {
    let trap = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"[["), "the trap");
    let planted = Target::new("planted", vec![b"{\"a\":[1]}".to_vec()], trap);
    let found = fuzz_targets(vec![planted], 1, Duration::from_millis(300));
    assert!(!found[0].1.panics.is_empty(), "{found:?}");
}
