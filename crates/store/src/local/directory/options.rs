//! The encoding of task options: a count, then marked fields. Nothing is written for what was not asked for.

use crate::local::format::batches::{read_id, write_id};
use crate::local::format::codec::{Corrupt, Reader, Writer};
use codeq_queue::{OnConflict, OnFailure, TaskOptions, UniqueRule, UniqueUntil};
use std::time::Duration;

const LANE: u8 = 1;
const TAGS: u8 = 2;
const UNIQUE: u8 = 3;
const EXPIRES_AT: u8 = 4;
const MAX_RUN: u8 = 5;
const ACCEPTED: u8 = 6;
const AFTER: u8 = 30;
const BATCH: u8 = 31;

pub fn write(w: &mut Writer, options: &TaskOptions) {
    let fields = usize::from(options.lane.is_some())
        + usize::from(!options.tags.is_empty())
        + usize::from(options.unique.is_some())
        + usize::from(options.expires_at.is_some())
        + usize::from(options.max_run.is_some())
        + usize::from(options.accepted.is_some())
        + usize::from(!options.after.is_empty())
        + usize::from(options.batch.is_some());
    w.number(fields as u64);
    if let Some(lane) = &options.lane {
        w.byte(LANE);
        w.text(lane);
    }
    if !options.tags.is_empty() {
        w.byte(TAGS);
        w.number(options.tags.len() as u64);
        for tag in &options.tags {
            w.text(tag);
        }
    }
    if let Some(unique) = &options.unique {
        w.byte(UNIQUE);
        write_unique(w, unique);
    }
    if let Some(at) = options.expires_at {
        w.byte(EXPIRES_AT);
        w.time(at);
    }
    if let Some(longest) = options.max_run {
        w.byte(MAX_RUN);
        w.number(longest.as_secs());
    }
    if let Some((number, seq)) = options.accepted {
        w.byte(ACCEPTED);
        w.number(number);
        w.number(seq);
    }
    if !options.after.is_empty() {
        w.byte(AFTER);
        w.byte(u8::from(options.on_failure == OnFailure::Run));
        w.number(options.after.len() as u64);
        options.after.iter().for_each(|id| write_id(w, id));
    }
    if let Some(batch) = &options.batch {
        w.byte(BATCH);
        write_id(w, batch);
    }
}

pub fn read(r: &mut Reader) -> Result<Option<Box<TaskOptions>>, Corrupt> {
    let mut options = TaskOptions::default();
    for _ in 0..r.small()? {
        match r.byte()? {
            LANE => options.lane = Some(r.text()?.into()),
            TAGS => {
                let mut tags = Vec::new();
                for _ in 0..r.small()? {
                    tags.push(r.text()?.into());
                }
                options.tags = tags.into();
            }
            UNIQUE => options.unique = Some(read_unique(r)?),
            EXPIRES_AT => options.expires_at = Some(r.time()?),
            MAX_RUN => options.max_run = Some(Duration::from_secs(r.number()?)),
            ACCEPTED => options.accepted = Some((r.number()?, r.number()?)),
            AFTER => {
                options.on_failure = if r.byte()? == 0 { OnFailure::Cancel } else { OnFailure::Run };
                let count = r.small()?;
                options.after = (0..count).map(|_| read_id(r)).collect::<Result<_, Corrupt>>()?;
            }
            BATCH => options.batch = Some(read_id(r)?),
            _ => return Err(Corrupt("unknown task option")),
        }
    }
    Ok(options.boxed())
}

fn write_unique(w: &mut Writer, unique: &UniqueRule) {
    w.text(&unique.key);
    match unique.until {
        UniqueUntil::Started => w.byte(0),
        UniqueUntil::Ended => w.byte(1),
        UniqueUntil::For(life) => {
            w.byte(2);
            w.number(life.as_secs());
        }
    }
    let conflict = OnConflict::ALL.iter().position(|known| *known == unique.on_conflict);
    w.byte(conflict.expect("every word is listed") as u8);
    w.option(unique.max_wait.as_ref(), |w, wait| w.number(wait.as_secs()));
}

fn read_unique(r: &mut Reader) -> Result<UniqueRule, Corrupt> {
    let key = r.text()?.into();
    let until = match r.byte()? {
        0 => UniqueUntil::Started,
        1 => UniqueUntil::Ended,
        2 => UniqueUntil::For(Duration::from_secs(r.number()?)),
        _ => return Err(Corrupt("unknown end of a unique key")),
    };
    let on_conflict = OnConflict::ALL.get(usize::from(r.byte()?)).copied();
    let on_conflict = on_conflict.ok_or(Corrupt("unknown conflict rule"))?;
    let max_wait = r.option(Reader::number)?.map(Duration::from_secs);
    Ok(UniqueRule { key, until, on_conflict, max_wait })
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_queue::{TaskId, Time};

    #[test]
    fn options_are_read_as_they_were_written() {
        let unique = UniqueRule {
            key: "k".into(),
            until: UniqueUntil::For(Duration::from_secs(9)),
            on_conflict: OnConflict::Cancel,
            max_wait: Some(Duration::from_secs(60)),
        };
        let options = TaskOptions {
            lane: Some("customer".into()),
            tags: ["a".into(), "b".into()].into(),
            unique: Some(unique),
            expires_at: Some(Time::from_millis(77)),
            max_run: Some(Duration::from_secs(5)),
            accepted: Some((7, 9)),
            after: [TaskId::from_bits(1), TaskId::from_bits(2)].into(),
            on_failure: OnFailure::Run,
            batch: Some(TaskId::from_bits(3)),
        };
        let mut bytes = Vec::new();
        write(&mut Writer(&mut bytes), &options);
        let r = &mut Reader(&bytes);
        assert_eq!(read(r), Ok(Some(Box::new(options))));
        assert!(r.0.is_empty());
        assert!(read(&mut Reader(&bytes[..bytes.len() - 1])).is_err());
    }
}
