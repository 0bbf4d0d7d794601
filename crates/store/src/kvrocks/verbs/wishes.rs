//! Claims that are served together, over several places.

use codeq_queue::store::Claim;
use codeq_queue::{Failure, Task};

/// What each of several claims was lent.
pub type Shares = Vec<Vec<Task>>;

/// Several claims on their way over the places where tasks may be.
pub struct Wishes {
    counts: Vec<usize>,
    shares: Shares,
    /// Whether any place has answered, and why one did not.
    has_answer: bool,
    failure: Option<Failure>,
}

impl Wishes {
    pub fn of(claims: &[Claim]) -> Wishes {
        let shares = claims.iter().map(|_| Vec::new()).collect();
        Wishes {
            counts: claims.iter().map(|claim| claim.count).collect(),
            shares,
            has_answer: false,
            failure: None,
        }
    }

    pub fn left(&self) -> impl Iterator<Item = usize> {
        self.counts.iter().zip(&self.shares).map(|(count, share)| count.saturating_sub(share.len()))
    }

    pub fn are_met(&self) -> bool {
        self.left().all(|count| count == 0)
    }

    pub fn answered(&mut self) {
        self.has_answer = true;
    }

    /// A place that does not answer is passed over.
    pub fn take(&mut self, answer: Result<Shares, Failure>) {
        match answer {
            Ok(more) => {
                self.has_answer = true;
                for (share, more) in self.shares.iter_mut().zip(more) {
                    share.extend(more);
                }
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Fails only if no place has answered.
    pub fn granted(self) -> Result<Shares, Failure> {
        match self.failure {
            Some(failure) if !self.has_answer => Err(failure),
            Some(failure @ (Failure::Internal(_) | Failure::Closed))
                if self.shares.iter().all(Vec::is_empty) =>
            {
                Err(failure)
            }
            _ => Ok(self.shares),
        }
    }
}
