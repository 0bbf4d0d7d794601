//! Schedules, over HTTP.

use super::Producer;
use crate::Error;
use crate::http::{json, parse};
use crate::schedule::{NewSchedule, Operation, Schedule};
use crate::task::Task;
use crate::time::rfc3339;
use codeq_api::schedule::{BackfillBody, NextTicks, PauseBody, SchedulePage};
use reqwest::Method;
use std::time::{Duration, SystemTime};

impl Producer {
    /// Once: what it asks for may have been done although there is no answer.
    async fn post_once(&self, name: &str, verb: &str, body: String) -> Result<String, Error> {
        let path = format!("{}/{verb}", path(name)?);
        let http = self.shared.http.as_ref().map_err(Clone::clone)?;
        Ok(http.post(&path, body, Duration::ZERO).await?.text)
    }

    async fn post_schedule(&self, name: &str, verb: &str, body: String) -> Result<String, Error> {
        self.call(Method::POST, &format!("{}/{verb}", path(name)?), Some(body)).await
    }

    /// Creates or replaces a schedule. Putting an equal one changes nothing.
    pub async fn put_schedule(&self, name: &str, schedule: &NewSchedule) -> Result<Schedule, Error> {
        parse(&self.call(Method::PUT, &path(name)?, Some(schedule.body()?)).await?)
    }

    /// The schedule as it is now; refused with `schedule_not_found` if there is none of this name.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        parse(&self.call(Method::GET, &path(name)?, None).await?)
    }

    /// All schedules of the tenant, in the order of their names.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let mut all = Vec::new();
        let mut path = "/schedules?limit=500".to_owned();
        loop {
            let page: SchedulePage<'static> = parse(&self.call(Method::GET, &path, None).await?)?;
            all.extend(page.items);
            let Some(next) = page.next else { return Ok(all) };
            path = format!("/schedules?limit=500&cursor={next}");
        }
    }

    /// Its tasks stay.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.call(Method::DELETE, &path(name)?, None).await.map(|_| ())
    }

    /// Stops its ticks until it is resumed. The note, at most 512 bytes, tells others why.
    pub async fn pause_schedule(&self, name: &str, note: Option<&str>) -> Result<Schedule, Error> {
        let body = json(&PauseBody { note: note.map(Into::into) })?;
        parse(&self.post_schedule(name, "pause", body).await?)
    }

    /// Lets it tick again, from the next instant of its plan on.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        parse(&self.post_schedule(name, "resume", "{}".into()).await?)
    }

    /// Makes the task now, besides the plan. Not repeated: without an answer nobody knows whether it was made.
    pub async fn trigger_schedule(&self, name: &str) -> Result<Task, Error> {
        parse(&self.post_once(name, "trigger", "{}".into()).await?)
    }

    /// The next ticks of the plan, RFC 3339.
    pub async fn next_ticks(&self, name: &str, count: usize) -> Result<Vec<String>, Error> {
        let path = format!("{}/next?count={count}", path(name)?);
        let ticks: NextTicks = parse(&self.call(Method::GET, &path, None).await?)?;
        Ok(ticks.items)
    }

    /// Makes the tasks of the ticks from `from` up to but without `to`, in the background.
    pub async fn backfill_schedule(
        &self,
        name: &str,
        from: SystemTime,
        to: SystemTime,
    ) -> Result<Operation, Error> {
        let body = json(&BackfillBody { from: Some(rfc3339(from)), to: Some(rfc3339(to)) })?;
        parse(&self.post_once(name, "backfill", body).await?)
    }
}

/// Names hold nothing that could end a path segment.
fn path(name: &str) -> Result<String, Error> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b':');
    // A client would take a dot, or two, for a place in the path.
    let is_name = !name.is_empty() && name.bytes().all(is_plain) && name != "." && name != "..";
    match is_name {
        true => Ok(format!("/schedules/{name}")),
        false => Err(Error::refused(404, "schedule_not_found", "not the name of a schedule")),
    }
}
