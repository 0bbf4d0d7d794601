//! What a producer may ask of a task besides the payload: lane, tags, uniqueness, expiry, longest run.
//!
//! Few tasks have any of it, so it is one pointer in the body and costs the others nothing.

use crate::dependency::{OnFailure, check_after};
use crate::id::TaskId;
use crate::limits;
use crate::refusal::Refusal;
use crate::time::Time;
use std::time::Duration;

/// What was asked for, checked. Never stored empty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskOptions {
    /// At most 128 bytes; `None` is the lane without a name.
    pub lane: Option<Box<str>>,
    /// At most 8, each once.
    pub tags: Box<[Box<str>]>,
    /// `None` asks for no uniqueness.
    pub unique: Option<UniqueRule>,
    /// A task that nobody has claimed by then fails.
    pub expires_at: Option<Time>,
    /// A lease never lasts longer than this after the claim.
    pub max_run: Option<Duration>,
    /// The store's numbers of when it accepted the task, where that is not its create: an ordered lane goes by them.
    pub accepted: Option<(u64, u64)>,
    /// Tasks and batches that have to end before.
    pub after: Box<[TaskId]>,
    /// What becomes of it when one of them does not succeed.
    pub on_failure: OnFailure,
    /// The batch that it belongs to.
    pub batch: Option<TaskId>,
}

impl TaskOptions {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        *self == TaskOptions::default()
    }

    /// In a body; nothing asked for is nothing kept.
    pub fn boxed(self) -> Option<Box<TaskOptions>> {
        (!self.is_empty()).then(|| Box::new(self))
    }

    /// Roughly what they occupy in memory.
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| 16 + tag.len()).sum();
        let key = self.unique.as_ref().map_or(0, |unique| unique.key.len());
        let after = size_of::<TaskId>() * self.after.len();
        size_of::<TaskOptions>() + after + tags + key + self.lane.as_ref().map_or(0, |lane| lane.len())
    }
}

/// One task per key, as long as the rule says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UniqueRule {
    /// 1 to 255 bytes; means something within the tenant and the command.
    pub key: Box<str>,
    /// When the key is free again.
    pub until: UniqueUntil,
    /// What a create does that finds the key taken.
    pub on_conflict: OnConflict,
    /// How long replacements may put the holder off, counted from its create.
    pub max_wait: Option<Duration>,
}

impl UniqueRule {
    /// Whether a task takes its key again when an operator requeues it: not a key that was free from the first claim on, nor
    /// one whose time is over.
    pub fn is_taken_again(&self, created_at: Time, attempts: u32, now: Time) -> bool {
        match self.until {
            UniqueUntil::Started => attempts == 0,
            UniqueUntil::Ended => true,
            UniqueUntil::For(life) => created_at.plus(life) > now,
        }
    }
}

/// When the key is free again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum UniqueUntil {
    /// At the first claim.
    Started,
    /// When the task ends.
    #[default]
    Ended,
    /// Counted from the create, whatever becomes of the task.
    For(Duration),
}

/// What a create does that finds the key taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnConflict {
    /// It makes no task and answers with the holder.
    #[default]
    Keep,
    /// It gives the holder its payload, headers and time, if nobody has claimed the holder yet.
    Replace,
    /// It ends the holder as cancelled and makes its task.
    Cancel,
}

impl OnConflict {
    /// All of them.
    pub const ALL: [OnConflict; 3] = [OnConflict::Keep, OnConflict::Replace, OnConflict::Cancel];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            OnConflict::Keep => "keep",
            OnConflict::Replace => "replace",
            OnConflict::Cancel => "cancel",
        }
    }

    /// What a word of the wire names.
    pub fn parse(word: &str) -> Option<OnConflict> {
        OnConflict::ALL.into_iter().find(|known| known.word() == word)
    }
}

/// What the producer sent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OptionsRequest {
    /// At most 128 bytes, no control characters; blank is none.
    pub lane: Option<String>,
    /// At most 8, each 1 to 64 of `[A-Za-z0-9_.:-]`.
    pub tags: Vec<String>,
    /// Refused together with `after` or `batch_id`.
    pub unique: Option<UniqueRequest>,
    /// At most 366 days ahead; one that has passed is taken.
    pub expires_at: Option<Time>,
    /// 1 to 31,622,400, counted from the create; refused together with `expires_at`.
    pub expire_seconds: Option<i64>,
    /// 1 to 604,800.
    pub max_run_seconds: Option<i64>,
    /// At most 100 ids of tasks and batches.
    pub after: Vec<String>,
    /// `cancel`, `run` or nothing.
    pub on_dependency_failure: Option<String>,
    /// The batch to join; empty is none.
    pub batch_id: Option<String>,
}

/// A unique rule as a producer wrote it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UniqueRequest {
    /// 1 to 255 bytes.
    pub key: String,
    /// `started`, `ended` or nothing.
    pub until: Option<String>,
    /// Instead of `until`.
    pub until_seconds: Option<i64>,
    /// `keep`, `replace`, `cancel` or nothing, which means `keep`.
    pub on_conflict: Option<String>,
    /// 1 to 31,622,400, counted from the holder's create.
    pub max_wait_seconds: Option<i64>,
}

impl OptionsRequest {
    /// Checks every rule; `now` is the instant of the create.
    pub fn check(self, now: Time) -> Result<Option<Box<TaskOptions>>, Refusal> {
        let (on_failure, batch) = (self.check_on_failure()?, self.check_batch()?);
        let after = check_after(&self.after)?;
        if batch.is_some_and(|batch| after.contains(&batch)) {
            return Err(Refusal::InvalidAfter("a task cannot wait for the batch that it joins"));
        }
        if self.unique.is_some() && (batch.is_some() || !after.is_empty()) {
            return Err(Refusal::InvalidUnique("not together with 'after' or 'batchId'"));
        }
        let options = TaskOptions {
            lane: check_lane(self.lane.as_deref())?,
            tags: check_tags(&self.tags)?,
            unique: self.unique.map(UniqueRequest::check).transpose()?,
            expires_at: check_expiry(self.expires_at, self.expire_seconds, now)?,
            max_run: check_max_run(self.max_run_seconds)?,
            accepted: None,
            on_failure: if after.is_empty() { OnFailure::default() } else { on_failure },
            after,
            batch,
        };
        Ok(options.boxed())
    }

    fn check_on_failure(&self) -> Result<OnFailure, Refusal> {
        match self.on_dependency_failure.as_deref().unwrap_or_default() {
            "" => Ok(OnFailure::default()),
            word => OnFailure::parse(word)
                .ok_or(Refusal::InvalidAfter("'onDependencyFailure' must be cancel or run")),
        }
    }

    /// A blank one is none; what is no id names no batch.
    fn check_batch(&self) -> Result<Option<TaskId>, Refusal> {
        let Some(text) = self.batch_id.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        TaskId::parse(text).map(Some).ok_or(Refusal::BatchNotFound)
    }
}

impl UniqueRequest {
    fn check(self) -> Result<UniqueRule, Refusal> {
        let until = match (self.until.as_deref().unwrap_or_default(), self.until_seconds) {
            ("", None) | ("ended", None) => UniqueUntil::Ended,
            ("started", None) => UniqueUntil::Started,
            ("", Some(seconds)) => UniqueUntil::For(unique_seconds(seconds)?),
            _ => return Err(Refusal::InvalidUnique("'until' must be started, ended or seconds")),
        };
        let on_conflict = match self.on_conflict.as_deref().unwrap_or_default() {
            "" => OnConflict::Keep,
            word => OnConflict::parse(word)
                .ok_or(Refusal::InvalidUnique("'onConflict' must be keep, replace or cancel"))?,
        };
        let max_wait = self.max_wait_seconds.map(unique_seconds).transpose()?;
        Ok(UniqueRule { key: check_unique_key(&self.key)?, until, on_conflict, max_wait })
    }
}

/// A unique key of legal length.
pub fn check_unique_key(key: &str) -> Result<Box<str>, Refusal> {
    match (1..=limits::UNIQUE_KEY_BYTES).contains(&key.len()) {
        true => Ok(key.into()),
        false => Err(Refusal::InvalidUnique("'key' must have 1 to 255 bytes")),
    }
}

fn unique_seconds(seconds: i64) -> Result<Duration, Refusal> {
    within(seconds, limits::DELAY).ok_or(Refusal::InvalidUnique("seconds must be between 1 and 31622400"))
}

fn within(seconds: i64, longest: Duration) -> Option<Duration> {
    let asked = Duration::from_secs(u64::try_from(seconds).ok()?);
    (Duration::from_secs(1)..=longest).contains(&asked).then_some(asked)
}

/// A blank lane is none.
pub fn check_lane(lane: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    let Some(lane) = lane.filter(|lane| !lane.trim().is_empty()) else { return Ok(None) };
    match lane.len() <= limits::LANE_BYTES && !lane.chars().any(char::is_control) {
        true => Ok(Some(lane.into())),
        false => Err(Refusal::InvalidLane),
    }
}

/// Each tag once, in the order given.
pub fn check_tags<T: AsRef<str>>(tags: &[T]) -> Result<Box<[Box<str>]>, Refusal> {
    let is_legal = |tag: &str| {
        (1..=limits::TAG_BYTES).contains(&tag.len())
            && tag.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b':' | b'-'))
    };
    if tags.len() > limits::TAGS || !tags.iter().all(|tag| is_legal(tag.as_ref())) {
        return Err(Refusal::InvalidTags);
    }
    let mut kept: Vec<Box<str>> = Vec::with_capacity(tags.len());
    for tag in tags.iter().map(AsRef::as_ref) {
        if !kept.iter().any(|known| **known == *tag) {
            kept.push(tag.into());
        }
    }
    Ok(kept.into())
}

fn check_expiry(at: Option<Time>, seconds: Option<i64>, now: Time) -> Result<Option<Time>, Refusal> {
    match (at, seconds) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Refusal::InvalidExpiry("give 'expiresAt' or 'expireSeconds', not both")),
        (None, Some(seconds)) => match within(seconds, limits::DELAY) {
            Some(life) => Ok(Some(now.plus(life))),
            None => Err(Refusal::InvalidExpiry("'expireSeconds' must be between 1 and 31622400")),
        },
        (Some(at), None) if at.since(now) > limits::DELAY => {
            Err(Refusal::InvalidExpiry("'expiresAt' may be at most 366 days ahead"))
        }
        // An instant that has passed is no mistake: a create that is repeated later means the task that was made. Zero and
        // below stand for no instant where tasks are kept as text.
        (Some(at), None) => Ok(Some(at.max(Time::from_millis(1)))),
    }
}

fn check_max_run(seconds: Option<i64>) -> Result<Option<Duration>, Refusal> {
    let checked = seconds.map(|seconds| within(seconds, limits::MAX_RUN).ok_or(Refusal::InvalidMaxRun));
    checked.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    fn check(request: OptionsRequest) -> Result<TaskOptions, Refusal> {
        Ok(request.check(NOW)?.map(|options| *options).unwrap_or_default())
    }

    fn none() -> OptionsRequest {
        OptionsRequest::default()
    }

    #[test]
    fn nothing_asked_for_is_nothing_kept() {
        assert_eq!(none().check(NOW), Ok(None));
        assert_eq!(OptionsRequest { lane: Some(" ".into()), ..none() }.check(NOW), Ok(None));
    }

    #[test]
    fn lanes_are_bounded_and_plain() {
        let lane = |text: &str| check(OptionsRequest { lane: Some(text.into()), ..none() });
        assert_eq!(lane("customer 7é").unwrap().lane.as_deref(), Some("customer 7é"));
        assert!(lane(&"l".repeat(128)).is_ok());
        for bad in [&"l".repeat(129), "a\nb", "\u{7f}"] {
            assert_eq!(lane(bad), Err(Refusal::InvalidLane), "{bad:?}");
        }
    }

    #[test]
    fn no_task_waits_for_the_batch_that_it_joins() {
        let id = "6f1f7c6e-1111-4222-8333-444455556666".to_owned();
        let other = "6f1f7c6e-1111-4222-8333-444455556667".to_owned();
        let asked = |after: &String| {
            check(OptionsRequest { batch_id: Some(id.clone()), after: vec![after.clone()], ..none() })
        };
        assert!(asked(&other).is_ok());
        assert!(matches!(asked(&id), Err(Refusal::InvalidAfter(_))));
    }

    #[test]
    fn tags_are_few_short_and_each_counts_once() {
        let tags = |tags: &[&str]| {
            check(OptionsRequest { tags: tags.iter().map(|&tag| tag.into()).collect(), ..none() })
        };
        let kept = tags(&["a", "b:1", "a"]).unwrap().tags;
        assert_eq!(kept.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["a", "b:1"]);
        for bad in [&["x"; 9][..], &[""], &["a b"], &[&*"t".repeat(65)]] {
            assert_eq!(tags(bad), Err(Refusal::InvalidTags), "{bad:?}");
        }
    }

    #[test]
    fn unique_rules_are_read_with_their_defaults() {
        let unique = |request: UniqueRequest| check(OptionsRequest { unique: Some(request), ..none() });
        let plain = UniqueRequest { key: "k".into(), ..Default::default() };
        let rule = unique(plain.clone()).unwrap().unique.unwrap();
        assert_eq!((rule.until, rule.on_conflict), (UniqueUntil::Ended, OnConflict::Keep));
        let word = |until: &str| UniqueRequest { until: Some(until.into()), ..plain.clone() };
        assert_eq!(unique(word("started")).unwrap().unique.unwrap().until, UniqueUntil::Started);
        let timed = UniqueRequest { until_seconds: Some(60), ..plain.clone() };
        let minute = UniqueUntil::For(Duration::from_secs(60));
        assert_eq!(unique(timed).unwrap().unique.unwrap().until, minute);
        for bad in [
            UniqueRequest::default(),
            UniqueRequest { key: "k".repeat(256), ..Default::default() },
            word("later"),
            UniqueRequest { until_seconds: Some(60), ..word("ended") },
            UniqueRequest { until_seconds: Some(0), ..plain.clone() },
            UniqueRequest { on_conflict: Some("merge".into()), ..plain.clone() },
            UniqueRequest { max_wait_seconds: Some(-1), ..plain.clone() },
        ] {
            assert!(matches!(unique(bad.clone()), Err(Refusal::InvalidUnique(_))), "{bad:?}");
        }
    }

    #[test]
    fn expiry_and_longest_run_are_bounded() {
        let seconds = |seconds| check(OptionsRequest { expire_seconds: Some(seconds), ..none() });
        assert_eq!(seconds(1).unwrap().expires_at, Some(NOW.plus(Duration::from_secs(1))));
        for bad in [i64::MIN, -1, 0, 31_622_401] {
            assert!(matches!(seconds(bad), Err(Refusal::InvalidExpiry(_))), "{bad}");
        }
        let at = |at| check(OptionsRequest { expires_at: Some(at), ..none() });
        assert!(at(NOW.plus(limits::DELAY)).is_ok());
        assert!(matches!(
            at(NOW.plus(limits::DELAY).plus(Duration::from_millis(1))),
            Err(Refusal::InvalidExpiry(_))
        ));
        for (given, kept) in [(NOW, NOW.millis()), (Time::ZERO, 1), (Time::from_millis(-9), 1)] {
            assert_eq!(
                at(given).unwrap().expires_at,
                Some(Time::from_millis(kept)),
                "what has passed is taken"
            );
        }
        let run = |seconds| check(OptionsRequest { max_run_seconds: Some(seconds), ..none() });
        assert_eq!(run(604_800).unwrap().max_run, Some(limits::MAX_RUN));
        for bad in [0, -1, 604_801] {
            assert_eq!(run(bad), Err(Refusal::InvalidMaxRun), "{bad}");
        }
    }
}
