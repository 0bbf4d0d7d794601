//! Workers of all processes over one keyspace: each keeps what it has seen where the others read it.

use super::{Protocol, SEEN, Sighting};
use codeq_api::work::WorkerInfo;
use codeq_queue::{Owner, TaskId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often it is kept again while workers are seen, for every so many workers.
const AGAIN: Duration = Duration::from_secs(5);
const WORKERS_AGAIN: u32 = 500;
/// What was kept longer ago is of a process that is gone: what its workers hold now is known elsewhere.
const GONE: Duration = Duration::from_secs(150);

/// What one process has seen.
#[derive(Serialize, Deserialize)]
struct Kept {
    at: i64,
    workers: Vec<KeptWorker>,
}

#[derive(Serialize, Deserialize)]
struct KeptWorker {
    tenant: String,
    sub: String,
    worker: String,
    is_grpc: bool,
    commands: Vec<String>,
    info: WorkerInfo,
    running: Vec<String>,
    count: usize,
    seen: i64,
}

/// The time until it is to be kept again.
pub fn pause(workers: usize) -> Duration {
    AGAIN * (1 + u32::try_from(workers).unwrap_or(u32::MAX) / WORKERS_AGAIN)
}

pub fn write(seen: &[Sighting], now: Time) -> String {
    let workers = seen.iter().map(|seen| KeptWorker {
        tenant: seen.tenant.to_string(),
        sub: seen.owner.subject.to_string(),
        worker: seen.owner.worker_id.to_string(),
        is_grpc: seen.protocol == Protocol::Grpc,
        commands: seen.commands.clone(),
        info: seen.info.clone(),
        running: seen.running.iter().map(ToString::to_string).collect(),
        count: seen.running_count,
        seen: seen.last_seen.millis(),
    });
    let kept = Kept { at: now.millis(), workers: workers.collect() };
    serde_json::to_string(&kept).expect("texts and numbers are JSON")
}

/// Nothing from a text that this version does not know.
pub fn read(text: &str, tenant: Option<&str>, now: Time) -> Vec<Sighting> {
    let Ok(kept) = serde_json::from_str::<Kept>(text) else { return Vec::new() };
    let is_gone = now.since(Time::from_millis(kept.at)) >= GONE;
    let shown = |kept: KeptWorker| {
        let running = kept.running.iter().filter_map(|id| TaskId::parse(id));
        Sighting {
            tenant: kept.tenant.into(),
            owner: Arc::new(Owner::new(&kept.sub, &kept.worker)),
            protocol: if kept.is_grpc { Protocol::Grpc } else { Protocol::Http },
            commands: kept.commands,
            info: kept.info,
            running: if is_gone { Vec::new() } else { running.collect() },
            running_count: if is_gone { 0 } else { kept.count },
            last_seen: Time::from_millis(kept.seen),
        }
    };
    let workers = kept.workers.into_iter().filter(|kept| tenant.is_none_or(|tenant| kept.tenant == tenant));
    workers.map(shown).filter(|seen| now.since(seen.last_seen) < SEEN).collect()
}

/// One entry for each worker, by name: as it was seen last, with what it holds by any process. At most `most`.
pub fn merge(all: impl IntoIterator<Item = Sighting>, shown: usize, most: usize) -> Vec<Sighting> {
    /// Tenant, worker id and subject.
    type WorkerName = (Arc<str>, Box<str>, Box<str>);
    let mut merged: BTreeMap<WorkerName, Sighting> = BTreeMap::new();
    for mut seen in all {
        let name = (seen.tenant.clone(), seen.owner.worker_id.clone(), seen.owner.subject.clone());
        if let Some(known) = merged.remove(&name) {
            let (mut newer, older) =
                if known.last_seen > seen.last_seen { (known, seen) } else { (seen, known) };
            let twice = older.running.iter().filter(|id| newer.running.contains(id)).count();
            newer.running_count = (newer.running_count + older.running_count).saturating_sub(twice);
            let others: Vec<TaskId> =
                older.running.into_iter().filter(|id| !newer.running.contains(id)).collect();
            newer.running.extend(others);
            newer.running.truncate(shown);
            if newer.info == WorkerInfo::default() {
                newer.info = older.info;
            }
            seen = newer;
        }
        merged.insert(name, seen);
    }
    let mut list: Vec<Sighting> = merged.into_values().collect();
    if list.len() > most {
        list.sort_by_key(|seen| std::cmp::Reverse(seen.last_seen));
        list.truncate(most);
        list.sort_by_cached_key(|seen| (seen.tenant.clone(), seen.owner.worker_id.clone()));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(worker: &str, seconds: i64, running: &[u128]) -> Sighting {
        Sighting {
            tenant: "acme".into(),
            owner: Arc::new(Owner::new("sub", worker)),
            protocol: Protocol::Grpc,
            commands: vec!["mail".into()],
            info: WorkerInfo { slots: Some(4), ..WorkerInfo::default() },
            running: running.iter().map(|id| TaskId::from_bits(*id)).collect(),
            running_count: running.len(),
            last_seen: at(seconds),
        }
    }

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    #[test]
    fn what_a_process_keeps_is_read_by_the_others() {
        let text = write(&[seen("a", 10, &[1]), seen("b", 200, &[2])], at(200));
        assert_eq!(read(&text, None, at(201)), [seen("a", 10, &[1]), seen("b", 200, &[2])]);
        assert_eq!(read(&text, Some("acme"), at(400)), [seen("b", 200, &[])].map(without_tasks));
        assert_eq!(read(&text, Some("globex"), at(201)), []);
        assert_eq!(read("{}", None, at(201)), []);
    }

    fn without_tasks(seen: Sighting) -> Sighting {
        Sighting { running_count: 0, ..seen }
    }

    #[test]
    fn a_worker_of_two_processes_is_one_entry() {
        let merged = merge([seen("b", 1, &[1, 2]), seen("a", 5, &[3]), seen("b", 7, &[2, 4])], 20, 10);
        let told: Vec<_> =
            merged.iter().map(|seen| (&*seen.owner.worker_id, seen.last_seen, seen.running_count)).collect();
        assert_eq!(told, [("a", at(5), 1), ("b", at(7), 3)]);
        let newest = merge([seen("b", 1, &[]), seen("a", 5, &[]), seen("c", 3, &[])], 20, 2);
        let names: Vec<_> = newest.iter().map(|seen| &*seen.owner.worker_id).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn many_workers_are_kept_less_often_and_in_time() {
        assert_eq!(pause(0), AGAIN);
        assert!(pause(super::super::WORKERS) < GONE);
    }
}
