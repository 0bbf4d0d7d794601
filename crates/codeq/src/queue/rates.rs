//! Tasks per second, from the counters of the server.

use crate::client::Api;
use std::collections::HashMap;
use std::time::Instant;

/// What came and what went, by command in lower case.
#[derive(Default)]
struct Counters {
    created: HashMap<String, f64>,
    ended: HashMap<String, f64>,
}

/// Two readings tell a rate. Counters are of all tenants and, where several servers share a store, of the
/// one that answered.
#[derive(Default)]
pub struct Rates {
    before: Option<(Instant, Counters)>,
    /// Per second: in, out.
    now: HashMap<String, (f64, f64)>,
}

impl Rates {
    /// Reads the counters again. A server that keeps its metrics elsewhere has no rates.
    pub async fn read(&mut self, api: &Api) {
        let Ok(page) = api.page("/metrics").await else {
            self.before = None;
            return self.now.clear();
        };
        let (at, counters) = (Instant::now(), counters(&page));
        self.now.clear();
        if let Some((then, before)) = &self.before {
            let seconds = at.duration_since(*then).as_secs_f64().max(0.001);
            let rate = |now: Option<&f64>, before: Option<&f64>| {
                // A server that was restarted counts from zero.
                (now.unwrap_or(&0.0) - before.unwrap_or(&0.0)).max(0.0) / seconds
            };
            for command in counters.created.keys().chain(counters.ended.keys()) {
                let coming = rate(counters.created.get(command), before.created.get(command));
                let going = rate(counters.ended.get(command), before.ended.get(command));
                self.now.insert(command.clone(), (coming, going));
            }
        }
        self.before = Some((at, counters));
    }

    /// In and out of all queues together, per second.
    pub fn total(&self) -> (f64, f64) {
        self.now.values().fold((0.0, 0.0), |sum, now| (sum.0 + now.0, sum.1 + now.1))
    }

    /// In and out of a queue, as text.
    pub fn of(&self, command: &str) -> (String, String) {
        match self.now.get(&command.to_ascii_lowercase()) {
            Some((coming, going)) => (format!("{coming:.1}/s"), format!("{going:.1}/s")),
            None => ("-".into(), "-".into()),
        }
    }
}

fn counters(page: &str) -> Counters {
    let mut counters = Counters::default();
    for line in page.lines() {
        let found = match line.split_once('{') {
            Some(("codeq_task_created_total", rest)) => Some((&mut counters.created, rest)),
            Some(("codeq_task_completed_total", rest)) => Some((&mut counters.ended, rest)),
            _ => None,
        };
        if let Some((sums, rest)) = found
            && let Some((command, value)) = sample(rest)
        {
            *sums.entry(command).or_default() += value;
        }
    }
    counters
}

/// `command="x",status="y"} 5` as the command and the number. Commands hold no quotes.
fn sample(rest: &str) -> Option<(String, f64)> {
    let (labels, value) = rest.rsplit_once("} ")?;
    let command = labels.split_once("command=\"")?.1.split_once('"')?.0;
    Some((command.to_ascii_lowercase(), value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_by_command() {
        let page = "# HELP x\ncodeq_task_created_total{command=\"Demo\"} 7\n\
            codeq_task_completed_total{command=\"demo\",status=\"FAILED\"} 2\n\
            codeq_task_completed_total{command=\"demo\",status=\"COMPLETED\"} 3\n";
        let counters = counters(page);
        assert_eq!((counters.created["demo"], counters.ended["demo"]), (7.0, 5.0));
    }
}
