//! Which tasks: the filter of the operator routes, as flags and as `key=value`.

use anyhow::{anyhow, bail};
use serde_json::{Map, Value};

/// Keys that a filter knows, besides `header.<name>`.
const KEYS: [&str; 14] = [
    "command",
    "status",
    "place",
    "workerId",
    "error",
    "createdAfter",
    "createdBefore",
    "updatedAfter",
    "updatedBefore",
    "idempotencyKey",
    "lane",
    "tag",
    "schedule",
    "batch",
];

/// Pairs of the filter, as they stand in a query.
pub type Pairs = Vec<(String, String)>;

#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Filter")]
pub struct Filter {
    /// Only tasks of this command.
    #[arg(long, alias = "event")]
    command: Option<String>,
    /// Only tasks with this status: PENDING, IN_PROGRESS, COMPLETED or FAILED.
    #[arg(long)]
    status: Option<String>,
    /// Only tasks in this place: ready, delayed, held, running, dead, failed, cancelled or done.
    #[arg(long)]
    place: Option<String>,
    /// Only tasks that this worker is running.
    #[arg(long, value_name = "ID")]
    worker: Option<String>,
    /// Only tasks whose error contains this text.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only tasks created after this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only tasks created before this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Only tasks changed after this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    /// Only tasks changed before this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    updated_before: Option<String>,
    /// Only the task with this idempotency key.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only tasks of this lane.
    #[arg(long)]
    lane: Option<String>,
    /// Only tasks with this tag.
    #[arg(long)]
    tag: Option<String>,
    /// Only tasks that this schedule has made.
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Only tasks of this batch.
    #[arg(long, value_name = "ID")]
    batch: Option<String>,
    /// Only tasks with this header; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
}

impl Filter {
    pub fn pairs(&self) -> anyhow::Result<Pairs> {
        let flags = [
            &self.command,
            &self.status,
            &self.place,
            &self.worker,
            &self.error,
            &self.created_after,
            &self.created_before,
            &self.updated_after,
            &self.updated_before,
            &self.idempotency_key,
            &self.lane,
            &self.tag,
            &self.schedule,
            &self.batch,
        ];
        let flags = KEYS.iter().zip(flags);
        let mut pairs: Pairs =
            flags.filter_map(|(&key, flag)| Some((key.to_owned(), flag.clone()?))).collect();
        for header in &self.header {
            let (name, value) = pair(header)?;
            pairs.push((format!("header.{name}"), value));
        }
        Ok(pairs)
    }
}

/// Reads `--filter key=value`.
pub fn read(given: &[String]) -> anyhow::Result<Pairs> {
    let mut pairs = Pairs::new();
    for text in given {
        let (key, value) = pair(text)?;
        let is_header = key.strip_prefix("header.").is_some_and(|name| !name.is_empty());
        if !is_header && !KEYS.contains(&&*key) {
            let meant = nearest(&key).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            bail!("unknown filter {key:?}{meant} Use one of {}, header.NAME", KEYS.join(", "));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// How alike two words must be for one to be taken for a slip of the other.
const LIKENESS: f64 = 0.7;

/// The known key that was probably meant.
fn nearest(key: &str) -> Option<&'static str> {
    let likeness = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &key.to_lowercase());
    let best = KEYS.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|best| likeness(best) >= LIKENESS)
}

/// The filter as an object in a body.
pub fn object(pairs: &Pairs) -> Value {
    let entries = pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(Map::from_iter(entries))
}

pub fn pair(text: &str) -> anyhow::Result<(String, String)> {
    let pair = text.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.to_owned()));
    pair.filter(|(key, _)| !key.is_empty()).ok_or_else(|| anyhow!("{text:?} is not KEY=VALUE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_pairs_of_known_keys() {
        let pairs = read(&["error=a=b".into(), "header.origin=x".into()]).unwrap();
        assert_eq!(object(&pairs).to_string(), r#"{"error":"a=b","header.origin":"x"}"#);
        assert!(read(&["nothing".into()]).is_err() && read(&["zzz=x".into()]).is_err());
        let slip = read(&["eror=x".into()]).expect_err("no such key").to_string();
        assert!(slip.contains("did you mean \"error\"?"), "{slip}");
        let slip = read(&["worker_id=x".into()]).expect_err("no such key").to_string();
        assert!(slip.contains("did you mean \"workerId\"?"), "{slip}");
        assert!(read(&["header.=x".into()]).is_err());
    }
}
