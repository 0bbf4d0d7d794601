use super::*;

fn running(owner: &Owner, until: i64) -> State {
    let lease = Lease::new(Arc::new(owner.clone()), Time::from_millis(until), Time::ZERO);
    State::Running(Arc::new(lease))
}

#[test]
fn guards_are_checked_in_the_contract_order() {
    let me = Owner::new("s", "w");
    let other = Owner::new("s", "w2");
    let mine = running(&me, 100);
    for (state, attempt, caller, expected) in [
        (State::Cancelled, Some(9), &other, Err(Refusal::Cancelled)),
        (State::Completed, Some(9), &other, Err(Refusal::LeaseLost)),
        (State::Completed, Some(2), &other, Err(Refusal::NotInProgress)),
        (State::Ready { seq: 1 }, None, &me, Err(Refusal::NotInProgress)),
        (State::Dead, None, &me, Err(Refusal::NotInProgress)),
        (mine.clone(), Some(1), &other, Err(Refusal::LeaseLost)),
        (mine.clone(), Some(2), &other, Err(Refusal::NotOwner)),
        (mine.clone(), None, &other, Err(Refusal::NotOwner)),
        (mine.clone(), Some(2), &me, Ok(())),
    ] {
        assert_eq!(guard(&state, 2, caller, attempt).map(|_| ()), expected, "{state:?} {attempt:?}");
    }
}

#[test]
fn only_what_waits_for_its_time_is_made_ready() {
    assert_eq!(run_now(&State::Delayed { until: Time::ZERO }), Ok(true));
    assert_eq!(run_now(&State::Ready { seq: 1 }), Ok(false));
    for state in [running(&Owner::new("s", "w"), 9), State::Cancelled, State::Dead] {
        assert_eq!(run_now(&state), Err(Refusal::NotDelayed), "{state:?}");
    }
}

#[test]
fn a_heartbeat_needs_a_living_lease() {
    let me = Owner::new("s", "w");
    let state = running(&me, 100);
    let beat = |now| guard_heartbeat(&state, 1, &me, None, Time::from_millis(now));
    assert_eq!(beat(99), Ok(()));
    assert_eq!(beat(100), Err(Refusal::LeaseLost));
}

#[test]
fn subject_and_worker_id_both_make_the_owner() {
    let state = running(&Owner::new("s", "w"), 100);
    assert_eq!(guard(&state, 1, &Owner::new("s2", "w"), None), Err(Refusal::NotOwner));
}

#[test]
fn the_callback_body_of_the_worked_example() {
    let record = result::ResultRecord {
        status: result::Status::Completed,
        result: Some("{\"ok\":true}".into()),
        error: None,
        failure_reason: None,
        artifacts: Vec::new(),
        completed_at: Time::from_millis(1_772_366_405_250),
    };
    let id = TaskId::parse("5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11").unwrap();
    let text = callback_body(id, "render_video", &record, &record.completed_at.to_utc());
    assert_eq!(text.len(), 184);
    assert_eq!(
        text,
        "{\"taskId\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"eventType\":\"render_video\",\"status\":\"COMPLETED\",\"result\":{\"ok\":true},\"error\":\"\",\"artifacts\":[],\"completedAt\":\"2026-03-01T12:00:05.25Z\"}"
    );
}

#[test]
fn blank_reasons_are_none_and_long_ones_are_cut() {
    assert_eq!(reason_text(Some("  ")), None);
    assert_eq!(reason_text(None), None);
    assert_eq!(reason_text(Some(&"x".repeat(9000))).unwrap().len(), 8192);
}
