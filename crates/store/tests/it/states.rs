//! docs/states.md against a store: every row of its table happens, every other pair of state and verb is
//! refused and changes nothing, and the diagram shows what the table says.

use crate::candidates;
use codeq_queue::store::Cancel;
use codeq_queue::{Outcome, State, Task};
use codeq_store::Rules;
use codeq_store::testing::exam::bench::{Bench, LEASE, eager_rules, eventually, one, plain_rules};
use codeq_store::testing::exam::request::New;
use std::collections::BTreeSet;
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/states.md");
const RETENTION: Duration = Duration::from_secs(100);
const DELAY_SECONDS: u64 = 5;
/// Shorter than the delay, so that a delayed task expires while it waits.
const EXPIRY_SECONDS: u64 = 3;
/// Longer than a lease, so that either can end first.
const GRACE: Duration = Duration::from_secs(2 * LEASE.as_secs());

const VERBS: [&str; 12] = [
    "claim",
    "heartbeat",
    "nack",
    "abandon",
    "abandon with refund",
    "result COMPLETED",
    "result FAILED",
    "cancel",
    "cancel with grace",
    "requeue",
    "run now",
    "delete",
];
/// What happens to a task because of those that it waits for.
const ENDS: [&str; 2] = ["release", "dependency failure"];
const TIMERS: [&str; 5] = ["due", "lease expiry", "task expiry", "cancel deadline", "retention over"];

const ATTEMPTS_LEFT: &str = "attempts left";
const ATTEMPTS_LEFT_NO_DELAY: &str = "attempts left, no delay";
const ATTEMPTS_USED_UP: &str = "attempts used up";
const CANCEL_REQUESTED: &str = "cancel requested";
const NEVER_CLAIMED: &str = "never claimed";
const DELAY_FROM_RELEASE: &str = "a delay counts from here";
/// A delay that no case waits for.
const FAR_MS: u64 = 1_000_000;

struct Row {
    from: String,
    event: String,
    when: String,
    to: String,
}

/// The cells of the table under `heading`, without its head and rule.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = PAGE.split_once(heading).expect("the heading is on the page");
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

fn rows() -> Vec<Row> {
    let row = |cells: Vec<String>| {
        let [from, event, when, to] = <[String; 4]>::try_from(cells).expect("four cells in each row");
        Row { from, event, when, to }
    };
    table("## Transitions").into_iter().map(row).collect()
}

fn states() -> Vec<Vec<String>> {
    table("## What a caller sees")
}

fn name(state: &State) -> String {
    let name = match state {
        State::Ready { .. } => "ready",
        State::Delayed { .. } => "delayed",
        State::Running(_) => "running",
        State::Held(_) => "held",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Dead => "dead",
        #[allow(
            unreachable_patterns,
            reason = "a state that is not on the page fails the test, not the build"
        )]
        other => return format!("{other:?}"),
    };
    name.into()
}

fn bench(when: &str) -> Bench {
    let rules = if when == ATTEMPTS_LEFT_NO_DELAY { eager_rules() } else { plain_rules() };
    let rules = Rules { retention: RETENTION, dead_retention: Some(RETENTION), ..rules };
    Bench::with(&candidates::memory(1), rules)
}

async fn cancel_with_grace(bench: &Bench, task: &Task) -> bool {
    let cancel = Cancel { task: bench.named(task.id), grace: GRACE, reason: None };
    one(bench.ask("cancel", bench.store().cancel(vec![cancel])).await).is_ok()
}

/// A task in `state`, as `when` says: with one attempt or two, with an expiry, with a cancel that was requested.
async fn reach(bench: &Bench, state: &str, when: &str) -> Task {
    let mut new = New::of("render").max_attempts(if when == ATTEMPTS_USED_UP { 1 } else { 2 });
    if when == NEVER_CLAIMED {
        new = new.expires_at(bench.now().plus_seconds(EXPIRY_SECONDS));
    }
    let task = match state {
        "ready" => bench.make(new).await.task,
        "delayed" => bench.make(new.delayed_ms(DELAY_SECONDS * 1000)).await.task,
        "held" => {
            let first = bench.make(New::of("first").delayed_ms(FAR_MS)).await.task;
            if when == DELAY_FROM_RELEASE {
                new = new.delayed_ms(DELAY_SECONDS * 1000);
            }
            bench.make(new.after(&[first.id])).await.task
        }
        "dead" => bench.dead("render").await,
        "cancelled" => {
            let task = bench.make(new).await.task;
            bench.cancel(task.id).await.expect("a ready task can be cancelled")
        }
        _ => bench.create_and_take(new).await,
    };
    match state {
        "completed" => drop(bench.complete(&task).await),
        "failed" => {
            drop(bench.submit(&task, Outcome::failed("no")).await.expect("the owner may fail its task"))
        }
        "running" if when == CANCEL_REQUESTED => assert!(cancel_with_grace(bench, &task).await),
        _ => {}
    }
    let task = bench.get(task.id).await;
    assert_eq!(name(&task.state), state, "the test knows how to bring a task there");
    task
}

/// Whether the store took the verb.
async fn act(bench: &Bench, task: &Task, verb: &str) -> bool {
    match verb {
        "claim" => !bench.claim_any(1).await.is_empty(),
        "heartbeat" => bench.heartbeat(bench.report(task), LEASE).await.is_ok(),
        "nack" => bench.nack(task, 0, "broken").await.is_ok(),
        "abandon" => bench.abandon(task).await.is_ok(),
        "abandon with refund" => bench.refund(task).await.is_ok(),
        "result COMPLETED" => bench.submit(task, Outcome::completed("{}")).await.is_ok(),
        "result FAILED" => bench.submit(task, Outcome::failed("no")).await.is_ok(),
        "cancel" => bench.cancel(task.id).await.is_ok(),
        "cancel with grace" => cancel_with_grace(bench, task).await,
        "requeue" => bench.requeue(task.id, None).await.is_ok(),
        "run now" => bench.run_now(task.id).await.is_ok(),
        "delete" => bench.remove(task.id).await.is_ok(),
        other => panic!("the test does not know the verb {other}"),
    }
}

async fn now_in(bench: &Bench, task: &Task) -> String {
    bench.find(task.id).await.map_or_else(|| "gone".into(), |task| name(&task.state))
}

/// The row that speaks of this case: the one whose condition fits best.
fn expected<'a>(rows: &'a [Row], from: &str, event: &str, when: &str) -> Option<&'a Row> {
    let fitting =
        rows.iter().filter(|row| row.from == from && row.event == event && when.starts_with(&*row.when));
    fitting.max_by_key(|row| row.when.len())
}

#[tokio::test]
async fn verbs_do_what_the_page_says_and_nothing_else() {
    let rows = rows();
    for state in states() {
        for verb in VERBS {
            for when in [ATTEMPTS_LEFT, ATTEMPTS_LEFT_NO_DELAY, ATTEMPTS_USED_UP, CANCEL_REQUESTED] {
                let bench = bench(when);
                let before = reach(&bench, &state[0], when).await;
                let is_taken = act(&bench, &before, verb).await;
                let case = format!("{verb} of a {} task, {when}", state[0]);
                match expected(&rows, &state[0], verb, when) {
                    Some(row) => {
                        assert!(is_taken, "{case}: refused, but docs/states.md has a row for it");
                        assert_eq!(now_in(&bench, &before).await, row.to, "{case}: see docs/states.md");
                    }
                    None => {
                        assert!(!is_taken, "{case}: accepted, but docs/states.md has no row for it");
                        assert_eq!(bench.get(before.id).await, before, "{case}: a refusal changes nothing");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn time_does_what_the_page_says() {
    for row in rows().iter().filter(|row| TIMERS.contains(&&*row.event)) {
        let bench = bench(&row.when);
        let task = reach(&bench, &row.from, &row.when).await;
        if row.event == "cancel deadline" {
            bench.heartbeat(bench.report(&task), 2 * GRACE).await.expect("the owner may extend");
        }
        bench.advance(match &*row.event {
            "due" => DELAY_SECONDS,
            "lease expiry" => LEASE.as_secs(),
            "task expiry" => EXPIRY_SECONDS,
            "cancel deadline" => GRACE.as_secs(),
            _ => RETENTION.as_secs(),
        });
        let case = format!("{} of a {} task, {}: becomes {}", row.event, row.from, row.when, row.to);
        // Dead letters are cleared by a round that comes with the clock.
        eventually(&case, || async {
            bench.advance(u64::from(row.to == "gone"));
            now_in(&bench, &task).await == row.to
        })
        .await;
    }
}

#[tokio::test]
async fn the_end_of_another_does_what_the_page_says() {
    for row in rows().iter().filter(|row| ENDS.contains(&&*row.event)) {
        let bench = bench(&row.when);
        let task = reach(&bench, &row.from, &row.when).await;
        let first = task.body.after()[0];
        match &*row.event {
            "release" => {
                bench.advance(FAR_MS / 1000);
                let taken = bench.take("first").await;
                bench.complete(&taken).await;
            }
            _ => drop(bench.cancel(first).await.expect("a delayed task can be cancelled")),
        }
        let case = format!("{} of a {} task, {}: becomes {}", row.event, row.from, row.when, row.to);
        eventually(&case, || async { now_in(&bench, &task).await == row.to }).await;
    }
}

#[tokio::test]
async fn a_new_task_is_where_the_page_says() {
    let created: Vec<String> =
        rows().into_iter().filter(|row| row.from == "new").map(|row| row.event + " " + &row.to).collect();
    assert_eq!(created, ["create ready", "create delayed", "create held"]);
    for state in states() {
        let task = reach(&bench(ATTEMPTS_LEFT), &state[0], ATTEMPTS_LEFT).await;
        let shown = [task.state.status().word(), task.state.place().word()];
        assert_eq!(shown, [&*state[1], &*state[2]], "{} as a caller sees it", state[0]);
    }
}

#[test]
fn the_diagram_shows_the_table() {
    let (_, diagram) = PAGE.split_once("stateDiagram-v2").expect("a diagram");
    let (diagram, _) = diagram.split_once("```").expect("its end");
    let drawn: BTreeSet<(&str, &str, &str)> = diagram
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (from, rest) = line.trim().split_once(" --> ").expect("an arrow in each line");
            let (to, event) = rest.split_once(": ").expect("an event at each arrow");
            (from, event, to)
        })
        .collect();
    let rows = rows();
    let end = |state| if state == "new" || state == "gone" { "[*]" } else { state };
    let listed: BTreeSet<(&str, &str, &str)> =
        rows.iter().map(|row| (end(&row.from), &*row.event, end(&row.to))).collect();
    assert_eq!(drawn, listed);
    let known: Vec<&str> = VERBS.into_iter().chain(TIMERS).chain(ENDS).chain(["create"]).collect();
    for row in &rows {
        assert!(known.contains(&&*row.event), "no test performs {}", row.event);
    }
}
