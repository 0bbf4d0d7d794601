//! Spans around the verbs of workers. A report names its task by id only, so the trace it belongs to is
//! remembered from the claim, or looked up.

use super::work::{ReportRequest, SubmitRequest};
use super::{Broker, Error};
use crate::telemetry::traces::task::{Reported, Verb, origin};
use codeq_queue::store::TaskRef;
use codeq_queue::{Refusal, Task, TaskId};
use std::sync::Arc;
use std::time::SystemTime;

/// The reports of a call that may need spans, and when it began.
pub struct Noted {
    started: Option<SystemTime>,
    reports: Vec<Reported>,
}

impl Broker {
    pub(super) fn note<R>(&self, reports: &[R], read: impl Fn(&R) -> (&ReportRequest, Verb)) -> Noted {
        let noted = self.traces.reporting(reports, |given| {
            let (report, verb) = read(given);
            Some((TaskId::parse(&report.id)?, report.owner.clone(), verb))
        });
        Noted { started: self.traces.now(), reports: noted }
    }

    pub(super) fn note_submits(&self, submits: &[Result<SubmitRequest, Refusal>]) -> Noted {
        let noted = self.traces.reporting(submits, |submit| {
            let submit = submit.as_ref().ok()?;
            let verb = Verb::Submit { status: submit.status.clone() };
            Some((TaskId::parse(&submit.report.id)?, submit.report.owner.clone(), verb))
        });
        Noted { started: self.traces.now(), reports: noted }
    }

    /// Makes a span of each report, now that it is answered.
    pub(super) async fn tell<T>(&self, noted: Noted, tenant: &Arc<str>, answers: &[Result<T, Error>]) {
        let Noted { started: Some(started), mut reports } = noted else { return };
        let unknown: Vec<TaskId> =
            reports.iter().filter(|report| report.origin.is_none()).map(|report| report.id).collect();
        if !unknown.is_empty() {
            let mut found = self.find(tenant, unknown).await.into_iter();
            for report in reports.iter_mut().filter(|report| report.origin.is_none()) {
                report.origin = found.next().flatten().map(|task| Arc::new(origin(&task)));
            }
        }
        for report in &reports {
            let error = answers.get(report.place).and_then(|answer| answer.as_ref().err());
            self.traces.reported(report, tenant, started, error);
        }
    }

    /// Tasks by id, in order; none where the store cannot say.
    pub(crate) async fn find(&self, tenant: &Arc<str>, ids: Vec<TaskId>) -> Vec<Option<Task>> {
        let named = ids.into_iter().map(|id| TaskRef { tenant: tenant.clone(), id });
        self.store.get(named.collect()).await.unwrap_or_default()
    }
}
