//! Claims for held Readys: again and again until the store says something.

use crate::auth::Caller;
use crate::broker::{Broker, ClaimRequest, Error, Lent};
use codeq_queue::{Owner, Refusal};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long to leave a store alone that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// For whom, and what: perhaps nothing, if it did not wait.
pub type Claimed = (Vec<u64>, Result<Lent, Refusal>);
pub type Claiming = Pin<Box<dyn Future<Output = Claimed> + Send>>;

/// Who claims.
#[derive(Clone)]
pub struct Claimer {
    pub broker: Arc<Broker>,
    pub caller: Arc<Caller>,
    pub owner: Arc<Owner>,
}

impl Claimer {
    /// A claim that ends with tasks or a refusal, or with nothing if it does not wait. A store that fails,
    /// or closes, is asked again.
    pub fn claim(&self, arrivals: Vec<u64>, request: ClaimRequest) -> Claiming {
        let claimer = self.clone();
        Box::pin(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                let claimed =
                    claimer.broker.claim(&claimer.caller, claimer.owner.clone(), request.clone()).await;
                match claimed {
                    Ok(lent) if !lent.tasks().is_empty() || request.wait.is_zero() => {
                        return (arrivals, Ok(lent));
                    }
                    // It stays held, only nobody is told of it before another of the tenant is served.
                    Err(Error::Refused(Refusal::TooManyWaiting(_) | Refusal::TooManyQueueWaits(_))) => {}
                    Err(Error::Refused(refusal)) => return (arrivals, Err(refusal)),
                    Ok(_) => {}
                    Err(failed) => tracing::debug!(err = %failed, "a held Ready tries again"),
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
    }
}
