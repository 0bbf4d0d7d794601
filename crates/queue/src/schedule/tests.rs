use super::*;
use crate::create::CreateRequest;

const HOUR: i64 = 3_600_000;
/// A full hour.
const NOW: i64 = 1_772_366_400_000;

fn request() -> ScheduleRequest {
    let task = CreateRequest {
        tenant: "acme".into(),
        command: "Report".into(),
        payload: "{}".into(),
        ..CreateRequest::default()
    };
    ScheduleRequest { cron: Some("0 * * * *".into()), task, ..ScheduleRequest::default() }
}

fn checked(request: ScheduleRequest) -> Result<Definition, Refusal> {
    request.check("nightly", 5, limits::PAYLOAD_BYTES, Time::from_millis(NOW))
}

fn at(hours: i64) -> Time {
    Time::from_millis(NOW + hours * HOUR)
}

fn schedule(change: impl FnOnce(&mut ScheduleRequest)) -> Schedule {
    let mut request = request();
    change(&mut request);
    Schedule::put(None, &"acme".into(), "nightly", checked(request).unwrap(), at(0)).unwrap().0
}

#[test]
fn requests_are_checked_field_by_field() {
    let made = checked(request()).unwrap();
    assert_eq!((made.overlap, made.catch_up), (Overlap::Skip, CatchUp::One));
    assert_eq!((made.catch_up_window, made.jitter), (Duration::from_secs(86_400), Duration::ZERO));
    assert_eq!((made.plan.zone.name(), made.task.max_attempts), ("UTC", 5));
    let refused = |change: fn(&mut ScheduleRequest)| {
        let mut asked = request();
        change(&mut asked);
        checked(asked).unwrap_err().to_string()
    };
    let every: fn(&mut ScheduleRequest) = |r| (r.cron, r.every_seconds) = (None, Some(0));
    for (change, text) in [
        ((|r| r.cron = None) as fn(&mut ScheduleRequest), "invalid cron: cron or everySeconds is required"),
        (|r| r.cron = Some("x".into()), "invalid cron: must have 5 or 6 fields, has 1"),
        (|r| r.every_seconds = Some(5), "invalid everySeconds: cron and everySeconds exclude each other"),
        (every, "invalid everySeconds: must be between 1 and 31622400"),
        (|r| r.anchor = Some(Time::ZERO), "invalid anchor: an anchor belongs to everySeconds"),
        (|r| r.timezone = Some("Mars/Base".into()), "invalid timezone: Mars/Base is no IANA time zone"),
        (|r| r.overlap = Some("queue".into()), "invalid overlap: must be one of skip, allow, cancel"),
        (|r| r.catch_up = Some("some".into()), "invalid catchUp: must be one of none, one, all"),
        (
            |r| r.catch_up_window_seconds = Some(0),
            "invalid catchUpWindowSeconds: must be between 1 and 31622400",
        ),
        (|r| r.jitter_seconds = Some(-1), "invalid jitterSeconds: must be between 0 and 86400"),
        (|r| r.jitter_seconds = Some(86_401), "invalid jitterSeconds: must be between 0 and 86400"),
        (
            |r| (r.start_at, r.end_at) = (Some(Time::from_millis(5)), Some(Time::from_millis(5))),
            "invalid endAt: must be after startAt",
        ),
        (
            |r| r.task.headers = vec![("Codeq-Schedule".into(), "x".into())],
            "invalid task.headers: codeq-schedule and codeq-scheduled-for are set by the schedule",
        ),
        (|r| r.task.headers = (0..15).map(|i| (format!("h{i}"), String::new())).collect(), "invalid headers"),
        (|r| r.task.command = "a b".into(), "invalid command"),
        (|r| r.task.delay_seconds = -1, "invalid 'delaySeconds' (must be >= 0)"),
    ] {
        assert_eq!(refused(change), text);
    }
    for name in ["a", "A.b:c_d-9", &"n".repeat(128)] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    for name in ["", "a b", "a/b", "é", &"n".repeat(129)] {
        assert!(check_name(name).is_err(), "{name}");
    }
    assert_eq!(check_note(Some(" ")), Ok(None));
    assert!(check_note(Some(&"x".repeat(513))).is_err());
}

#[test]
fn an_equal_put_changes_nothing_and_another_begins_from_now() {
    let first = schedule(|_| {});
    assert_eq!(first.progress.next_at, Some(at(1)));
    let tenant = &first.tenant;
    let put = |current: &Schedule, change: fn(&mut ScheduleRequest), now| {
        let mut asked = request();
        change(&mut asked);
        Schedule::put(Some(current), tenant, "nightly", checked(asked).unwrap(), now)
    };
    let (same, did) = put(&first, |r| r.task_text = "{ }".into(), at(5)).unwrap();
    assert_eq!((same.progress.next_at, did), (Some(at(1)), SchedulePut::Same));
    let paused = Schedule { progress: first.pause(Some("why".into())), ..first.clone() };
    let (same, did) = put(&paused, |_| {}, at(5)).unwrap();
    assert_eq!((same.progress.is_paused, did), (true, SchedulePut::Same));
    let counted = Progress { missed: 3, skipped: 2, ..paused.progress.clone() };
    let counted = Schedule { progress: counted, ..paused };
    let (changed, did) = put(&counted, |r| r.cron = Some("30 * * * *".into()), at(5)).unwrap();
    assert_eq!((changed.created_at, changed.updated_at, did), (at(0), at(5), SchedulePut::Changed));
    assert_eq!(changed.progress.next_at, Some(Time::from_millis(NOW + 5 * HOUR + HOUR / 2)));
    assert_eq!((changed.progress.missed, changed.progress.is_paused), (3, false));
    assert_eq!(put(&first, |r| r.task.command = "other".into(), at(5)), Err(Refusal::ScheduleCommandFixed));
    assert!(put(&first, |r| r.task.command = "rEPORT".into(), at(5)).is_ok());
    let never = put(&first, |r| r.cron = Some("0 0 30 2 *".into()), at(5)).unwrap_err();
    assert_eq!(never.to_string(), "invalid cron: the plan never fires");
    let over = put(&first, |r| r.end_at = Some(Time::from_millis(NOW)), at(5)).unwrap_err();
    assert_eq!(over.to_string(), "invalid cron: the plan never fires");
}

#[test]
fn a_paused_schedule_misses_nothing() {
    let made = schedule(|_| {});
    let paused = Schedule { progress: made.pause(None), ..made.clone() };
    assert_eq!(due(&paused, at(10), at(0)), None);
    let resumed = paused.resume(at(10));
    assert_eq!((resumed.next_at, resumed.missed, resumed.is_paused), (Some(at(11)), 0, false));
    assert_eq!(made.resume(at(10)), made.progress);
    let asleep = schedule(|r| r.paused = true);
    assert_eq!((asleep.progress.next_at, asleep.progress.is_paused), (None, true));
}

#[test]
fn ticks_that_somebody_saw_fire_one_by_one() {
    let made = schedule(|r| r.catch_up = Some("none".into()));
    assert_eq!(due(&made, Time::from_millis(NOW + HOUR - 1), at(0)), None);
    let fires = Some(Due { fires: Some(at(1)), missed: 0, next_at: Some(at(2)) });
    assert_eq!(due(&made, at(1), at(0)), fires);
    assert_eq!(due(&made, at(1).plus_seconds(60), at(0)), fires);
    // The store was opened in the very moment, or the clock of the store has not moved.
    assert_eq!(due(&made, at(1), at(1)), fires);
    assert_eq!(due(&made, at(1), at(3)), fires);
}

/// Down from 0:30 to 4:30, with ticks at 1, 2, 3 and 4.
#[test]
fn missed_ticks_are_caught_up_with_as_asked() {
    let now = Time::from_millis(NOW + 4 * HOUR + HOUR / 2);
    let step = |change: fn(&mut ScheduleRequest)| due(&schedule(change), now, now).unwrap();
    let none = step(|r| r.catch_up = Some("none".into()));
    assert_eq!(none, Due { fires: None, missed: 4, next_at: Some(at(5)) });
    let one = step(|_| {});
    assert_eq!(one, Due { fires: Some(at(4)), missed: 3, next_at: Some(at(5)) });
    let short = step(|r| r.catch_up_window_seconds = Some(60));
    assert_eq!(short, Due { fires: None, missed: 4, next_at: Some(at(5)) });
    let all = step(|r| r.catch_up = Some("all".into()));
    assert_eq!(all, Due { fires: Some(at(1)), missed: 0, next_at: Some(at(2)) });
    let window = step(|r| (r.catch_up, r.catch_up_window_seconds) = (Some("all".into()), Some(2 * 3600)));
    assert_eq!(window, Due { fires: None, missed: 2, next_at: Some(at(3)) });
    // A machine that slept is the same, though the store was open.
    assert_eq!(due(&schedule(|_| {}), now, at(0)).unwrap(), one);
}

/// Two are missed, the third is seen.
#[test]
fn a_tick_that_was_seen_fires_after_the_one_that_was_caught_up() {
    let every = |r: &mut ScheduleRequest| (r.cron, r.every_seconds) = (None, Some(10));
    let mut made = schedule(every);
    let seconds = |seconds| at(0).plus_seconds(seconds);
    let (now, open) = (seconds(31), seconds(25));
    let first = due(&made, now, open).unwrap();
    assert_eq!(first, Due { fires: Some(seconds(20)), missed: 1, next_at: Some(seconds(30)) });
    made.progress.next_at = first.next_at;
    let second = due(&made, now, open).unwrap();
    assert_eq!(second, Due { fires: Some(seconds(30)), missed: 0, next_at: Some(seconds(40)) });
}

/// Three years of minutes are counted a thousand at a time, and only the last one fires.
#[test]
fn a_long_absence_is_counted_in_bounded_steps() {
    let mut made = schedule(|r| r.cron = Some("* * * * *".into()));
    let now = at(3);
    let (mut missed, mut steps, mut fired) = (0, 0, Vec::new());
    while let Some(step) = due(&made, now, now) {
        assert!(step.missed <= 1000);
        (missed, steps) = (missed + step.missed, steps + 1);
        fired.extend(step.fires);
        made.progress.next_at = step.next_at;
    }
    // The minute that the store was opened in has been seen.
    assert_eq!((missed, steps, fired), (178, 2, vec![Time::from_millis(NOW + 3 * HOUR - 60_000), now]));
    let mut made = schedule(|r| r.cron = Some("* * * * * *".into()));
    let step = due(&made, now, now).unwrap();
    assert_eq!((step.missed, step.fires), (1000, None));
    made.progress.next_at = step.next_at;
    assert_eq!(due(&made, now, now).unwrap().missed, 1000);
}

#[test]
fn tasks_carry_where_they_come_from_and_wait_by_name_and_tick() {
    let made = schedule(|r| {
        r.jitter_seconds = Some(60);
        r.task.headers = vec![("region".into(), "eu".into())];
    });
    let task = made.task(at(1), at(1));
    let headers: Vec<(&str, &str)> = task.body.headers.iter().map(|(n, v)| (&**n, &**v)).collect();
    let expected =
        [("region", "eu"), (SCHEDULE_HEADER, "nightly"), (SCHEDULED_FOR_HEADER, "2026-03-01T13:00:00Z")];
    assert_eq!((headers.as_slice(), task.delay), (&expected[..], Delay::None));
    let delay = |schedule: &Schedule, tick| match schedule.jittered(tick, tick).delay {
        Delay::For(delay) => delay,
        _ => Duration::ZERO,
    };
    let delays: Vec<Duration> = (1..200).map(|hour| delay(&made, at(hour))).collect();
    assert!(delays.iter().all(|delay| *delay < Duration::from_secs(60)));
    assert!(delays.iter().any(|delay| *delay < Duration::from_secs(15)));
    assert!(delays.iter().any(|delay| *delay > Duration::from_secs(45)));
    assert_eq!(delay(&made, at(1)), delays[0]);
    let other = Schedule { name: "other".into(), ..made };
    assert_ne!(delay(&other, at(1)), delays[0]);
    let brief = schedule(|r| r.task.options.expire_seconds = Some(30));
    assert_eq!(brief.definition.task.body.options, None);
    let options = brief.task(at(1), at(2)).body.options.clone().expect("it expires");
    assert_eq!(options.expires_at, Some(at(2).plus_seconds(30)));
    let late = schedule(|r| (r.jitter_seconds, r.task.delay_seconds) = (Some(60), 100));
    assert!((100..160).contains(&delay(&late, at(1)).as_secs()));
}

#[test]
fn backfills_are_bounded() {
    let made = schedule(|_| {});
    assert_eq!(made.check_backfill(at(-10), at(0)), Ok(10));
    assert_eq!(made.check_backfill(at(0), Time::from_millis(NOW + 1)), Ok(1));
    assert_eq!(made.check_backfill(Time::from_millis(NOW + 1), at(1)), Ok(0));
    assert_eq!(made.check_backfill(at(0), at(10_000)), Ok(10_000));
    let long = made.check_backfill(at(0), at(10_001)).unwrap_err();
    assert_eq!(long.to_string(), "invalid to: more than 10000 ticks");
    assert!(made.check_backfill(at(0), at(0)).is_err());
    let mut progress = Progress::default();
    for operation in 0..20 {
        progress.mark(BackfillMark { operation, reached: at(0), made: 1 });
    }
    progress.mark(BackfillMark { operation: 19, reached: at(1), made: 2 });
    assert_eq!((progress.backfills.len(), progress.backfill(3)), (16, None));
    assert_eq!(progress.backfill(19).unwrap().made, 2);
}

#[test]
fn the_next_ticks_are_those_of_the_plan() {
    let made = schedule(|r| r.end_at = Some(at(3)));
    assert_eq!(made.next(at(0), 10), [at(1), at(2)]);
    assert_eq!(made.next(at(0), 1), [at(1)]);
}
