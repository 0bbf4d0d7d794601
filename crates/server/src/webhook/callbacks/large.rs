//! Memory for large bodies that are being sent.

use codeq_queue::Failure;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of large bodies that are being sent, in units.
const UNIT: usize = 1024;
const UNITS: usize = (64 << 20) / UNIT;
/// Bodies that are read, or wait for their room, besides.
const READ_AT_ONCE: usize = 4;

pub struct LargeBodies {
    reading: Semaphore,
    room: Arc<Semaphore>,
}

impl Default for LargeBodies {
    fn default() -> LargeBodies {
        LargeBodies { reading: Semaphore::new(READ_AT_ONCE), room: Arc::new(Semaphore::new(UNITS)) }
    }
}

impl LargeBodies {
    /// Reads a body when it is its turn, and gives it once there is room for it.
    pub async fn read(
        &self,
        body: impl Future<Output = Result<Option<Arc<str>>, Failure>>,
    ) -> Result<Option<(Arc<str>, OwnedSemaphorePermit)>, Failure> {
        let _turn = self.reading.acquire().await.expect("never closed");
        let Some(body) = body.await? else { return Ok(None) };
        let units = u32::try_from((body.len() / UNIT + 1).min(UNITS)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(units).await.expect("never closed");
        Ok(Some((body, room)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: usize) -> impl Future<Output = Result<Option<Arc<str>>, Failure>> {
        std::future::ready(Ok(Some("x".repeat(bytes).into())))
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_until_others_were_sent() {
        let large = LargeBodies::default();
        let half = UNITS * UNIT / 2;
        let first = large.read(body(half)).await.unwrap().unwrap();
        let mut second = Box::pin(large.read(body(half)));
        assert!(futures_util::poll!(&mut second).is_pending(), "both together are a unit too many");
        drop(first);
        let (text, _) = second.await.unwrap().unwrap();
        assert_eq!(text.len(), half);
    }

    #[tokio::test]
    async fn one_that_is_larger_than_all_the_room_is_sent_alone() {
        let large = LargeBodies::default();
        assert!(large.read(body(UNITS * UNIT * 2)).await.unwrap().is_some());
        let gone = large.read(std::future::ready(Ok(None))).await;
        assert!(gone.unwrap().is_none(), "its callback is gone by now");
    }
}
