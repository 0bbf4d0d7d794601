//! A short run of the fuzzer, and what it has to have found.

use codeq_store::testing::campaign::sized;
use codeq_tests::fuzz::{Target, Until, fuzz, fuzz_targets};

#[test]
fn no_input_panics_or_takes_a_second() {
    for (name, fuzzed) in fuzz(1, Until::Inputs(sized(500_000, 5_000_000))) {
        println!("{name}: {} inputs", fuzzed.inputs);
        let text = |inputs: &[Vec<u8>]| inputs.first().map(|input| input.escape_ascii().to_string());
        assert_eq!(text(&fuzzed.panics), None, "{name} panicked");
        assert_eq!(text(&fuzzed.slow), None, "{name} took a second");
        assert!(fuzzed.inputs > 0, "{name} had no turn");
    }
    // Every store that was refused left three threads behind, until there was no memory for the next one.
    let threads = std::fs::read_dir("/proc/self/task").expect("this is Linux").count();
    assert!(threads < 100, "{threads} threads are left behind");
}

/// The fuzzer would see it.
#[test]
fn a_panic_in_a_target_is_found() {
    let trap = |input: &[u8]| assert!(!input.windows(2).any(|pair| pair == b"[["), "the trap");
    let planted = Target::new("planted", vec![b"{\"a\":[1]}".to_vec()], trap);
    let found = fuzz_targets(vec![planted], 1, Until::Inputs(50_000));
    assert!(!found[0].1.panics.is_empty(), "{found:?}");
}
