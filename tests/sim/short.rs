//! A short campaign of the simulation. `CODEQ_SIM_SEED` names one seed to run alone.

use codeq_store::testing::campaign::sized;
use codeq_tests::sim;

#[test]
fn no_promise_is_broken_in_any_life() {
    let asked = std::env::var("CODEQ_SIM_SEED").ok().map(|text| text.parse::<u64>().expect("a seed"));
    let (from, seeds) = asked.map_or((1, sized(200, 2000)), |seed| (seed, 1));
    let threads = 2 * std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (counts, failing) = sim::campaign(from, seeds, threads, None);
    println!("{counts:?}");
    if let Some(failing) = failing {
        panic!("{}", failing.report());
    }
    assert!(counts.operations >= 500 * counts.seeds && counts.faults >= 5 * counts.seeds, "{counts:?}");
    assert_eq!(counts.seeds, seeds, "{counts:?}");
}
