//! Asking for a schedule: what a producer may say, checked once.

use super::cron::Cron;
use super::{
    CatchUp, Definition, Overlap, Plan, Rhythm, SCHEDULE_HEADER, SCHEDULED_FOR_HEADER, Zone, invalid,
};
use crate::create::{CreateRequest, Delay, check_headers};
use crate::limits;
use crate::refusal::Refusal;
use crate::time::Time;
use std::time::Duration;

/// Fields of a create that a schedule's task cannot have: each names one task, or one moment.
pub const REFUSED_FIELDS: [(&str, &str); 5] = [
    ("runAt", "task.runAt"),
    ("idempotencyKey", "task.idempotencyKey"),
    ("unique", "task.unique"),
    ("after", "task.after"),
    ("batchId", "task.batchId"),
];

/// Longest interval, catch-up window: 366 days.
const SECONDS: i64 = 31_622_400;
/// Longest jitter: a day.
const JITTER_SECONDS: i64 = 86_400;
const CATCH_UP_WINDOW_SECONDS: i64 = 86_400;

/// What the producer sent, apart from the shape, which is the protocol's business.
#[derive(Clone, Debug, Default)]
pub struct ScheduleRequest {
    /// Either this or `every_seconds`; blank is none.
    pub cron: Option<String>,
    /// 1 to 31,622,400.
    pub every_seconds: Option<i64>,
    /// Only with `every_seconds`; `None` is the epoch.
    pub anchor: Option<Time>,
    /// An IANA name; blank or `None` is UTC.
    pub timezone: Option<String>,
    /// What every tick creates.
    pub task: CreateRequest,
    /// Exact JSON text.
    pub task_text: String,
    /// `skip`, `allow`, `cancel` or nothing, which means `skip`.
    pub overlap: Option<String>,
    /// `none`, `one`, `all` or nothing, which means `one`.
    pub catch_up: Option<String>,
    /// 1 to 31,622,400; `None` is a day.
    pub catch_up_window_seconds: Option<i64>,
    /// 0 to 86,400; `None` is 0.
    pub jitter_seconds: Option<i64>,
    /// No tick before this; `None` is no such bound.
    pub start_at: Option<Time>,
    /// No tick at or after this, and later than `start_at`; `None` is no such bound.
    pub end_at: Option<Time>,
    /// The schedule does not tick until it is resumed.
    pub paused: bool,
}

impl ScheduleRequest {
    /// Checks every rule and fills the defaults in. Whether the plan ever fires is seen when it is put.
    pub fn check(
        mut self,
        name: &str,
        max_attempts_default: u32,
        payload_bytes: usize,
        now: Time,
    ) -> Result<Definition, Refusal> {
        let plan = self.plan()?;
        let overlap = word("overlap", self.overlap.as_deref(), &Overlap::ALL, Overlap::word)?;
        let catch_up = word("catchUp", self.catch_up.as_deref(), &CatchUp::ALL, CatchUp::word)?;
        let window = self.catch_up_window_seconds.unwrap_or(CATCH_UP_WINDOW_SECONDS);
        let catch_up_window = seconds("catchUpWindowSeconds", window, 1, SECONDS)?;
        let jitter = seconds("jitterSeconds", self.jitter_seconds.unwrap_or(0), 0, JITTER_SECONDS)?;
        let is_own = |name: &str| {
            [SCHEDULE_HEADER, SCHEDULED_FOR_HEADER].iter().any(|own| own.eq_ignore_ascii_case(name))
        };
        if self.task.headers.iter().any(|(name, _)| is_own(name)) {
            let message = format!("{SCHEDULE_HEADER} and {SCHEDULED_FOR_HEADER} are set by the schedule");
            return Err(invalid("task.headers", message));
        }
        let mut headers = self.task.headers.clone();
        headers.push((SCHEDULE_HEADER.into(), name.into()));
        headers.push((SCHEDULED_FOR_HEADER.into(), now.to_utc()));
        // Each task has its own time to expire; an instant for all of them stays what it is.
        let checked = self.task.options.clone().check(now)?;
        let expire_after = match self.task.options.expire_seconds.take() {
            Some(_) => checked.and_then(|options| options.expires_at).map(|at| at.since(now)),
            None => None,
        };
        let has_attempts = self.task.max_attempts > 0;
        let task = self.task.check(max_attempts_default, payload_bytes, now)?;
        check_headers(&headers)?;
        if let Delay::For(delay) = task.delay
            && delay + jitter > limits::DELAY
        {
            return Err(Refusal::DelayTooLong);
        }
        let task_text = self.task_text.into();
        let is_paused = self.paused;
        Ok(Definition {
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
        })
    }

    fn plan(&self) -> Result<Plan, Refusal> {
        let cron = self.cron.as_deref().filter(|text| !text.trim().is_empty());
        let rhythm = match (cron, self.every_seconds) {
            (Some(_), Some(_)) => {
                return Err(invalid("everySeconds", "cron and everySeconds exclude each other"));
            }
            (None, None) => return Err(invalid("cron", "cron or everySeconds is required")),
            (Some(_), None) if self.anchor.is_some() => {
                return Err(invalid("anchor", "an anchor belongs to everySeconds"));
            }
            (Some(text), None) => Rhythm::Cron(Cron::parse(text).map_err(|text| invalid("cron", text))?),
            (None, Some(every)) => Rhythm::Every {
                seconds: seconds("everySeconds", every, 1, SECONDS)?.as_secs(),
                anchor: self.anchor.unwrap_or(Time::ZERO),
            },
        };
        let zone = self.timezone.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or("UTC");
        let zone = Zone::parse(zone)
            .ok_or_else(|| invalid("timezone", format!("{} is no IANA time zone", limits::cut(zone, 64))))?;
        if let (Some(start), Some(end)) = (self.start_at, self.end_at)
            && start >= end
        {
            return Err(invalid("endAt", "must be after startAt"));
        }
        Ok(Plan { rhythm, zone, start_at: self.start_at, end_at: self.end_at })
    }
}

fn seconds(field: &'static str, value: i64, least: i64, most: i64) -> Result<Duration, Refusal> {
    match u64::try_from(value) {
        Ok(seconds) if (least..=most).contains(&value) => Ok(Duration::from_secs(seconds)),
        _ => Err(invalid(field, format!("must be between {least} and {most}"))),
    }
}

fn word<T: Copy + Default>(
    field: &'static str,
    given: Option<&str>,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<T, Refusal> {
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(T::default()) };
    all.iter().copied().find(|one| word(*one) == given).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| word(*one)).collect();
        invalid(field, format!("must be one of {}", words.join(", ")))
    })
}
