use super::*;
use crate::dependency::OnFailure;

const NOW: Time = Time::from_millis(1_000_000);
const RETENTION: Duration = Duration::from_secs(100);

fn batch() -> Batch {
    let new = NewBatch { tenant: "acme".into(), name: None, close_after: Duration::from_secs(60) };
    Batch::new(TaskId::from_bits(7), new, NOW)
}

fn counts(live: u64, completed: u64, failed: u64, version: u64) -> Counts {
    Counts { live, completed, failed, joined_at: NOW, version, ..Counts::default() }
}

fn closed(counts: Counts) -> Counts {
    Counts { is_closed: true, ..counts }
}

#[test]
fn the_highest_version_wins_whatever_the_order() {
    let mut batch = batch();
    assert_eq!(batch.register(2), Ok(true));
    assert_eq!(batch.register(2), Ok(false));
    assert!(batch.hear(2, counts(3, 1, 0, 5)));
    assert!(!batch.hear(2, counts(9, 0, 0, 4)));
    assert!(!batch.hear(2, counts(9, 0, 0, 5)));
    assert!(!batch.hear(3, counts(9, 0, 0, 6)), "not registered");
    assert_eq!((batch.counts().live, batch.counts().completed), (3, 1));
    assert!((batch.progress() - 0.25).abs() < 1e-9);
}

#[test]
fn it_ends_once_it_has_closed_everywhere_and_no_member_lives() {
    let mut batch = batch();
    batch.register(0).unwrap();
    batch.register(1).unwrap();
    batch.hear(0, counts(0, 4, 0, 8));
    batch.hear(1, counts(1, 0, 0, 1));
    assert!(!batch.try_end(NOW, RETENTION), "it is open");
    assert!(batch.close(NOW));
    assert!(!batch.close(NOW));
    assert_eq!(batch.register(2), Err(Refusal::BatchClosed));
    assert_eq!(batch.behind().collect::<Vec<_>>(), [0, 1]);
    batch.hear(0, closed(counts(0, 4, 0, 9)));
    assert!(!batch.try_end(NOW, RETENTION), "a partition may still take members");
    batch.hear(1, closed(counts(1, 0, 0, 2)));
    assert!(!batch.try_end(NOW, RETENTION), "a member lives");
    batch.hear(1, closed(counts(0, 1, 0, 3)));
    assert!(batch.try_end(NOW, RETENTION));
    assert!(!batch.try_end(NOW, RETENTION), "only once");
    assert_eq!((batch.state(), batch.standing()), (BatchState::Completed, Standing::Succeeded));
    assert!(!batch.hear(1, counts(5, 0, 0, 99)), "what has ended does not change");
    assert_eq!(batch.end.unwrap().expires, NOW.plus(RETENTION));
}

#[test]
fn a_member_that_failed_or_a_cancel_makes_it_fail() {
    let mut failed = batch();
    failed.register(0).unwrap();
    failed.close(NOW);
    failed.hear(0, closed(counts(0, 4, 1, 8)));
    assert!(failed.try_end(NOW, RETENTION));
    assert_eq!(failed.state(), BatchState::Failed);
    let mut cancelled = batch();
    assert!(cancelled.cancel(NOW));
    assert!(!cancelled.cancel(NOW));
    assert!(cancelled.try_end(NOW, RETENTION));
    assert_eq!(cancelled.standing(), Standing::Failed);
}

#[test]
fn without_members_it_completes_when_it_closes() {
    let mut batch = batch();
    assert_eq!(batch.closes_at(), Some(NOW.plus(Duration::from_secs(60))));
    batch.close(NOW);
    assert_eq!(batch.closes_at(), None);
    assert!(batch.try_end(NOW, RETENTION));
    assert_eq!((batch.state(), batch.progress()), (BatchState::Completed, 1.0));
}

#[test]
fn every_join_puts_the_close_off() {
    let mut batch = batch();
    batch.register(0).unwrap();
    let later = NOW.plus(Duration::from_secs(50));
    batch.hear(0, Counts { joined_at: later, ..counts(1, 0, 0, 1) });
    assert_eq!(batch.closes_at(), Some(later.plus(Duration::from_secs(60))));
}

#[test]
fn counts_follow_the_members() {
    let mut share = Counts::default();
    for _ in 0..3 {
        share.join(NOW);
    }
    share.end(true);
    share.end(false);
    assert_eq!((share.live, share.completed, share.failed, share.version), (1, 1, 1, 5));
    share.reopen();
    assert_eq!((share.live, share.completed, share.failed, share.version), (2, 1, 0, 6));
    assert!(share.close(false));
    assert!(!share.close(false));
    assert!(share.close(true));
    assert_eq!((share.is_closed, share.is_cancelled, share.version), (true, true, 8));
}

#[test]
fn requests_are_bounded() {
    let tenant: Arc<str> = "acme".into();
    let (new, on_failure) = BatchRequest::default().check(&tenant).unwrap();
    assert_eq!((new.close_after.as_secs(), new.name, on_failure), (86_400, None, OnFailure::Cancel));
    let none = BatchRequest::default;
    for bad in [
        BatchRequest { name: Some("n".repeat(129)), ..none() },
        BatchRequest { close_after_seconds: Some(0), ..none() },
        BatchRequest { close_after_seconds: Some(31_622_401), ..none() },
        BatchRequest { on_failure: Some("maybe".into()), ..none() },
    ] {
        assert!(matches!(bad.clone().check(&tenant), Err(Refusal::InvalidBatch { .. })), "{bad:?}");
    }
}
