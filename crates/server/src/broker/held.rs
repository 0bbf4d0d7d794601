//! Counting the claims that wait.

use codeq_queue::store::Answer;
use codeq_queue::{Failure, Task};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// A claim that is counted from the moment the store has it and there is nothing for it yet.
pub struct Held {
    claim: Answer<Vec<Task>>,
    held: Arc<AtomicU64>,
    is_counted: bool,
}

impl Held {
    pub fn count(claim: Answer<Vec<Task>>, held: Arc<AtomicU64>) -> Answer<Vec<Task>> {
        Box::pin(Held { claim, held, is_counted: false })
    }
}

impl Future for Held {
    type Output = Result<Vec<Task>, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.claim.as_mut().poll(context);
        if answer.is_pending() && !self.is_counted {
            self.is_counted = true;
            self.held.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_counted {
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
