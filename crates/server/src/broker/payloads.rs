//! Searching in payloads: nothing indexes them, so it looks at one after the other and says at how many.
//!
//! A page is bounded by tasks, by bytes and by time, whichever comes first, and may be short, or empty, and yet have
//! a next one. What is found on a page is in the order of the listing; nothing is skipped and nothing repeated.

use super::{Broker, Error};
use codeq_queue::{Listed, Page, Task};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tasks that one page looks at.
const EXAMINED: usize = 50_000;
/// Bytes of payloads that one page looks at.
const EXAMINED_BYTES: usize = 64 << 20;
/// No more is asked of the store after so long; what is asked for takes a fraction of it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Tasks asked of the store at once.
const ASKED_AT_ONCE: usize = 5_000;

#[derive(Default, Debug)]
pub struct Searched {
    pub listed: Listed,
    /// Tasks whose payload was looked at.
    pub examined: u64,
}

impl Broker {
    /// Tasks of the page's filter whose payload holds `part`, as it was written, without regard to the case of
    /// ASCII letters.
    pub async fn search_payloads(&self, mut page: Page, part: &str) -> Result<Searched, Error> {
        let (limit, part) = (page.limit, Arc::<str>::from(part.to_ascii_lowercase()));
        let (start, mut bytes) = (Instant::now(), 0);
        let mut searched = Searched::default();
        loop {
            page.limit = ASKED_AT_ONCE;
            let room = limit - searched.listed.tasks.len();
            let mut looked = self.look(page.clone(), part.clone(), room).await?;
            if let Some(end) = looked.cut {
                // The page ends amid what the store gave: asked for exactly so much, it says where to go on.
                page.limit = end;
                looked = self.look(page.clone(), part.clone(), room).await?;
            }
            bytes += looked.bytes;
            searched.examined += looked.examined as u64;
            searched.listed.tasks.extend(looked.found);
            searched.listed.next.clone_from(&looked.next);
            searched.listed.missing = looked.missing;
            let is_over = searched.listed.tasks.len() >= limit
                || searched.examined >= EXAMINED as u64
                || bytes >= EXAMINED_BYTES
                || start.elapsed() >= PATIENCE;
            match looked.next {
                Some(next) if !is_over => page.cursor = Some(next),
                _ => return Ok(searched),
            }
        }
    }

    /// One page of the store, off the threads that answer callers: a megabyte takes a millisecond.
    async fn look(&self, page: Page, part: Arc<str>, room: usize) -> Result<Looked, Error> {
        let Listed { tasks, next, missing } = self.list(page).await?;
        let looked = tokio::task::spawn_blocking(move || Looked::at(tasks, next, &part, room)).await;
        Ok(Looked { missing, ..looked.unwrap_or_default() })
    }
}

#[derive(Default)]
struct Looked {
    found: Vec<Task>,
    next: Option<String>,
    /// Shards that did not answer.
    missing: Vec<String>,
    examined: usize,
    bytes: usize,
    /// How many tasks had been looked at when there was no more room, if any were left.
    cut: Option<usize>,
}

impl Looked {
    fn at(tasks: Vec<Task>, next: Option<String>, part: &str, room: usize) -> Looked {
        let (given, mut looked) = (tasks.len(), Looked { next, ..Looked::default() });
        for task in tasks {
            looked.examined += 1;
            looked.bytes += task.body.payload.len();
            if task.body.payload.to_ascii_lowercase().contains(part) {
                looked.found.push(task);
            }
            if looked.found.len() == room {
                looked.cut = (looked.examined < given).then_some(looked.examined);
                break;
            }
        }
        looked
    }
}
