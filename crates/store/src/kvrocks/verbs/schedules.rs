//! Schedules as text: what they are, what has come of them, and the directory entries that lead to them.

use crate::kvrocks::format::record::{self, RecordExtras};
use crate::kvrocks::verbs::create::new_task;
use codeq_queue::schedule::cron::Cron;
use codeq_queue::schedule::{
    BackfillMark, CatchUp, Definition, Overlap, Plan, Progress, Rhythm, Schedule, Zone,
};
use codeq_queue::{Delay, NewTask, TaskId, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Tenant and name.
pub type FullName = (Arc<str>, Arc<str>);

/// What a schedule is called in the hashes of its shard. Names have no line breaks.
pub fn field((tenant, name): &FullName) -> String {
    format!("{tenant}\n{name}")
}

pub fn read_field(field: &str) -> Option<FullName> {
    let (tenant, name) = field.rsplit_once('\n')?;
    Some((tenant.into(), name.into()))
}

/// Where a schedule lives, as the directory says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulePlace {
    pub shard: String,
    /// Lower case.
    pub command: String,
}

impl SchedulePlace {
    pub fn text(&self) -> String {
        format!("{}\n{}", self.shard, self.command)
    }

    pub fn parse(text: &str) -> Option<SchedulePlace> {
        let (shard, command) = text.split_once('\n')?;
        Some(SchedulePlace { shard: shard.into(), command: command.into() })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionText {
    created_at_ms: i64,
    updated_at_ms: i64,
    cron: Option<String>,
    every_seconds: Option<u64>,
    anchor_ms: i64,
    timezone: String,
    start_at_ms: Option<i64>,
    end_at_ms: Option<i64>,
    overlap: String,
    catch_up: String,
    catch_up_window_ms: u64,
    jitter_ms: u64,
    paused: bool,
    task_text: String,
    expire_after_ms: Option<u64>,
    delay_ms: Option<u64>,
    run_at_ms: Option<i64>,
    /// The record of a task that was never made.
    task: String,
    /// Earlier versions did not write it.
    has_attempts: Option<bool>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// All of a schedule but its progress.
pub fn write_definition(schedule: &Schedule) -> String {
    let definition = &*schedule.definition;
    let plan = &definition.plan;
    let (cron, every_seconds, anchor) = match &plan.rhythm {
        Rhythm::Cron(cron) => (Some(cron.text().to_owned()), None, Time::ZERO),
        Rhythm::Every { seconds, anchor } => (None, Some(*seconds), *anchor),
    };
    let (delay_ms, run_at_ms) = match definition.task.delay {
        Delay::None => (None, None),
        Delay::For(delay) => (Some(millis(delay)), None),
        Delay::Until(at) => (None, Some(at.millis())),
    };
    let sample = new_task(definition.task.clone(), Time::ZERO, 0, None);
    let text = DefinitionText {
        created_at_ms: schedule.created_at.millis(),
        updated_at_ms: schedule.updated_at.millis(),
        cron,
        every_seconds,
        anchor_ms: anchor.millis(),
        timezone: plan.zone.name().to_owned(),
        start_at_ms: plan.start_at.map(Time::millis),
        end_at_ms: plan.end_at.map(Time::millis),
        overlap: definition.overlap.word().into(),
        catch_up: definition.catch_up.word().into(),
        catch_up_window_ms: millis(definition.catch_up_window),
        jitter_ms: millis(definition.jitter),
        paused: definition.is_paused,
        task_text: definition.task_text.to_string(),
        expire_after_ms: definition.expire_after.map(millis),
        delay_ms,
        run_at_ms,
        task: record::text_of(&sample, RecordExtras::default()),
        has_attempts: Some(definition.has_attempts),
    };
    serde_json::to_string(&text).expect("texts and numbers can be written")
}

fn one_of<T: Copy>(all: &[T], word: fn(T) -> &'static str, text: &str) -> Option<T> {
    all.iter().copied().find(|one| word(*one) == text)
}

fn read_task(text: &DefinitionText) -> Option<NewTask> {
    let sample = record::parse(text.task.as_bytes())?;
    let delay = match (text.delay_ms, text.run_at_ms) {
        (Some(delay), _) => Delay::For(Duration::from_millis(delay)),
        (None, Some(at)) => Delay::Until(Time::from_millis(at)),
        (None, None) => Delay::None,
    };
    Some(NewTask { body: sample.body, priority: sample.priority, max_attempts: sample.max_attempts, delay })
}

/// Without its progress.
pub fn read_definition((tenant, name): &FullName, text: &str) -> Option<Schedule> {
    let text: DefinitionText = serde_json::from_str(text).ok()?;
    let rhythm = match (&text.cron, text.every_seconds) {
        (Some(cron), _) => Rhythm::Cron(Cron::parse(cron).ok()?),
        (None, Some(seconds @ 1..)) => Rhythm::Every { seconds, anchor: Time::from_millis(text.anchor_ms) },
        _ => return None,
    };
    let plan = Plan {
        rhythm,
        zone: Zone::parse(&text.timezone)?,
        start_at: text.start_at_ms.map(Time::from_millis),
        end_at: text.end_at_ms.map(Time::from_millis),
    };
    let definition = Definition {
        plan,
        task: read_task(&text)?,
        has_attempts: text.has_attempts.unwrap_or_else(|| Definition::names_attempts(&text.task_text)),
        expire_after: text.expire_after_ms.map(Duration::from_millis),
        overlap: one_of(&Overlap::ALL, Overlap::word, &text.overlap)?,
        catch_up: one_of(&CatchUp::ALL, CatchUp::word, &text.catch_up)?,
        catch_up_window: Duration::from_millis(text.catch_up_window_ms),
        jitter: Duration::from_millis(text.jitter_ms),
        is_paused: text.paused,
        task_text: text.task_text.into(),
    };
    Some(Schedule {
        tenant: tenant.clone(),
        name: name.clone(),
        definition: Arc::new(definition),
        created_at: Time::from_millis(text.created_at_ms),
        updated_at: Time::from_millis(text.updated_at_ms),
        progress: Progress::default(),
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressText {
    /// Another one with every change of the definition: what was decided by the old one does not count.
    edition: u64,
    paused: bool,
    note: Option<String>,
    next_at_ms: Option<i64>,
    last_at_ms: Option<i64>,
    last_task: Option<String>,
    missed: u64,
    skipped: u64,
    /// Operation, what was reached and how many were made.
    backfills: Vec<(String, i64, u64)>,
}

/// For a definition that is new.
pub fn new_edition() -> u64 {
    rand::random::<u64>() >> 16
}

pub fn write_progress(progress: &Progress, edition: u64) -> String {
    let mark = |mark: &BackfillMark| (format!("{:032x}", mark.operation), mark.reached.millis(), mark.made);
    let text = ProgressText {
        edition,
        paused: progress.is_paused,
        note: progress.note.as_deref().map(Into::into),
        next_at_ms: progress.next_at.map(Time::millis),
        last_at_ms: progress.last_at.map(Time::millis),
        last_task: progress.last_task.map(|id| id.to_string()),
        missed: progress.missed,
        skipped: progress.skipped,
        backfills: progress.backfills.iter().map(mark).collect(),
    };
    serde_json::to_string(&text).expect("texts and numbers can be written")
}

pub fn read_progress(text: &str) -> Option<(Progress, u64)> {
    let text: ProgressText = serde_json::from_str(text).ok()?;
    let mark = |(operation, reached, made): (String, i64, u64)| {
        let operation = u128::from_str_radix(&operation, 16).ok()?;
        Some(BackfillMark { operation, reached: Time::from_millis(reached), made })
    };
    let progress = Progress {
        is_paused: text.paused,
        note: text.note.map(Into::into),
        next_at: text.next_at_ms.map(Time::from_millis),
        last_at: text.last_at_ms.map(Time::from_millis),
        last_task: text.last_task.and_then(|id| TaskId::parse(&id)),
        missed: text.missed,
        skipped: text.skipped,
        backfills: text.backfills.into_iter().map(mark).collect::<Option<_>>()?,
    };
    Some((progress, text.edition))
}

/// A schedule with the texts that it was read from: whoever changes it says what it was.
#[derive(Clone, Debug)]
pub struct HeldSchedule {
    pub schedule: Schedule,
    pub definition: String,
    pub progress: String,
    pub edition: u64,
}

impl HeldSchedule {
    pub fn parse(name: &FullName, definition: String, progress: String) -> Option<HeldSchedule> {
        let schedule = read_definition(name, &definition)?;
        let (known, edition) = read_progress(&progress)?;
        Some(HeldSchedule {
            schedule: Schedule { progress: known, ..schedule },
            definition,
            progress,
            edition,
        })
    }

    pub fn name(&self) -> FullName {
        (self.schedule.tenant.clone(), self.schedule.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::create::CreateRequest;
    use codeq_queue::schedule::ScheduleRequest;

    #[test]
    fn schedules_are_read_as_they_were_written() {
        let name: FullName = ("ac\nme".into(), "nightly".into());
        let task = || CreateRequest {
            tenant: name.0.clone(),
            command: "Report".into(),
            payload: "{\"a\":1}".into(),
            priority: 3,
            delay_seconds: 5,
            headers: vec![("region".into(), "eu".into())],
            ..CreateRequest::default()
        };
        let cron = ScheduleRequest {
            cron: Some("*/5 2 L * MON#1".into()),
            timezone: Some("Europe/Berlin".into()),
            start_at: Some(Time::from_millis(5)),
            overlap: Some("cancel".into()),
            jitter_seconds: Some(9),
            task: task(),
            task_text: "{ }".into(),
            ..ScheduleRequest::default()
        };
        let every = ScheduleRequest {
            every_seconds: Some(90),
            anchor: Some(Time::from_millis(-7)),
            catch_up: Some("all".into()),
            end_at: Some(Time::from_millis(1 << 50)),
            paused: true,
            task: task(),
            ..ScheduleRequest::default()
        };
        for request in [cron, every] {
            let definition = request.check("nightly", 5, 1000, Time::ZERO).unwrap();
            let (mut schedule, _) =
                Schedule::put(None, &name.0, &name.1, definition, Time::from_millis(1)).unwrap();
            schedule.progress.note = Some("why".into());
            schedule.progress.last_task = Some(TaskId::from_bits(77));
            schedule.progress.mark(BackfillMark { operation: 12, reached: Time::from_millis(3), made: 2 });
            let progress = write_progress(&schedule.progress, 7);
            let held = HeldSchedule::parse(&name, write_definition(&schedule), progress).unwrap();
            assert_eq!((&held.schedule, held.edition), (&schedule, 7));
            assert_eq!(held.schedule.definition.task_text, schedule.definition.task_text);
        }
        assert_eq!(read_field(&field(&name)), Some(name));
        let place = SchedulePlace { shard: "p3".into(), command: "a:b".into() };
        assert_eq!(SchedulePlace::parse(&place.text()), Some(place));
    }
}
