//! Following who works: what the verbs of workers tell the list of workers.

use super::work::{ClaimRequest, ReportRequest};
use super::{Broker, Error};
use crate::workers::{Claimed, Protocol, Sighting, WORKERS, others};
use codeq_queue::{Owner, Refusal, Task, TaskId};
use std::sync::Arc;
use std::time::Duration;

/// Tasks of a worker that are shown.
const SHOWN: usize = 20;
/// How long the list waits for what other processes have kept.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whose reports a call holds, and about what. One caller sends them all.
pub struct Sighted {
    by: Option<(Arc<Owner>, Protocol)>,
    ids: Vec<Option<TaskId>>,
}

impl Sighted {
    pub fn of<'a>(reports: impl Iterator<Item = &'a ReportRequest>) -> Sighted {
        Sighted::of_some(reports.map(Some))
    }

    /// None for an item that cannot be understood.
    pub fn of_some<'a>(reports: impl Iterator<Item = Option<&'a ReportRequest>>) -> Sighted {
        let (mut by, mut ids) = (None, Vec::new());
        for report in reports {
            if let Some(report) = report {
                by.get_or_insert_with(|| (report.owner.clone(), report.protocol));
            }
            ids.push(report.and_then(|report| TaskId::parse(&report.id)));
        }
        Sighted { by, ids }
    }
}

/// Whether the attempt is over, as far as its worker is concerned.
fn is_over<T>(answer: &Result<T, Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(Error::Refused(refusal)) => matches!(
            refusal,
            Refusal::NotFound
                | Refusal::Cancelled
                | Refusal::LeaseLost
                | Refusal::NotInProgress
                | Refusal::NotOwner
        ),
        Err(_) => false,
    }
}

impl Broker {
    /// Workers that claimed or reported lately, of one tenant or of all, through whichever process. Those of other processes
    /// are left out if they cannot be read in time.
    pub async fn workers(&self, tenant: Option<&str>) -> Vec<Sighting> {
        let now = self.now();
        let own = self.workers.list(tenant, SHOWN, now);
        let Some(shared) = self.shared() else { return own };
        let kept = match tokio::time::timeout(PATIENCE, shared.sightings()).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(failure)) => {
                tracing::debug!(err = %failure, "workers of other processes were not read");
                return own;
            }
            Err(_) => return own,
        };
        let elsewhere = kept.iter().flat_map(|text| others::read(text, tenant, now));
        others::merge(own.into_iter().chain(elsewhere), SHOWN, WORKERS)
    }

    /// Tells the other processes over the same store who works here, for ever.
    pub async fn keep_telling_workers(self: Arc<Self>) {
        let Some(shared) = self.shared() else { return };
        let mut known = 0;
        loop {
            tokio::time::sleep(others::pause(known)).await;
            let (now, before) = (self.now(), known);
            let seen = self.workers.list(None, SHOWN, now);
            known = seen.len();
            // Once more when the last of them is gone.
            if (known > 0 || before > 0)
                && let Err(failure) = shared.keep_sightings(others::write(&seen, now)).await
            {
                tracing::debug!(err = %failure, "workers were not told to other processes");
            }
        }
    }

    pub(super) fn sight(&self, tenant: &Arc<str>, owner: &Arc<Owner>, request: &ClaimRequest) {
        let commands = request.commands.as_deref().unwrap_or_default();
        let (protocol, info) = (request.protocol, request.info.as_deref());
        self.workers.claims(&Claimed { tenant, owner, protocol, commands, info }, self.now());
    }

    pub(super) fn lend(&self, by: (&Arc<str>, &Arc<Owner>, Protocol), tasks: &[Task], lease: Duration) {
        if !tasks.is_empty() {
            let now = self.now();
            self.workers.holds(by, tasks.iter().map(|task| task.id), now.plus(lease), now);
        }
    }

    pub(super) fn unlend(&self, by: (&Arc<str>, &Arc<Owner>, Protocol), tasks: &[Task]) {
        self.workers.drops(by, tasks.iter().map(|task| task.id), self.now());
    }

    /// Heartbeats were answered.
    pub(super) fn kept<T>(
        &self,
        sighted: Sighted,
        tenant: &Arc<str>,
        answers: &[Result<T, Error>],
        lease: Duration,
    ) {
        let Some((owner, protocol)) = sighted.by else { return };
        let by = (tenant, &owner, protocol);
        let now = self.now();
        let answered = || sighted.ids.iter().zip(answers);
        let kept = answered().filter(|(_, answer)| answer.is_ok()).filter_map(|(id, _)| *id);
        self.workers.holds(by, kept, now.plus(lease), now);
        let lost = answered().filter(|(_, answer)| answer.is_err() && is_over(answer));
        self.workers.drops(by, lost.filter_map(|(id, _)| *id), now);
    }

    /// Reports that end attempts were answered.
    pub(super) fn ended<T>(&self, sighted: Sighted, tenant: &Arc<str>, answers: &[Result<T, Error>]) {
        let Some((owner, protocol)) = sighted.by else { return };
        let over = sighted.ids.iter().zip(answers).filter(|(_, answer)| is_over(answer));
        self.workers.drops((tenant, &owner, protocol), over.filter_map(|(id, _)| *id), self.now());
    }
}
