use super::*;
use codeq_queue::{AttemptOutcome, QueueKey};

const START: i64 = 1_800_000_000_000;

fn at(seconds: i64) -> Time {
    Time::from_millis(START + seconds * 1000)
}

fn event(command: &str, when: Time, what: What) -> Event {
    let queue = QueueKey::new("t", command);
    Event { at: when, queue, command: command.into(), task: None, what, has_filled: false }
}

fn ended(created_at: Time) -> What {
    What::Ended {
        state: State::Completed,
        outcome: Some(AttemptOutcome::Completed),
        attempt: 1,
        owner: None,
        error: None,
        created_at,
        has_callback: false,
    }
}

fn depth(command: &str, ready: u64) -> QueueStats {
    let mut queue = QueueStats { command: command.into(), ..QueueStats::empty(&QueueKey::new("t", command)) };
    queue.ready[5] = ready;
    queue
}

#[test]
fn counts_and_depths_of_an_hour_are_shown_step_by_step() {
    let history = History::new(at(0));
    history.observe(&[event("Render", at(1), What::Created), event("Render", at(2), What::Created)]);
    history.sample(at(5), &[depth("Render", 2)]);
    history.observe(&[event("Render", at(6), ended(at(1)))]);
    history.sample(at(10), &[depth("Render", 1)]);
    let shown = history.show(Some("t"), Some("render"), 60, 720);
    assert_eq!((shown.since, shown.step_seconds), (at(0), 5));
    assert_eq!(shown.until, at(15));
    let of = |count: fn(&shown::Point) -> u64| shown.total.iter().map(count).collect::<Vec<_>>();
    assert_eq!(of(|point| point.created), [0, 2, 0]);
    assert_eq!(of(|point| point.completed), [0, 0, 1]);
    assert_eq!(of(|point| point.depth[0]), [0, 2, 1]);
    assert_eq!(&*shown.queues[0].command, "Render");
    assert_eq!(shown.queues[0].ended, [0, 0, 1]);
    let took = shown.total[2].took_millis(0.5).expect("one ended");
    assert!((4096.0..8192.0).contains(&took), "{took}");
    assert_eq!(shown.total[0].took_millis(0.5), None);
    assert!(history.show(Some("other"), None, 60, 720).queues.is_empty());
}

#[test]
fn a_day_is_shown_minute_by_minute_and_nothing_is_lost() {
    let history = History::new(at(0));
    let steps = 3 * 3600 / 5;
    for step in 1..=steps {
        history.observe(&[event("c", at(step * 5 - 1), What::Created)]);
        history.sample(at(step * 5), &[depth("c", 1)]);
    }
    let shown = history.show(None, None, 1440, 1440);
    assert_eq!(shown.step_seconds, 60);
    let created: u64 = shown.total.iter().map(|point| point.created).sum();
    assert!((steps - 12..=steps).contains(&i64::try_from(created).expect("few")), "{created}");
    let coarse = history.show(None, None, 1440, 60);
    assert_eq!(coarse.step_seconds, 24 * 60);
    assert!(coarse.total.len() <= 60);
}

#[test]
fn missed_steps_stay_empty() {
    let history = History::new(at(0));
    history.observe(&[event("c", at(1), What::Created)]);
    history.sample(at(5), &[depth("c", 1)]);
    history.sample(at(30), &[depth("c", 1)]);
    let shown = history.show(None, None, 60, 720);
    let ready: Vec<u64> = shown.total.iter().map(|point| point.depth[0]).collect();
    assert_eq!(ready, [0, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn queues_beyond_the_bound_take_the_place_of_quiet_ones_only() {
    let history = History::new(at(0));
    let names: Vec<String> = (0..QUEUES + 10).map(|number| format!("c{number}")).collect();
    let queues: Vec<QueueStats> = names.iter().map(|name| depth(name, 1)).collect();
    history.sample(at(5), &queues);
    assert_eq!(history.show(None, None, 60, 10).queues.len(), QUEUES);
    for step in 0..=i64::try_from(FINE).expect("few") {
        history.sample(at(10 + step * 5), &[]);
    }
    history.sample(at(3700), &[depth("late", 1)]);
    let shown = history.show(None, Some("late"), 60, 10);
    assert_eq!((shown.queues.len(), history.show(None, None, 60, 10).queues.len()), (1, QUEUES));
}

/// Charts began anew with every restart, just when somebody wanted to see what had led to it.
#[test]
fn charts_go_on_after_a_restart_with_a_gap_for_the_time_between() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let history = History::new(at(0));
    history.observe(&[event("Render", at(1), What::Created), event("Render", at(2), ended(at(1)))]);
    history.sample(at(5), &[depth("Render", 7)]);
    history.sample(at(65), &[depth("Render", 3)]);
    saved::save(&history, directory.path()).expect("there is room");

    let again = saved::load(directory.path(), at(65)).expect("a history");
    assert_eq!(again.show(Some("t"), None, 60, 720), history.show(Some("t"), None, 60, 720));

    let later = saved::load(directory.path(), at(125)).expect("a history");
    later.sample(at(125), &[depth("Render", 1)]);
    let shown = later.show(Some("t"), Some("render"), 60, 720);
    let ready: Vec<u64> = shown.total.iter().map(|point| point.depth[0]).collect();
    assert_eq!(ready[ready.len() - 1], 1);
    assert_eq!(ready[ready.len() - 13], 3, "a minute before");
    assert_eq!(ready[ready.len() - 25], 7, "two minutes before");
    assert_eq!(shown.since, at(0));
}

#[test]
fn a_file_that_is_cut_off_old_or_of_the_future_is_left_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let history = History::new(at(0));
    history.observe(&[event("Render", at(1), What::Created)]);
    history.sample(at(5), &[depth("Render", 7)]);
    saved::save(&history, directory.path()).expect("there is room");
    let file = directory.path().join(saved::FILE);
    let whole = std::fs::read(&file).expect("it was saved");
    assert!(saved::load(directory.path(), at(-60)).is_none(), "of the future");
    assert!(saved::load(directory.path(), at(86_400 * 2)).is_none(), "nothing of it could be shown");
    for end in 0..whole.len() {
        std::fs::write(&file, &whole[..end]).expect("there is room");
        assert!(saved::load(directory.path(), at(10)).is_none(), "{end} bytes");
    }
    std::fs::remove_file(&file).expect("it is there");
    assert!(saved::load(directory.path(), at(10)).is_none());
}
