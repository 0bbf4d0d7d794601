//! Records of what operators did to schedules.

use super::auditing::{note, numbers};
use super::bench::{Bench, within};
use super::candidate::Open;
use super::schedules;
use codeq_queue::audit::noting;

/// The name of a schedule has a place before the schedule is there, and a put may be refused in between.
pub async fn a_change_of_a_schedule_takes_its_record_along(open: Open) {
    let bench = Bench::new(&open);
    let (first, never) = (note(&bench, 1, "put"), note(&bench, 2, "put"));
    let plan = || schedules::every_ten(|_| {});
    let put = noting(first.clone(), schedules::put(&bench, "n", plan()));
    within("put", put).await.expect("the plan is sound");
    let ended = schedules::every_ten(|request| request.end_at = Some(bench.now()));
    let refused = within("put", noting(never.clone(), schedules::put(&bench, "m", ended))).await;
    assert!(refused.is_err() && !never.is_kept(), "{refused:?}");
    let same = note(&bench, 3, "put");
    within("put", noting(same.clone(), schedules::put(&bench, "n", plan()))).await.expect("as it was");
    assert!(!same.is_kept(), "nothing was changed");
    let (paused, gone) = (note(&bench, 4, "pause"), note(&bench, 5, "delete"));
    within("pause", noting(paused.clone(), schedules::pause(&bench, "n"))).await.expect("it is there");
    assert!(within("delete", noting(gone.clone(), schedules::delete(&bench, "n"))).await, "it was there");
    assert!([first, paused, gone].iter().all(|note| note.is_kept()), "each deed took its record");
    assert_eq!(numbers(&bench).await, [5, 4, 1], "nobody put one");
}
