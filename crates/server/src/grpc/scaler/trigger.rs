//! The metadata of a KEDA trigger: which queues, what is measured, how much of it one worker should have.

use codeq_queue::queue::check_command;
use codeq_queue::{QueueStats, Time};
use std::collections::HashMap;

/// Commands of one trigger.
const COMMANDS_MAX: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScaleMetric {
    /// Ready and running tasks. Running ones count, because their workers are still needed; ready ones that a limit
    /// holds back do not, because more workers would not get them.
    Backlog,
    /// Seconds since the oldest ready task was created.
    Age,
    Running,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Trigger {
    pub token: String,
    pub commands: Vec<String>,
    pub metric: ScaleMetric,
    pub target: f64,
    /// Workers are wanted when the value is above it.
    pub activation: f64,
}

/// What there is to do in one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLoad {
    /// Tasks that workers would get at once: none of a paused queue, and no more than its limits allow.
    pub ready: u64,
    pub running: u64,
    /// When the oldest of the ready tasks was created.
    pub oldest_ready: Option<Time>,
}

impl From<&QueueStats> for QueueLoad {
    fn from(queue: &QueueStats) -> QueueLoad {
        let limit = queue.policy.as_ref().and_then(|stored| stored.policy.concurrency);
        let free = limit.map_or(u64::MAX, |limit| u64::from(limit).saturating_sub(queue.in_progress));
        let allowed = queue.ready_total().saturating_sub(queue.limited).min(free);
        QueueLoad {
            ready: if queue.is_paused { 0 } else { allowed },
            running: queue.in_progress,
            oldest_ready: queue.oldest_ready.filter(|_| !queue.is_paused),
        }
    }
}

impl Trigger {
    /// The error says what is wrong with which key. Other keys are KEDA's own.
    pub fn read(metadata: &HashMap<String, String>) -> Result<Trigger, String> {
        let given = |key: &str| metadata.get(key).map(|value| value.trim()).filter(|value| !value.is_empty());
        let token = given("token").or_else(|| given("tokenFromEnv"));
        let metric = match given("metric").unwrap_or("backlog") {
            "backlog" => ScaleMetric::Backlog,
            "age" => ScaleMetric::Age,
            "running" => ScaleMetric::Running,
            other => return Err(format!("metric must be backlog, age or running, not {other:?}")),
        };
        let target = number("target", given("target"), metric.default_target())?;
        if target <= 0.0 {
            return Err("target must be above 0".to_owned());
        }
        Ok(Trigger {
            token: token
                .ok_or("token is missing; name a variable of the worker with tokenFromEnv")?
                .to_owned(),
            commands: commands(given("command").unwrap_or_default())?,
            metric,
            target,
            activation: number("activation", given("activation"), 0.0)?,
        })
    }

    pub fn value(&self, queues: &[QueueLoad], now: Time) -> f64 {
        match self.metric {
            ScaleMetric::Backlog => float(ready(queues) + running(queues)),
            ScaleMetric::Running => float(running(queues)),
            ScaleMetric::Age => {
                let oldest = queues.iter().filter_map(|queue| queue.oldest_ready).min();
                oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64())
            }
        }
    }

    /// Work in hand keeps its workers, whatever is measured.
    pub fn is_active(&self, queues: &[QueueLoad], now: Time) -> bool {
        running(queues) > 0 || self.value(queues, now) > self.activation
    }

    /// Fit for a name of Kubernetes, whatever the commands are called.
    pub fn metric_name(&self) -> String {
        let metric = match self.metric {
            ScaleMetric::Backlog => "backlog",
            ScaleMetric::Age => "age",
            ScaleMetric::Running => "running",
        };
        let name = format!("codeq-{metric}-{}", self.commands.join("-")).to_ascii_lowercase();
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }
}

impl ScaleMetric {
    fn default_target(self) -> f64 {
        match self {
            ScaleMetric::Backlog | ScaleMetric::Running => 10.0,
            ScaleMetric::Age => 30.0,
        }
    }
}

fn commands(list: &str) -> Result<Vec<String>, String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let commands = names
        .map(|name| check_command(name).map(str::to_owned).map_err(|error| format!("{error}: {name:?}")));
    let commands: Vec<String> = commands.collect::<Result<_, _>>()?;
    match commands.len() {
        0 => Err("command is missing".to_owned()),
        1..=COMMANDS_MAX => Ok(commands),
        _ => Err(format!("too many commands (max {COMMANDS_MAX})")),
    }
}

fn number(key: &str, given: Option<&str>, default: f64) -> Result<f64, String> {
    let Some(text) = given else { return Ok(default) };
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("{key} must be a number of 0 or more, not {text:?}"))
}

fn ready(queues: &[QueueLoad]) -> u64 {
    queues.iter().map(|queue| queue.ready).sum()
}

fn running(queues: &[QueueLoad]) -> u64 {
    queues.iter().map(|queue| queue.running).sum()
}

/// Exact up to 2^53, which no queue reaches.
fn float(count: u64) -> f64 {
    count as f64
}

/// Rounded up, so that a fraction of work is some.
pub fn whole(value: f64) -> i64 {
    value.ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn trigger(pairs: &[(&str, &str)]) -> Result<Trigger, String> {
        Trigger::read(&metadata(&[&[("token", "t"), ("command", "render")], pairs].concat()))
    }

    fn queue(ready: u64, running: u64, oldest: Option<i64>) -> QueueLoad {
        QueueLoad { ready, running, oldest_ready: oldest.map(Time::from_millis) }
    }

    #[test]
    fn what_is_not_given_has_a_default() {
        let expected = Trigger {
            token: "t".to_owned(),
            commands: vec!["render".to_owned()],
            metric: ScaleMetric::Backlog,
            target: 10.0,
            activation: 0.0,
        };
        assert_eq!(trigger(&[]), Ok(expected));
        assert_eq!(trigger(&[("metric", "age")]).unwrap().target, 30.0);
        let from_env = metadata(&[("tokenFromEnv", "secret"), ("command", " a , b ")]);
        let from_env = Trigger::read(&from_env).unwrap();
        assert_eq!((from_env.token.as_str(), from_env.commands.len()), ("secret", 2));
    }

    #[test]
    fn a_wrong_key_is_named() {
        for (key, value, text) in [
            ("metric", "speed", "metric must be"),
            ("target", "0", "target must be"),
            ("target", "many", "target must be a number"),
            ("activation", "-1", "activation must be"),
            ("command", "a b", "invalid command"),
            ("command", ",", "command is missing"),
            ("token", " ", "token is missing"),
        ] {
            let told = trigger(&[(key, value)]).expect_err(value);
            assert!(told.contains(text), "{key}={value}: {told}");
        }
    }

    #[test]
    fn values_follow_the_metric() {
        let now = Time::from_millis(60_000);
        let queues = [queue(30, 4, Some(20_000)), queue(0, 1, None)];
        let value = |metric| trigger(&[("metric", metric)]).unwrap().value(&queues, now);
        assert_eq!((value("backlog"), value("running"), value("age")), (35.0, 5.0, 40.0));
        assert_eq!(trigger(&[("metric", "age")]).unwrap().value(&queues[1..], now), 0.0);
    }

    #[test]
    fn running_work_keeps_its_workers() {
        let now = Time::from_millis(60_000);
        let trigger = trigger(&[("metric", "age"), ("activation", "50")]).unwrap();
        assert!(!trigger.is_active(&[queue(1, 0, Some(20_000))], now), "40 seconds are not above 50");
        assert!(trigger.is_active(&[queue(1, 0, Some(1_000))], now));
        assert!(trigger.is_active(&[queue(0, 1, None)], now));
        assert!(!trigger.is_active(&[queue(0, 0, None)], now));
    }

    #[test]
    fn names_of_metrics_are_plain() {
        let trigger = trigger(&[("command", "Render.video:v2,mail")]).unwrap();
        assert_eq!(trigger.metric_name(), "codeq-backlog-render-video-v2-mail");
        assert_eq!((whole(0.2), whole(3.0), whole(f64::MAX)), (1, 3, i64::MAX));
    }
}
