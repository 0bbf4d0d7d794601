//! A short run of the fuzzer.

use codeq_tests::fuzz::fuzz;
use std::time::Duration;

#[test]
fn no_input_panics_or_takes_a_second() {
    for (name, fuzzed) in fuzz(1, Duration::from_secs(10)) {
        println!("{name}: {} inputs", fuzzed.inputs);
        assert!(fuzzed.panics.is_empty(), "{name}: {:?}", fuzzed.panics[0]);
        assert!(fuzzed.slow.is_empty(), "{name}: {:?}", fuzzed.slow[0]);
        assert!(fuzzed.inputs > 0, "{name} had no turn");
    }
}
