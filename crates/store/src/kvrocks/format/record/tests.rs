//! Records that are read as they were written.

use super::*;
use codeq_queue::{CancelRequest, OnConflict, UniqueRule, UniqueUntil};

fn task(state: State) -> Task {
    let body = Body {
        tenant: "ac\"me".into(),
        command: "Render".into(),
        payload: "{ \"id\" : [1.0, \"é\\n\"]}".into(),
        webhook: Some("https://h/".into()),
        headers: Box::new([("z".into(), "1".into()), ("a".into(), "\"2\"".into())]),
        idempotency_key: Some("k".into()),
        trace_parent: Some("p".into()),
        trace_state: None,
        options: TaskOptions {
            lane: Some("l\"1".into()),
            tags: ["a".into()].into(),
            unique: Some(UniqueRule {
                key: "k:\"1".into(),
                until: UniqueUntil::For(Duration::from_secs(60)),
                on_conflict: OnConflict::Replace,
                max_wait: Some(Duration::from_secs(5)),
            }),
            expires_at: Some(Time::from_millis(1_700_000_009_000)),
            max_run: Some(Duration::from_secs(9)),
            ..TaskOptions::default()
        }
        .boxed(),
    };
    Task {
        id: TaskId::from_bits(7),
        body: Arc::new(body),
        priority: 3,
        state,
        attempts: 2,
        refunds: 1,
        max_attempts: 5,
        error: Some("it \"broke\"".into()),
        checkpoint: None,
        progress: None,
        created_at: Time::from_millis(1_700_000_000_001),
        updated_at: Time::from_millis(1_700_000_000_020),
    }
}

#[test]
fn every_state_is_read_as_it_was_written() {
    let mut lease = Lease::new(
        Arc::new(Owner::new("s", "w")),
        Time::from_millis(1_700_000_060_123),
        Time::from_millis(1_700_000_000_009),
    );
    let cancel =
        CancelRequest { deadline: Time::from_millis(1_700_000_030_000), reason: Some("a \"b\"".into()) };
    lease.cancel = Some(Arc::new(cancel));
    for state in [
        State::Ready { seq: 9 },
        State::Delayed { until: Time::from_millis(1_700_000_001_234) },
        State::Running(Arc::new(lease)),
        State::Completed,
        State::Failed,
        State::Cancelled,
        State::Dead,
    ] {
        let task = task(state);
        let text = text_of(&task, RecordExtras::default());
        assert_eq!(parse(text.as_bytes()), Some(task), "{text}");
    }
}

#[test]
fn the_tail_begins_where_scripts_look_for_it() {
    let task = task(State::Dead);
    let text = text_of(&task, RecordExtras::default());
    let at = text.find(&format!(",\"id\":\"{}\"", task.id)).unwrap();
    let tail = &text[at..];
    assert!(tail[44..].starts_with(",\"tenantId\":\"ac\\\"me\",\"command\":\"Render\",\"priority\":3,"));
}

#[test]
fn a_record_of_the_original_server_is_read_as_it_is() {
    let text = "{\"id\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"command\":\"RENDER\",\"payload\":\"{\\\"a\\\":1}\",\
        \"priority\":2,\"status\":\"IN_PROGRESS\",\"workerId\":\"w\",\"leaseUntil\":\"2026-03-01T12:00:05Z\",\
        \"attempts\":1,\"maxAttempts\":5,\"tenantId\":\"t\",\"createdAt\":\"2026-03-01T12:00:00.5Z\",\
        \"updatedAt\":\"2026-03-01T14:00:01+02:00\",\"extra\":[]}";
    let task = parse(text.as_bytes()).unwrap();
    assert_eq!((&*task.body.payload, task.priority), ("{\"a\":1}", 2));
    assert_eq!(task.created_at, Time::from_millis(1_772_366_400_500));
    assert_eq!(task.updated_at, Time::from_millis(1_772_366_401_000));
    assert_eq!(task.state.lease().unwrap().until, Time::from_millis(1_772_366_405_000));
}
