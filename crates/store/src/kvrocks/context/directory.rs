//! Where the schedule of a name lives: the shard of the name has an entry with shard and command. One that leads
//! nowhere is harmless, and the next put of that name replaces it.

use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{string, strings};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::verbs::schedules::{FullName, SchedulePlace, field};
use crate::kvrocks::verbs::scheduling::word;
use codeq_queue::Failure;
use codeq_queue::schedule::directory_shard;
use futures_util::future::join_all;
use std::collections::BTreeMap;

/// A directory entry as it was read.
pub struct Entry {
    /// The shard that has the entry, or is to have it.
    at: usize,
    /// Empty if there is none.
    text: String,
    pub place: Option<SchedulePlace>,
}

impl StoreContext {
    /// The shard of a schedule's name, and behind it the one that it had before queues were spread.
    fn directories(&self, name: &FullName) -> Vec<usize> {
        let shards = u32::try_from(crate::kvrocks::context::spread::SPREAD_SHARDS).unwrap_or(1);
        let spread = directory_shard(&name.0, &name.1, shards);
        let spread = self.sharding.spread.then(|| self.spread.home(spread as usize));
        spread.into_iter().chain([self.default_shard]).collect()
    }

    pub async fn schedule_entry(&self, name: &FullName) -> Result<Entry, Failure> {
        let directories = self.directories(name);
        for shard in &directories {
            let at = &self.shards[*shard];
            let get = Command::new("HGET").arg(at.keys.of("schedules:places")).arg(field(name));
            let text = string(at.read_one(get).await?);
            if let Some(place) = SchedulePlace::parse(&text) {
                return Ok(Entry { at: *shard, text, place: Some(place) });
            }
        }
        Ok(Entry { at: directories[0], text: String::new(), place: None })
    }

    /// What the directories say of these first; nothing where they do not answer.
    pub async fn first_entries(&self, names: &[FullName]) -> Vec<Option<SchedulePlace>> {
        let mut by_keyspace: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, name) in names.iter().enumerate() {
            by_keyspace.entry(self.keyspace_of(self.directories(name)[0])).or_default().push(number);
        }
        let asked = by_keyspace.into_iter().map(|(keyspace, numbers)| async move {
            let at = &self.shards[self.keyspaces[keyspace][0]];
            let get = Command::new("HMGET").arg(at.keys.of("schedules:places"));
            let fields = numbers.iter().map(|number| field(&names[*number]));
            let texts = at.read_one(fields.fold(get, Command::arg)).await.map(strings).unwrap_or_default();
            (numbers, texts)
        });
        let mut places: Vec<Option<SchedulePlace>> = names.iter().map(|_| None).collect();
        for (numbers, texts) in join_all(asked).await {
            for (number, text) in numbers.into_iter().zip(texts) {
                places[number] = SchedulePlace::parse(&text);
            }
        }
        places
    }

    /// False if the entry is not the one that was read any more.
    pub async fn set_schedule_entry(
        &self,
        name: &FullName,
        read: &Entry,
        place: Option<&SchedulePlace>,
    ) -> Result<bool, Failure> {
        let at = &self.shards[read.at];
        let call = Call::new(Script::SchedulePlace, vec![at.keys.of("schedules:places")])
            .arg(field(name))
            .arg(read.text.as_str())
            .arg(place.map(SchedulePlace::text).unwrap_or_default());
        at.writer.run(vec![call], |replies| Ok((word(replies)? == "OK", Vec::new()))).await
    }
}
