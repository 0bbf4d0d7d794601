//! Results over HTTP: what is ready together goes as one batch.

use super::link::{ReportAnswer, told};
use crate::http::{Http, parse};
use crate::{Error, limits, refusal};
use codeq_api::task::Results;
use codeq_api::work::SubmittedItem;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// A result as an item of a batch, and who waits for its answer.
struct Waiting {
    text: String,
    answer: oneshot::Sender<Result<ReportAnswer, Error>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    under_way: usize,
}

pub(super) struct ResultBatches {
    http: Http,
    state: Mutex<State>,
}

impl ResultBatches {
    pub fn new(http: Http) -> Arc<ResultBatches> {
        Arc::new(ResultBatches { http, state: Mutex::default() })
    }

    /// Sends the result once, with others if there are any.
    pub async fn send(self: &Arc<Self>, text: String) -> Result<ReportAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        if self.put(Waiting { text, answer }) {
            tokio::spawn(self.clone().drain());
        }
        answered.await.unwrap_or_else(|_| Err(Error::unavailable("the sender is gone")))
    }

    /// Whether it takes another sender.
    fn put(&self, one: Waiting) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(one);
        let is_needed = state.under_way < limits::RESULT_BATCHES;
        state.under_way += usize::from(is_needed);
        is_needed
    }

    async fn drain(self: Arc<Self>) {
        loop {
            // Handlers that end together are reported together.
            tokio::task::yield_now().await;
            let Some(batch) = self.next_batch() else { return };
            self.send_batch(batch).await;
        }
    }

    /// None: nothing waits, and this sender is counted out.
    fn next_batch(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(next) = state.waiting.front()
            && batch.len() < limits::HTTP_BATCH
            && (batch.is_empty() || bytes + next.text.len() <= limits::MESSAGE_BYTES)
        {
            bytes += next.text.len();
            batch.extend(state.waiting.pop_front());
        }
        if batch.is_empty() {
            state.under_way -= 1;
            return None;
        }
        Some(batch)
    }

    async fn send_batch(&self, batch: Vec<Waiting>) {
        let texts: Vec<&str> = batch.iter().map(|one| one.text.as_str()).collect();
        let body = format!(r#"{{"results":[{}]}}"#, texts.join(","));
        let answer = self.http.post("/tasks/batch/results", body, Duration::ZERO).await;
        let items = answer.and_then(|answer| {
            let items: Results<SubmittedItem<'_>> = parse(&answer.text)?;
            let items: Vec<_> = items.results.into_iter().map(answer_of).collect();
            let is_whole = items.len() == batch.len();
            is_whole.then_some(items).ok_or_else(|| Error::unavailable("an answer of another length"))
        });
        match items {
            Ok(items) => batch.into_iter().zip(items).for_each(|(one, item)| {
                let _ = one.answer.send(item);
            }),
            // One of them is to blame, and must not take the others with it.
            Err(Error::Refused { status: 400 | 413 | 422, .. }) if batch.len() > 1 => {
                for one in batch {
                    Box::pin(self.send_batch(vec![one])).await;
                }
            }
            Err(error) => batch.into_iter().for_each(|one| {
                let _ = one.answer.send(told(error.clone()));
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer_of(item: SubmittedItem<'_>) -> Result<ReportAnswer, Error> {
    if item.result.is_some() {
        return Ok(ReportAnswer::Accepted(None));
    }
    let (code, text) = (item.code.unwrap_or_default(), item.error.unwrap_or_default());
    told(refusal::from_code(&code, &text))
}
