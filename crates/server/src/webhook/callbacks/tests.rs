use super::sending::command;
use super::*;
use codeq_queue::{DeliveryState, TaskId};

fn policy() -> Policy {
    Policy {
        max_attempts: 5,
        base_backoff: Duration::from_secs(2),
        max_backoff: Duration::from_secs(60),
        timeout: Duration::from_secs(15),
        hold: Duration::from_secs(20),
        is_shared: false,
    }
}

#[test]
fn attempts_are_spaced_by_doubling_waits_up_to_a_tenth_longer() {
    let seconds = |attempt| policy().backoff(attempt, 0.0).as_secs();
    assert_eq!([1, 2, 3, 4, 5, 6, 60].map(seconds), [2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(policy().backoff(1, 1.0), Duration::from_millis(2200));
}

#[test]
fn the_command_is_read_from_the_body() {
    let body = r#"{"taskId":"x","eventType":"a\"b","status":"FAILED","result":{"eventType":"no"}}"#;
    assert_eq!(&*command(body), "a\"b");
    assert_eq!(&*command("{}"), "");
}

fn delivery(id: u128) -> Delivery {
    Delivery {
        id,
        task_id: TaskId::from_bits(1),
        tenant: "t".into(),
        url: "http://h/".into(),
        body: "{}".into(),
        state: DeliveryState::Pending { due: Time::ZERO },
        attempts: 0,
        last_error: None,
        created_at: Time::ZERO,
    }
}

#[test]
fn what_comes_back_while_it_is_ours_is_not_sent_twice() {
    let mut state = State::default();
    let take = |state: &mut State, until| {
        state.begin_taking();
        state.end_taking(vec![delivery(7)], Time::from_millis(until)).len()
    };
    assert_eq!(take(&mut state, 10), 1);
    assert_eq!(take(&mut state, 20), 0);
    assert_eq!(state.held_until(7), Some(Time::from_millis(20)));
    state.begin_taking();
    state.let_go(7);
    let late = state.end_taking(vec![delivery(7)], Time::from_millis(30));
    assert!(late.is_empty(), "the answer is older than the report");
    assert_eq!(take(&mut state, 40), 1);
}

#[test]
fn retries_are_looked_for_when_they_are_due() {
    let mut state = State::default();
    let at = Time::from_millis;
    state.expect_retry(at(1000));
    state.expect_retry(at(1001));
    state.expect_retry(at(1500));
    assert_eq!(state.next_event(), Some(at(1020)), "never too early");
    assert!(!state.is_retry_due(at(1019)) && state.is_retry_due(at(1020)));
    state.forget_retries(at(1020));
    assert_eq!(state.next_event(), Some(at(1520)));
}
