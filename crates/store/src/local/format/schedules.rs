//! Rows of schedules: what they are, what has come of them, and on which queue's shard they live.
//!
//! What a schedule is may be large and seldom changes; what has come of it is small and changes with every tick.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::parts;
use crate::local::format::records::{SCHEDULE, SCHEDULE_PLACE, SCHEDULE_PROGRESS};
use codeq_queue::schedule::cron::Cron;
use codeq_queue::schedule::{
    BackfillMark, CatchUp, Definition, Overlap, Plan, Progress, Rhythm, Schedule, Zone,
};
use codeq_queue::{Delay, NewTask, TaskId, Time};
use std::sync::Arc;
use std::time::Duration;

/// Tenant and name.
pub type ScheduleName = (Arc<str>, Arc<str>);

fn key(kind: u8, (tenant, name): &ScheduleName) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(tenant.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

pub fn definition_key(name: &ScheduleName) -> Vec<u8> {
    key(SCHEDULE, name)
}

pub fn progress_key(name: &ScheduleName) -> Vec<u8> {
    key(SCHEDULE_PROGRESS, name)
}

pub fn place_key(name: &ScheduleName) -> Vec<u8> {
    key(SCHEDULE_PLACE, name)
}

pub fn read_key(key: &[u8]) -> Option<ScheduleName> {
    let (tenant, name) = std::str::from_utf8(key.get(1..)?).ok()?.split_once('\0')?;
    Some((tenant.into(), name.into()))
}

fn write_duration(w: &mut Writer, duration: Duration) {
    w.number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
}

fn read_duration(r: &mut Reader) -> Result<Duration, Corrupt> {
    Ok(Duration::from_millis(r.number()?))
}

fn write_time(w: &mut Writer, time: Option<Time>) {
    w.option(time.as_ref(), |w, time| w.time(*time));
}

fn write_plan(w: &mut Writer, plan: &Plan) {
    match &plan.rhythm {
        Rhythm::Cron(cron) => {
            w.byte(1);
            w.text(cron.text());
        }
        Rhythm::Every { seconds, anchor } => {
            w.byte(2);
            w.number(*seconds);
            w.time(*anchor);
        }
    }
    w.text(plan.zone.name());
    write_time(w, plan.start_at);
    write_time(w, plan.end_at);
}

fn read_plan(r: &mut Reader) -> Result<Plan, Corrupt> {
    let rhythm = match r.byte()? {
        1 => Rhythm::Cron(Cron::parse(r.text()?).map_err(|_| Corrupt("a cron expression"))?),
        2 => {
            let (seconds, anchor) = (r.number()?, r.time()?);
            let seconds = (seconds > 0).then_some(seconds).ok_or(Corrupt("an empty interval"))?;
            Rhythm::Every { seconds, anchor }
        }
        _ => return Err(Corrupt("unknown rhythm")),
    };
    let zone = Zone::parse(r.text()?).ok_or(Corrupt("unknown time zone"))?;
    Ok(Plan { rhythm, zone, start_at: r.option(Reader::time)?, end_at: r.option(Reader::time)? })
}

fn write_task(w: &mut Writer, task: &NewTask) {
    w.byte(task.priority);
    w.number(u64::from(task.max_attempts));
    match task.delay {
        Delay::None => w.byte(0),
        Delay::For(delay) => {
            w.byte(1);
            write_duration(w, delay);
        }
        Delay::Until(at) => {
            w.byte(2);
            w.time(at);
        }
    }
    parts::write_body(w, &task.body);
}

fn read_task(r: &mut Reader) -> Result<NewTask, Corrupt> {
    let (priority, max_attempts) = (parts::read_priority(r)?, r.small()?);
    let delay = match r.byte()? {
        0 => Delay::None,
        1 => Delay::For(read_duration(r)?),
        2 => Delay::Until(r.time()?),
        _ => return Err(Corrupt("unknown delay")),
    };
    Ok(NewTask { body: Arc::new(parts::read_body(r)?), priority, max_attempts, delay })
}

fn read_word<T: Copy>(r: &mut Reader, all: &[T], word: fn(T) -> &'static str) -> Result<T, Corrupt> {
    let text = r.text()?;
    all.iter().copied().find(|one| word(*one) == text).ok_or(Corrupt("unknown word"))
}

/// All of a schedule but its progress.
pub fn write_definition(schedule: &Schedule) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (w, definition) = (&mut Writer(&mut bytes), &schedule.definition);
    w.time(schedule.created_at);
    w.time(schedule.updated_at);
    write_plan(w, &definition.plan);
    w.text(definition.overlap.word());
    w.text(definition.catch_up.word());
    write_duration(w, definition.catch_up_window);
    write_duration(w, definition.jitter);
    w.byte(u8::from(definition.is_paused));
    w.text(&definition.task_text);
    w.option(definition.expire_after.as_ref(), |w, after| write_duration(w, *after));
    write_task(w, &definition.task);
    w.byte(u8::from(definition.has_attempts));
    bytes
}

pub fn read_definition(name: &ScheduleName, bytes: &[u8]) -> Result<Schedule, Corrupt> {
    let r = &mut Reader(bytes);
    let (created_at, updated_at) = (r.time()?, r.time()?);
    let plan = read_plan(r)?;
    let overlap = read_word(r, &Overlap::ALL, Overlap::word)?;
    let catch_up = read_word(r, &CatchUp::ALL, CatchUp::word)?;
    let (catch_up_window, jitter) = (read_duration(r)?, read_duration(r)?);
    let is_paused = r.byte()? != 0;
    let task_text: Box<str> = r.text()?.into();
    let expire_after = r.option(read_duration)?;
    let task = read_task(r)?;
    let has_attempts = match r.0.is_empty() {
        true => Definition::names_attempts(&task_text),
        false => r.byte()? != 0,
    };
    let definition = Definition {
        plan,
        task,
        has_attempts,
        task_text,
        expire_after,
        overlap,
        catch_up,
        catch_up_window,
        jitter,
        is_paused,
    };
    Ok(Schedule {
        tenant: name.0.clone(),
        name: name.1.clone(),
        definition: Arc::new(definition),
        created_at,
        updated_at,
        progress: Progress::default(),
    })
}

pub fn write_progress(progress: &Progress) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    let w = &mut Writer(&mut bytes);
    w.byte(u8::from(progress.is_paused));
    w.optional_text(progress.note.as_deref());
    write_time(w, progress.next_at);
    write_time(w, progress.last_at);
    w.option(progress.last_task.as_ref(), |w, id| w.wide(u128::from_be_bytes(*id.as_bytes())));
    w.number(progress.missed);
    w.number(progress.skipped);
    w.number(progress.backfills.len() as u64);
    for mark in &progress.backfills {
        w.wide(mark.operation);
        w.time(mark.reached);
        w.number(mark.made);
    }
    bytes
}

pub fn read_progress(bytes: &[u8]) -> Result<Progress, Corrupt> {
    let r = &mut Reader(bytes);
    let mut progress = Progress {
        is_paused: r.byte()? != 0,
        note: r.optional_boxed()?,
        next_at: r.option(Reader::time)?,
        last_at: r.option(Reader::time)?,
        last_task: r.option(|r| Ok(TaskId::from_bytes(r.wide()?.to_be_bytes())))?,
        missed: r.number()?,
        skipped: r.number()?,
        backfills: Vec::new(),
    };
    for _ in 0..r.small()? {
        let mark = BackfillMark { operation: r.wide()?, reached: r.time()?, made: r.number()? };
        progress.backfills.push(mark);
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::create::CreateRequest;
    use codeq_queue::schedule::ScheduleRequest;

    #[test]
    fn rows_come_back_as_they_were() {
        let name: ScheduleName = ("acme".into(), "nightly".into());
        let task = || CreateRequest {
            tenant: "acme".into(),
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
            task_text: "{}".into(),
            ..ScheduleRequest::default()
        };
        let every = ScheduleRequest {
            every_seconds: Some(90),
            anchor: Some(Time::from_millis(-7)),
            catch_up: Some("all".into()),
            end_at: Some(Time::from_millis(1 << 50)),
            paused: true,
            task: CreateRequest { max_attempts: 7, ..task() },
            task_text: "{\"maxAttempts\":7}".into(),
            ..ScheduleRequest::default()
        };
        for request in [cron, every] {
            let definition = request.check("nightly", 5, 1000, Time::ZERO).unwrap();
            let (schedule, _) =
                Schedule::put(None, &name.0, &name.1, definition, Time::from_millis(1)).unwrap();
            let read = read_definition(&name, &write_definition(&schedule)).unwrap();
            assert_eq!(read, Schedule { progress: Progress::default(), ..schedule.clone() });
            assert_eq!(read.definition.task_text, schedule.definition.task_text);
            // Rows of earlier versions end before the last byte.
            let row = write_definition(&schedule);
            let earlier = read_definition(&name, &row[..row.len() - 1]).unwrap();
            assert_eq!(earlier.definition.has_attempts, &*earlier.definition.task_text != "{}");
        }
        let mut progress = Progress {
            is_paused: true,
            note: Some("why".into()),
            next_at: Some(Time::from_millis(9)),
            last_at: None,
            last_task: Some(TaskId::from_bits(77)),
            missed: 3,
            skipped: 4,
            backfills: Vec::new(),
        };
        progress.mark(BackfillMark { operation: 12, reached: Time::from_millis(3), made: 2 });
        assert_eq!(read_progress(&write_progress(&progress)), Ok(progress));
        assert_eq!(read_key(&definition_key(&name)), Some(name));
    }
}
