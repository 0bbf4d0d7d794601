//! Adopting data of the original server, once, before serving. Every step may be repeated, so an interrupted
//! migration begins again.
//!
//! The keys of queues tell where a task really is, its record who it belongs to. Records are put into our form,
//! queues get their names, lists become sets, and running tasks get their lease entries.

use crate::kvrocks::context::shard::Shard;
use crate::kvrocks::moving::foreign::{self, Spot};
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{found, list, string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::store::options::KvrocksOptions;
use codeq_queue::{Failure, QueueKey};
use hashbrown::{HashMap, HashSet};

/// What is read in one step of a scan.
const TOGETHER: &str = "500";
const VERSION: &str = "2";
/// How many records without a tenant were left alone.
const LEFT: &str = "codeq:untenanted";

/// A key of a queue of the original server, taken apart.
struct OldKey {
    name: String,
    /// Command, tenant and shard, as they stand in the key.
    middle: String,
    part: String,
}

struct Old {
    keys: Vec<OldKey>,
    spots: HashMap<String, Spot>,
    /// The ids behind each key.
    members: HashMap<String, Vec<String>>,
}

impl StoreContext {
    /// The error is the reason why the store cannot be opened.
    pub async fn migrate(&self, keyspace: usize, options: &KvrocksOptions) -> Result<(), String> {
        let at = self.keyspaces[keyspace][0];
        self.migrate_server(at, options).await.map_err(|failure| format!("migration: {failure}"))
    }

    async fn migrate_server(&self, at: usize, options: &KvrocksOptions) -> Result<(), Failure> {
        let shard = &self.shards[at];
        if shard.read_one(Command::new("GET").arg("codeq:schema")).await? != Reply::Nil {
            return self.tell_left(at, options).await;
        }
        let old = survey(shard).await?;
        let (owners, left) = self.rewrite_records(at, &old, options).await?;
        let mut running = Vec::new();
        for key in &old.keys {
            let members = &old.members[&key.name];
            let Some((command, tenant)) = members.iter().find_map(|id| owners.get(id)) else { continue };
            let queue = QueueKey::new(tenant, command);
            let name = rename(shard, key, &queue).await?;
            let suffix = shard_of(&key.middle).map_or_else(String::new, |shard| format!(":s:{shard}"));
            let member = format!("{}{suffix}", crate::kvrocks::format::keys::queue_text(&queue));
            shard.read_one(Command::new("SADD").arg("codeq:queues").arg(member.as_str())).await?;
            let index = shard.keys.queues_of(tenant);
            shard.read_one(Command::new("SADD").arg(index).arg(member)).await?;
            if matches!(&*key.part, "inprog" | "dlq") {
                make_set(shard, &name).await?;
            }
            if key.part == "inprog" {
                running.extend(members.iter().map(|id| (queue.clone(), suffix.clone(), id.clone())));
            }
        }
        self.adopt_running(running).await?;
        if left > 0 {
            shard.read_one(Command::new("SET").arg(LEFT).arg(left.to_string())).await?;
        }
        shard.read_one(Command::new("SET").arg("codeq:schema").arg(VERSION)).await?;
        if left > 0 {
            tracing::warn!(records = left, "records without a tenant were left untouched");
        }
        if !owners.is_empty() {
            tracing::info!(records = owners.len(), "data of the original server was adopted");
        }
        Ok(())
    }

    /// Adoption happens once: a tenant that is named later gets nothing, and is to hear of it.
    async fn tell_left(&self, at: usize, options: &KvrocksOptions) -> Result<(), Failure> {
        if options.untenanted_tenant.is_none() {
            return Ok(());
        }
        if let Some(left) = found(self.shards[at].read_one(Command::new("GET").arg(LEFT)).await?) {
            let records = String::from_utf8_lossy(&left);
            tracing::warn!(%records, "untenantedTenant was set too late: records without a tenant stay untouched");
        }
        Ok(())
    }

    /// Puts every record into our form. Gives command and tenant of each, and how many belong to no one.
    async fn rewrite_records(
        &self,
        at: usize,
        old: &Old,
        options: &KvrocksOptions,
    ) -> Result<(HashMap<String, (String, String)>, u64), Failure> {
        let (shard, mut owners, mut left) = (&self.shards[at], HashMap::new(), 0);
        let mut cursor = "0".to_owned();
        loop {
            let scan = Command::new("HSCAN").arg("codeq:tasks").args([cursor.as_str(), "COUNT", TOGETHER]);
            let mut answer = list(shard.read_one(scan).await?).into_iter();
            cursor = string(answer.next().unwrap_or(Reply::Nil));
            let pairs = list(answer.next().unwrap_or(Reply::Nil));
            let mut calls = Vec::new();
            for pair in pairs.chunks_exact(2) {
                let (id, Some(text)) = (string(pair[0].clone()), found(pair[1].clone())) else { continue };
                let spot = old.spots.get(&id).copied();
                let adopter = options.untenanted_tenant.as_deref();
                let Some(new) = foreign::convert(&text, spot, adopter, options.max_attempts_default) else {
                    left += 1;
                    continue;
                };
                owners.insert(
                    id.clone(),
                    (new.task.body.command.to_string(), new.task.body.tenant.to_string()),
                );
                if !foreign::is_ours(&text) {
                    let keys = vec!["codeq:tasks".to_owned(), "codeq:created".to_owned()];
                    let call = Call::new(Script::Rewrite, keys).arg(id).arg(text).arg(new.text);
                    calls.push(call.number(new.task.created_at.millis()));
                }
            }
            for part in calls.chunks(100) {
                shard.writer.run(part.to_vec(), |_| Ok(((), Vec::new()))).await?;
            }
            if cursor == "0" {
                return Ok((owners, left));
            }
        }
    }

    async fn adopt_running(&self, running: Vec<(QueueKey, String, String)>) -> Result<(), Failure> {
        let now = self.now.get();
        for (queue, suffix, id) in running {
            let name = suffix.strip_prefix(":s:").unwrap_or("default");
            let Some(at) = self.shards.iter().position(|shard| *shard.name == *name) else { continue };
            let call = self.adopt_call(at, &queue, &id, now);
            self.shards[at].writer.run(vec![call], |_| Ok(((), Vec::new()))).await?;
        }
        Ok(())
    }
}

/// The shard at the end of `<cmd>:<T>:s:<shard>`.
fn shard_of(middle: &str) -> Option<&str> {
    middle.rsplit_once(":s:").map(|(_, shard)| shard)
}

fn take_apart(name: &str) -> Option<OldKey> {
    let rest = name.strip_prefix("codeq:q:")?;
    let (middle, part) = match rest.rsplit_once(":pending:") {
        Some((middle, priority)) if priority.len() == 1 => (middle, format!("pending:{priority}")),
        _ => {
            let (middle, part) = rest.rsplit_once(':')?;
            (middle, part.to_owned())
        }
    };
    let is_part = part.starts_with("pending:") || matches!(&*part, "inprog" | "delayed" | "dlq");
    is_part.then(|| OldKey { name: name.into(), middle: middle.into(), part })
}

/// Every key of a queue and what is behind it.
async fn survey(shard: &Shard) -> Result<Old, Failure> {
    let mut old = Old { keys: Vec::new(), spots: HashMap::new(), members: HashMap::new() };
    let (mut cursor, mut seen) = ("0".to_owned(), HashSet::new());
    loop {
        let scan = Command::new("SCAN").arg(cursor).args(["MATCH", "codeq:q:*", "COUNT", TOGETHER]);
        let mut answer = list(shard.read_one(scan).await?).into_iter();
        cursor = string(answer.next().unwrap_or(Reply::Nil));
        for name in strings(answer.next().unwrap_or(Reply::Nil)) {
            if let Some(key) = take_apart(&name).filter(|_| seen.insert(name)) {
                look_at(shard, &mut old, key).await?;
            }
        }
        if cursor == "0" {
            return Ok(old);
        }
    }
}

async fn look_at(shard: &Shard, old: &mut Old, key: OldKey) -> Result<(), Failure> {
    let kind = string(shard.read_one(Command::new("TYPE").arg(key.name.as_str())).await?);
    let read = match kind.as_str() {
        "list" => Command::new("LRANGE").arg(key.name.as_str()).args(["0", "-1"]),
        "set" => Command::new("SMEMBERS").arg(key.name.as_str()),
        "zset" => Command::new("ZRANGE").arg(key.name.as_str()).args(["0", "-1", "WITHSCORES"]),
        _ => return Ok(()),
    };
    let values = strings(shard.read_one(read).await?);
    let mut ids = Vec::new();
    if kind == "zset" {
        for pair in values.chunks_exact(2) {
            let until = crate::kvrocks::verbs::read::millis(pair[1].parse::<f64>().unwrap_or(0.0) * 1000.0);
            old.spots.insert(pair[0].clone(), Spot::Delayed { until });
            ids.push(pair[0].clone());
        }
    } else {
        let spot = match &*key.part {
            "inprog" => Spot::Running,
            "dlq" => Spot::Dead,
            _ => Spot::Pending,
        };
        old.spots.extend(values.iter().map(|id| (id.clone(), spot)));
        ids = values;
    }
    old.members.insert(key.name.clone(), ids);
    old.keys.push(key);
    Ok(())
}

/// Gives a queue's key the name it has here.
async fn rename(shard: &Shard, key: &OldKey, queue: &QueueKey) -> Result<String, Failure> {
    let suffix = shard_of(&key.middle).map_or_else(String::new, |shard| format!(":s:{shard}"));
    let name = format!("codeq:q:{}{suffix}:{}", crate::kvrocks::format::keys::queue_text(queue), key.part);
    if name != key.name {
        let answer =
            shard.read_one(Command::new("RENAMENX").arg(key.name.as_str()).arg(name.as_str())).await?;
        if crate::kvrocks::redis::reply::int(&answer) == 0 {
            tracing::warn!(key = key.name, "a key was not renamed because there is one of its new name");
        }
    }
    Ok(name)
}

/// A list of ids becomes a set of them, in one step.
async fn make_set(shard: &Shard, name: &str) -> Result<(), Failure> {
    if string(shard.read_one(Command::new("TYPE").arg(name)).await?) != "list" {
        return Ok(());
    }
    let ids = strings(shard.read_one(Command::new("LRANGE").arg(name).args(["0", "-1"])).await?);
    let commands = [
        Command::new("MULTI"),
        Command::new("DEL").arg(name),
        Command::new("SADD").arg(name).args(ids.iter().map(String::as_str)),
        Command::new("EXEC"),
    ];
    shard.read(&commands).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_queues_are_taken_apart() {
        for (name, middle, part) in [
            ("codeq:q:render:t:pending:3", "render:t", "pending:3"),
            ("codeq:q:a:b:t:s:video:inprog", "a:b:t:s:video", "inprog"),
            ("codeq:q:render:delayed", "render", "delayed"),
        ] {
            let key = take_apart(name).unwrap();
            assert_eq!((&*key.middle, &*key.part), (middle, part));
        }
        assert!(take_apart("codeq:q:render:t:leases").is_none());
        assert_eq!(shard_of("a:b:t:s:video"), Some("video"));
    }
}
