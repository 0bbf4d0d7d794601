//! The body of every error answer.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody<'a> {
    /// For people; stable.
    pub error: Cow<'a, str>,
    /// For programs; stable.
    pub code: Cow<'a, str>,
    #[serde(default)]
    pub request_id: Cow<'a, str>,
    /// Of a rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The field that a 422 is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Cow<'a, str>>,
}
