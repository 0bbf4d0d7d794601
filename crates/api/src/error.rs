//! The body of every error answer.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What every error answer holds.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody<'a> {
    /// For people; stable.
    pub error: Cow<'a, str>,
    /// For programs; stable.
    pub code: Cow<'a, str>,
    /// As in the header `X-Request-Id` and in the server's log.
    #[serde(default)]
    pub request_id: Cow<'a, str>,
    /// Of a rate limit: whose, `producer`, `worker` or `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Cow<'a, str>>,
    /// Of a rate limit: what was asked for too often, such as `claim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Cow<'a, str>>,
    /// Of a rate limit: when to try again, 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The field that a 422 is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Cow<'a, str>>,
}
