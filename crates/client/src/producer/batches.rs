//! Batches, over HTTP.

use super::Producer;
use crate::Error;
use crate::batch::{Batch, NewBatch};
use crate::http::{parse, segment};
use crate::task::Task;
use reqwest::Method;
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
struct MemberPage {
    #[serde(default)]
    items: Vec<Task>,
    next: Option<String>,
}

impl Producer {
    /// Opens a batch. One with tasks to run afterwards is asked for once: without an answer nobody knows whether
    /// it was made.
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<Batch, Error> {
        if batch.is_safe_to_repeat() {
            return parse(&self.call(Method::POST, "/batches", Some(batch.body()?)).await?);
        }
        let http = self.shared.http.as_ref().map_err(Clone::clone)?;
        parse(&http.post("/batches", batch.body()?, Duration::ZERO).await?.text)
    }

    /// The batch as it is now.
    pub async fn batch(&self, id: &str) -> Result<Batch, Error> {
        parse(&self.call(Method::GET, &path(id, "")?, None).await?)
    }

    /// No task joins any more; the batch ends with its last member.
    pub async fn close_batch(&self, id: &str) -> Result<(), Error> {
        self.call(Method::POST, &path(id, "/close")?, Some("{}".into())).await.map(|_| ())
    }

    /// Cancels all members that live.
    pub async fn cancel_batch(&self, id: &str) -> Result<(), Error> {
        self.call(Method::DELETE, &path(id, "")?, None).await.map(|_| ())
    }

    /// All members that are still kept, in as many requests as it takes.
    pub async fn batch_members(&self, id: &str) -> Result<Vec<Task>, Error> {
        let first = path(id, "/members")?;
        let (mut all, mut asked) = (Vec::new(), first.clone());
        loop {
            let page: MemberPage = parse(&self.call(Method::GET, &asked, None).await?)?;
            all.extend(page.items);
            let Some(next) = page.next else { return Ok(all) };
            asked = format!("{first}?cursor={next}");
        }
    }
}

fn path(id: &str, verb: &str) -> Result<String, Error> {
    Ok(format!("/batches/{}{verb}", segment(id)?))
}
