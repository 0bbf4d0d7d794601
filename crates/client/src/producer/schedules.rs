//! Schedules, over HTTP.

use super::Producer;
use crate::Error;
use crate::http::{Http, json, parse};
use crate::schedule::{NewSchedule, Operation, Schedule};
use crate::task::Task;
use crate::time::rfc3339;
use codeq_api::schedule::{BackfillBody, NextTicks, PauseBody, SchedulePage};
use std::time::{Duration, SystemTime};

impl Producer {
    fn schedules_http(&self) -> Result<&Http, Error> {
        self.shared.http.as_ref().map_err(Clone::clone)
    }

    async fn post_schedule(&self, name: &str, verb: &str, body: String) -> Result<String, Error> {
        let path = format!("{}/{verb}", path(name)?);
        Ok(self.schedules_http()?.post(&path, body, Duration::ZERO).await?.text)
    }

    /// Creates or replaces a schedule. Putting an equal one changes nothing.
    pub async fn put_schedule(&self, name: &str, schedule: &NewSchedule) -> Result<Schedule, Error> {
        let answer = self.schedules_http()?.put(&path(name)?, schedule.body()?).await?;
        parse(&answer.text)
    }

    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        parse(&self.schedules_http()?.get(&path(name)?, Duration::ZERO).await?.text)
    }

    /// All schedules of the tenant, in the order of their names.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let http = self.schedules_http()?;
        let mut all = Vec::new();
        let mut path = "/schedules?limit=500".to_owned();
        loop {
            let page: SchedulePage<'static> = parse(&http.get(&path, Duration::ZERO).await?.text)?;
            all.extend(page.items);
            let Some(next) = page.next else { return Ok(all) };
            path = format!("/schedules?limit=500&cursor={next}");
        }
    }

    /// Its tasks stay.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.schedules_http()?.delete(&path(name)?).await.map(|_| ())
    }

    pub async fn pause_schedule(&self, name: &str, note: Option<&str>) -> Result<Schedule, Error> {
        let body = json(&PauseBody { note: note.map(Into::into) })?;
        parse(&self.post_schedule(name, "pause", body).await?)
    }

    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        parse(&self.post_schedule(name, "resume", "{}".into()).await?)
    }

    /// Makes the task now, besides the plan. Not repeated: without an answer nobody knows whether it was made.
    pub async fn trigger_schedule(&self, name: &str) -> Result<Task, Error> {
        parse(&self.post_schedule(name, "trigger", "{}".into()).await?)
    }

    /// The next ticks of the plan, RFC 3339.
    pub async fn next_ticks(&self, name: &str, count: usize) -> Result<Vec<String>, Error> {
        let path = format!("{}/next?count={count}", path(name)?);
        let ticks: NextTicks = parse(&self.schedules_http()?.get(&path, Duration::ZERO).await?.text)?;
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
        parse(&self.post_schedule(name, "backfill", body).await?)
    }
}

/// Names hold nothing that could end a path segment.
fn path(name: &str) -> Result<String, Error> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b':');
    // A client would take a dot, or two, for a place in the path.
    let is_name = !name.is_empty() && name.bytes().all(is_plain) && name != "." && name != "..";
    match is_name {
        true => Ok(format!("/schedules/{name}")),
        false => Err(Error::Refused {
            status: 404,
            code: "schedule_not_found".into(),
            message: "not the name of a schedule".into(),
        }),
    }
}
