//! The last look at the servers: every task there is, compared with the books.

use super::campaign::Stage;
use super::clients::Trouble;
use super::clients::http::Http;
use super::order::serial_of;
use super::task_book::{TaskBook, Wrong};
use anyhow::bail;
use futures_util::StreamExt;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing may be alive before everything counts as done: a create whose caller gave up may still be
/// on its way to Redis.
const QUIET: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// Reads of one thing before it is given up.
const TRIES: u32 = 100;
const AT_A_TIME: usize = 16;

/// What there is in the end.
#[derive(Clone, Copy, Default, Debug)]
pub struct Found {
    pub tasks: u64,
    pub completed: u64,
    pub failed: u64,
    pub dead: u64,
    /// Of the tasks: those whose creation nobody had acknowledged.
    pub unacknowledged: u64,
    pub drain_seconds: f64,
}

pub struct Auditor {
    stage: Arc<Stage>,
    http: Http,
}

struct Listed {
    id: String,
    serial: Option<u64>,
    status: String,
    place: String,
    attempts: u64,
    max_attempts: u64,
}

impl Auditor {
    pub fn new(stage: Arc<Stage>) -> Auditor {
        Auditor { stage, http: Http::admin() }
    }

    async fn get(&self, path: &str) -> Option<Result<Value, Trouble>> {
        let doors = self.stage.doors.from(0)?;
        Some(self.http.get(&doors.http, path).await)
    }

    /// Ready, delayed and running tasks; none if no server says.
    pub async fn live(&self) -> Option<u64> {
        let view = self.get("/admin/queues?view=stats").await?.ok()?;
        let live = |queue: &Value| {
            ["ready", "delayed", "inProgress"]
                .iter()
                .map(|place| queue[place].as_u64().unwrap_or(0))
                .sum::<u64>()
        };
        Some(view["queues"].as_array()?.iter().map(live).sum())
    }

    /// Waits until nothing is alive; tells how long it took.
    pub async fn drained(&self, bound: Duration) -> Duration {
        let (begun, mut empty) = (Instant::now(), None);
        while begun.elapsed() < bound {
            empty = match self.live().await {
                Some(0) => empty.or_else(|| Some(Instant::now())),
                _ => None,
            };
            if empty.is_some_and(|since| since.elapsed() >= QUIET) {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        begun.elapsed()
    }

    /// Reads with patience: the servers are no longer killed.
    async fn read(&self, path: &str) -> anyhow::Result<Result<Value, String>> {
        for _ in 0..TRIES {
            match self.get(path).await {
                Some(Ok(value)) => return Ok(Ok(value)),
                Some(Err(Trouble::Refused(code))) => return Ok(Err(code)),
                Some(Err(_)) | None => tokio::time::sleep(PAUSE).await,
            }
        }
        bail!("{path} cannot be read")
    }

    /// Compares everything there is with the books, and notes what is wrong.
    pub async fn look(&self, drained: Duration) -> anyhow::Result<Found> {
        let mut found = Found { drain_seconds: drained.as_secs_f64(), ..Found::default() };
        let listed = self.list().await?;
        let reads = listed.iter().map(|task| async move {
            let result = self.read(&format!("/tasks/{}/result", task.id)).await;
            result.map(|result| (task, result))
        });
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(AT_A_TIME);
        while let Some(read) = reads.next().await {
            let (task, result) = read?;
            self.compare(task, &result, &mut found);
        }
        drop(reads);
        self.find_missing(&listed).await?;
        Ok(found)
    }

    async fn list(&self) -> anyhow::Result<Vec<Listed>> {
        let mut listed: HashMap<String, Listed> = HashMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/admin/tasks?payload=true&order=oldest&limit=500{cursor}");
            let page = match self.read(&path).await? {
                Ok(page) => page,
                Err(code) => bail!("the list is refused with {code}"),
            };
            for task in page["items"].as_array().into_iter().flatten() {
                let task = listed_of(task);
                if let Some(again) = listed.insert(task.id.clone(), task) {
                    self.stage.books.note(Wrong::Unexpected, format!("{} is listed twice", again.id));
                }
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(listed.into_values().collect()),
            }
        }
    }

    fn compare(&self, task: &Listed, result: &Result<Value, String>, found: &mut Found) {
        let pages = &mut *self.stage.books.pages();
        found.tasks += 1;
        match task.serial {
            Some(serial) => {
                pages.name(serial, &task.id);
                let is_acknowledged = pages.orders.get(&serial).is_some_and(|book| book.is_acknowledged);
                found.unacknowledged += u64::from(!is_acknowledged);
            }
            None => pages.note(Wrong::Unexpected, format!("{} has a payload of nobody", task.id)),
        }
        match (task.status.as_str(), task.place.as_str()) {
            ("COMPLETED", _) => found.completed += 1,
            ("FAILED", "DLQ_SET") => found.dead += 1,
            ("FAILED", _) => found.failed += 1,
            _ => {
                let text = format!("{} is {} in {}", task.id, task.status, task.place);
                return pages.note(Wrong::Stuck, text);
            }
        }
        let book = pages.tasks.remove(&task.id).unwrap_or_default();
        if let Err(text) = judge(task, result, &book) {
            pages.note(Wrong::Unexpected, format!("{}: {text}", task.id));
        }
        pages.tasks.insert(task.id.clone(), book);
    }

    /// Looks for every acknowledged order that is not in the list.
    async fn find_missing(&self, listed: &[Listed]) -> anyhow::Result<()> {
        let serials: std::collections::HashSet<u64> = listed.iter().filter_map(|task| task.serial).collect();
        let missing: Vec<(u64, String)> = {
            let pages = self.stage.books.pages();
            let is_missing = |serial: &u64| !serials.contains(serial);
            let named = pages.orders.iter().filter(|(serial, _)| is_missing(serial));
            named.filter_map(|(serial, book)| Some((*serial, book.id.clone()?))).collect()
        };
        for (serial, id) in missing {
            let (wrong, text) = match self.read(&format!("/tasks/{id}")).await? {
                Ok(_) => (Wrong::Unexpected, format!("{id} of order {serial} is there and not listed")),
                Err(code) => (Wrong::Lost, format!("{id} of order {serial}: {code}")),
            };
            self.stage.books.note(wrong, text);
        }
        Ok(())
    }
}

fn listed_of(task: &Value) -> Listed {
    let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| task[name].as_u64().unwrap_or(0);
    Listed {
        id: text("id"),
        serial: serial_of(text("payload").as_bytes()),
        status: text("status"),
        place: text("lastKnownLocation"),
        attempts: number("attempts"),
        max_attempts: number("maxAttempts"),
    }
}

/// Whether the end of a task is one that its workers know of.
fn judge(task: &Listed, result: &Result<Value, String>, book: &TaskBook) -> Result<(), String> {
    if task.attempts < book.last_attempt().into() {
        return Err(format!("{} attempts after attempt {}", task.attempts, book.last_attempt()));
    }
    let result = match result {
        Ok(both) => &both["result"],
        Err(code) => return Err(format!("its result is refused with {code}")),
    };
    if result["status"].as_str() != Some(&task.status) {
        return Err(format!("{} with a result {}", task.status, result["status"]));
    }
    if task.place == "DLQ_SET" {
        return match (&book.end, result["failureReason"].as_str()) {
            (Some(end), _) => Err(format!("dead after {end:?}")),
            (None, Some("MAX_ATTEMPTS")) if task.attempts >= task.max_attempts => Ok(()),
            (None, reason) => Err(format!("dead of {reason:?} after {} attempts", task.attempts)),
        };
    }
    if book.dead.is_some() {
        return Err(format!("{} after a worker was told that it is dead", task.status));
    }
    let is_completed = task.status == "COMPLETED";
    let mark = if is_completed { &result["result"]["mark"] } else { &result["error"] };
    let is_this =
        |end: &&super::task_book::End| end.is_completed == is_completed && mark.as_str() == Some(&end.mark);
    match &book.end {
        Some(end) if is_this(&end) => Ok(()),
        Some(end) => Err(format!("{result} instead of {end:?}")),
        None if book.asked.iter().any(|end| is_this(&end)) => Ok(()),
        None => Err(format!("{result}, which nobody sent")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Deed;
    use super::super::task_book::End;
    use super::*;
    use serde_json::json;

    fn task(status: &str, place: &str) -> Listed {
        Listed {
            id: "t".into(),
            serial: Some(1),
            status: status.into(),
            place: place.into(),
            attempts: 2,
            max_attempts: 2,
        }
    }

    fn asked(mark: &str) -> TaskBook {
        let mut book = TaskBook::default();
        book.reporting(2, Deed::Complete, mark, Instant::now());
        book
    }

    fn ended(mark: &str) -> TaskBook {
        let mut book = asked(mark);
        assert_eq!(book.ended("t", End { attempt: 2, is_completed: true, mark: mark.into() }), []);
        book
    }

    #[test]
    fn a_result_is_the_one_that_was_acknowledged() {
        let result = Ok(json!({"result": {"status": "COMPLETED", "result": {"mark": "a"}}}));
        let task = task("COMPLETED", "NONE");
        assert_eq!(judge(&task, &result, &ended("a")), Ok(()));
        assert!(judge(&task, &result, &ended("b")).is_err());
        assert!(judge(&task, &result, &TaskBook::default()).is_err(), "nobody sent it");
        assert_eq!(judge(&task, &result, &asked("a")), Ok(()), "it may have happened");
        assert!(judge(&task, &Err("result_not_found".into()), &ended("a")).is_err());
    }

    #[test]
    fn a_dead_letter_has_used_its_attempts() {
        let result = Ok(json!({"result": {"status": "FAILED", "failureReason": "MAX_ATTEMPTS"}}));
        let dead = task("FAILED", "DLQ_SET");
        assert_eq!(judge(&dead, &result, &TaskBook::default()), Ok(()));
        assert!(judge(&dead, &result, &ended("a")).is_err(), "it was completed");
        let early = Listed { max_attempts: 3, ..task("FAILED", "DLQ_SET") };
        assert!(judge(&early, &result, &TaskBook::default()).is_err());
    }
}
