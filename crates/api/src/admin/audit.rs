//! What operators did.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What an operator did.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditBody<'a> {
    /// When the server got the request.
    pub at: String,
    /// The subject of the token.
    pub who: Cow<'a, str>,
    /// Whose tasks or queues; `*` is every tenant.
    pub tenant: Cow<'a, str>,
    /// What was done, such as `pause`.
    pub verb: Cow<'a, str>,
    /// What it was done to.
    pub target: Cow<'a, str>,
    /// How many were touched, or matched by a bulk operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The `X-Request-Id` of the request.
    pub request_id: Cow<'a, str>,
}

/// One page of what operators did.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct AuditListBody<'a> {
    /// The newest first.
    pub items: Vec<AuditBody<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}
