//! Asking several servers at once without waiting for the slowest for long.

use codeq_queue::Failure;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::{Duration, Instant};

/// How long a server is waited for when the others have answered, or three times as long as they took: then
/// everything is slow, not one of them.
const BEYOND_OTHERS: Duration = Duration::from_millis(250);
const TIMES_OTHERS: u32 = 3;

/// Asks all of them. Who takes much longer than the others counts as unavailable. Answers in the order of the questions.
pub async fn ask_all<T>(
    asked: impl IntoIterator<Item = impl Future<Output = Result<T, Failure>>>,
) -> Vec<Result<T, Failure>> {
    let begun = Instant::now();
    let mut asked: FuturesUnordered<_> =
        asked.into_iter().enumerate().map(|(at, asked)| async move { (at, asked.await) }).collect();
    let mut answers: Vec<Option<Result<T, Failure>>> = (0..asked.len()).map(|_| None).collect();
    // From the first good answer on; that of a server that is away says nothing about the others.
    let mut patience = None;
    loop {
        let next = match patience {
            None => asked.next().await,
            Some(patience) => tokio::time::timeout(patience, asked.next()).await.unwrap_or(None),
        };
        let Some((at, answer)) = next else { break };
        if answer.is_ok() {
            patience = Some(BEYOND_OTHERS.max(begun.elapsed() * TIMES_OTHERS));
        }
        answers[at] = Some(answer);
    }
    let slow = || Err(Failure::unavailable("a server of the store is slower than the others"));
    answers.into_iter().map(|answer| answer.unwrap_or_else(slow)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Asked = std::pin::Pin<Box<dyn Future<Output = Result<u64, Failure>>>>;

    fn at_once(answer: Result<u64, Failure>) -> Asked {
        Box::pin(std::future::ready(answer))
    }

    #[tokio::test]
    async fn one_that_is_slow_is_not_waited_for() {
        let never: Asked = Box::pin(std::future::pending());
        let answers = ask_all([never, at_once(Ok(2)), at_once(Ok(3))]).await;
        assert!(answers[0].is_err());
        assert_eq!((answers[1].clone().ok(), answers[2].clone().ok()), (Some(2), Some(3)));
    }

    #[tokio::test]
    async fn while_nobody_has_answered_everybody_is_waited_for() {
        let late: Asked = Box::pin(async {
            tokio::time::sleep(BEYOND_OTHERS * 2).await;
            Ok(1)
        });
        let answers = ask_all([late, at_once(Err(Failure::unavailable("away")))]).await;
        assert!(answers[0].is_ok() && answers[1].is_err());
        assert!(ask_all(Vec::<Asked>::new()).await.is_empty());
    }
}
