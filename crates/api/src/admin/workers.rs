//! Who works.

use crate::work::WorkerInfo;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A worker that claimed or reported lately.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBody<'a> {
    /// The worker id of its leases.
    pub worker: Cow<'a, str>,
    /// The subject of its token.
    pub sub: Cow<'a, str>,
    /// Whose tasks it works on.
    pub tenant_id: Cow<'a, str>,
    /// `http` or `grpc`.
    pub protocol: Cow<'a, str>,
    /// As it last asked for them; none is whatever its token allows.
    pub commands: Vec<Cow<'a, str>>,
    /// What it told of itself.
    #[serde(flatten)]
    pub info: WorkerInfo,
    /// Ids of tasks that it runs, at most 20.
    pub running: Vec<String>,
    /// How many tasks it runs.
    pub running_count: u64,
    /// When it last claimed or reported.
    pub last_seen_at: String,
}

/// The answer to `GET /admin/workers`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct WorkersBody<'a> {
    /// Whoever claimed or reported in the last 5 minutes; at most 10,000.
    pub items: Vec<WorkerBody<'a>>,
}
