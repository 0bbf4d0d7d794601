//! The operations of workers on what they were lent, each done to the store and to the model.

use super::driver::{Compared, Driver, same};
use codeq_queue::store::{Abandon, Heartbeat, Nack, Returned, Submit};
use rand::Rng;
use std::time::Duration;

impl Driver {
    fn batch(&mut self) -> usize {
        if self.one_in(4) { self.rng.random_range(2..5) } else { 1 }
    }

    pub(super) async fn submit(&mut self) -> Compared {
        let asked: Vec<Submit> =
            (0..self.batch()).map(|_| Submit { report: self.report(), outcome: self.outcome() }).collect();
        self.doing = format!("{asked:?}");
        let found = self.ask("submit", self.store().submit(asked.clone())).await?;
        let expected: Vec<_> = asked.iter().map(|submit| self.model.submit(submit)).collect();
        same("submit", &found, &expected)
    }

    fn nack_wish(&mut self) -> Nack {
        let delay_seconds = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(-2..40),
            1 => self.rng.random_range(1..5),
            _ => 0,
        };
        let reason = self.pick(&[None, Some(" "), Some("disk full"), Some("é")]).map(str::to_owned);
        let refund = delay_seconds > 0 && self.one_in(3);
        Nack { refund, ..Nack::new(self.report(), delay_seconds, reason) }
    }

    pub(super) async fn nack(&mut self) -> Compared {
        let asked: Vec<Nack> = (0..self.batch()).map(|_| self.nack_wish()).collect();
        self.doing = format!("{asked:?}");
        let found = self.ask("nack", self.store().nack(asked.clone())).await?;
        same("the number of answers", &found.len(), &asked.len())?;
        for (nack, found) in asked.iter().zip(found) {
            let seen = match found {
                Ok(Returned::Requeued { delay_seconds }) => Some(delay_seconds),
                _ => None,
            };
            let expected = self.model.nack(nack, &mut |_, low, high| match seen {
                Some(seconds) if (low..=high).contains(&seconds) => seconds,
                _ => high,
            });
            same("nack", &found, &expected)?;
        }
        Ok(())
    }

    pub(super) async fn abandon(&mut self) -> Compared {
        let asked: Vec<Abandon> =
            (0..self.batch()).map(|_| Abandon::new(self.report(), self.one_in(3))).collect();
        self.doing = format!("{asked:?}");
        let found = self.ask("abandon", self.store().abandon(asked.clone())).await?;
        let expected: Vec<_> = asked.iter().map(|abandon| self.model.abandon(abandon)).collect();
        same("abandon", &found, &expected)
    }

    pub(super) async fn heartbeat(&mut self) -> Compared {
        let asked: Vec<Heartbeat> = (0..self.batch())
            .map(|_| {
                let extend = Duration::from_secs(self.rng.random_range(1..200));
                Heartbeat::new(self.report(), extend)
            })
            .collect();
        self.doing = format!("{asked:?}");
        let found = self.ask("heartbeat", self.store().heartbeat(asked.clone())).await?;
        let expected: Vec<_> = asked.iter().map(|beat| self.model.heartbeat(beat)).collect();
        same("heartbeat", &found, &expected)
    }
}
