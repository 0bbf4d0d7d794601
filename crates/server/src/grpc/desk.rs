//! What a stream has in hand: calls under way, and answers that the transport has not taken yet.

use super::UNANSWERED;
use crate::budget::{Overfull, Share, Weight};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;

/// Calls of the broker under way at once: while one is being made durable, the next ones gather.
const CALLS: usize = 8;
/// Bytes of payloads and results in calls under way, beyond which a stream is not read.
const CALL_BYTES: usize = 32 * 1024 * 1024;

/// An answer, and how many events it settles.
pub type Settled<A> = (A, usize);

struct Call<A> {
    bytes: usize,
    work: Pin<Box<dyn Future<Output = Vec<Settled<A>>> + Send>>,
}

pub struct Desk<A> {
    share: Arc<Share>,
    answers: VecDeque<Settled<A>>,
    calls: Vec<Call<A>>,
    /// Events that are read and whose answers have not been taken.
    unanswered: usize,
    bytes: usize,
    end: Option<Status>,
}

impl<A> Desk<A> {
    pub fn new(share: Arc<Share>) -> Desk<A> {
        Desk { share, answers: VecDeque::new(), calls: Vec::new(), unanswered: 0, bytes: 0, end: None }
    }

    /// Answers one event at once.
    pub fn answer(&mut self, answer: A) {
        self.answer_many(answer, 1);
    }

    pub fn answer_many(&mut self, answer: A, events: usize) {
        self.unanswered += events;
        self.answers.push_back((answer, events));
    }

    /// Answers `events` when `work` is done; `bytes` is what it holds in memory until then.
    pub fn call(
        &mut self,
        events: usize,
        bytes: usize,
        work: impl Future<Output = Vec<Settled<A>>> + Send + 'static,
    ) {
        self.unanswered += events;
        self.bytes += bytes;
        self.share.hold(bytes);
        self.calls.push(Call { bytes, work: Box::pin(work) });
    }

    /// What is kept for this stream beyond its calls.
    pub fn weigh(&self, bytes: usize) -> Result<Weight, Overfull> {
        Weight::of(&self.share, bytes)
    }

    /// How many more events may be read now.
    pub fn room(&self) -> usize {
        match self.calls.len() < CALLS && self.bytes < CALL_BYTES {
            true => UNANSWERED.saturating_sub(self.unanswered),
            false => 0,
        }
    }

    pub fn next_answer(&mut self) -> Option<A> {
        let (answer, events) = self.answers.pop_front()?;
        self.unanswered -= events;
        Some(answer)
    }

    /// Moves on with the calls; whether one of them is done.
    pub fn poll_calls(&mut self, context: &mut Context<'_>) -> bool {
        let before = self.calls.len();
        let mut at = 0;
        while at < self.calls.len() {
            match self.calls[at].work.as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(answers) => {
                    let bytes = self.calls.swap_remove(at).bytes;
                    self.bytes -= bytes;
                    self.share.less(bytes);
                    self.answers.extend(answers);
                }
            }
        }
        self.calls.len() < before
    }

    /// Nothing more is read. The stream ends so when everything in hand is answered; the first reason
    /// counts.
    pub fn finish(&mut self, status: Status) {
        self.end.get_or_insert(status);
    }

    pub fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// How to end, once everything is answered.
    pub fn settled(&mut self) -> Option<Status> {
        match self.calls.is_empty() && self.answers.is_empty() {
            true => self.end.take(),
            false => None,
        }
    }
}

impl<A> Drop for Desk<A> {
    fn drop(&mut self) {
        self.share.less(self.bytes);
    }
}
