//! Moving tasks between two shards that are only segments of the same keys. Nothing is copied: one script takes
//! ids out of one queue, puts them into the other and names the new shard in their records.

use crate::kvrocks::moving::relocate::{MoveRoute, Part};
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, string};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, QueueKey};

/// How long a mark stays at most, in milliseconds.
const MARK_MS: &str = "10000";

impl StoreContext {
    /// Whether two shards are the same keys of the same server, whatever its addresses are: a mark that is
    /// left through one of them is seen through the other.
    pub async fn is_one_keyspace(&self, from: usize, to: usize) -> Result<bool, Failure> {
        let (from, to) = (&self.shards[from], &self.shards[to]);
        let (key, mark) = (from.keys.of("relocating"), format!("{:032x}", rand::random::<u128>()));
        if key != to.keys.of("relocating") {
            return Ok(false);
        }
        let set = Command::new("SET").arg(key.as_str()).arg(mark.as_str()).args(["PX", MARK_MS]);
        from.read_one(set).await?;
        let seen = string(to.read_one(Command::new("GET").arg(key.as_str())).await?);
        from.read_one(Command::new("DEL").arg(key)).await?;
        Ok(seen == mark)
    }

    /// Moves the oldest ids of a place, in their order. Gives how many there were.
    pub async fn shift(&self, road: MoveRoute, queue: &QueueKey, part: Part) -> Result<u64, Failure> {
        let (from, to) = (&self.shards[road.from], &self.shards[road.to]);
        let mut names = from.keys.with_queue(queue);
        names.push(to.keys.base(queue));
        let call = Call::new(Script::Shift, names)
            .arg(part.word())
            .number(part.priority())
            .number(road.batch)
            .arg(&*to.name)
            .arg(&*queue.tenant);
        let settle = |replies: Vec<Reply>| {
            let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok((u64::try_from(answer.int()).unwrap_or(0), Vec::new()))
        };
        from.writer.run(vec![call], settle).await
    }
}

/// The same record as one of this shard, whose name needs no quoting. What does not say the order of its
/// creation is not a record of ours and stays as it is.
pub fn on_shard(text: &[u8], shard: &str) -> Vec<u8> {
    const NUMBER: &str = ",\"createdNo\":";
    const SHARD: &str = ",\"shard\":\"";
    let text = String::from_utf8_lossy(text);
    // Quotes inside strings are escaped, so this cannot be found in one.
    let Some((before, rest)) = text.split_once(NUMBER) else { return text.into_owned().into_bytes() };
    let (number, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let named = rest.strip_prefix(SHARD).and_then(|named| named.split_once('"'));
    let rest = named.map_or(rest, |(_, rest)| rest);
    format!("{before}{NUMBER}{number}{SHARD}{shard}\"{rest}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_shard_it_has_moved_to() {
        let moved = |text: &str| String::from_utf8(on_shard(text.as_bytes(), "new")).unwrap();
        let named = r#"{"error":",\"createdNo\":1","id":"x","createdNo":12,"shard":"old","payload":"p"}"#;
        let plain = r#"{"error":",\"createdNo\":1","id":"x","createdNo":12,"payload":"p"}"#;
        let wanted = r#"{"error":",\"createdNo\":1","id":"x","createdNo":12,"shard":"new","payload":"p"}"#;
        assert_eq!((moved(named).as_str(), moved(plain).as_str()), (wanted, wanted));
        assert_eq!(moved("{}"), "{}");
    }
}
