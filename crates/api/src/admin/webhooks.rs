//! Result callbacks: which there are, and sending failed ones again.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A result callback in the outbox.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBody<'a> {
    /// 32 hex digits.
    pub id: String,
    /// The task whose end it tells.
    pub task_id: String,
    /// The webhook of the task.
    pub url: Cow<'a, str>,
    /// `pending`, `failed` or `delivered`.
    pub state: Cow<'a, str>,
    /// Attempts to send it since the task ended or it was redelivered.
    pub attempts: u32,
    /// While it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Cow<'a, str>>,
    /// When the task ended.
    pub created_at: String,
    /// Only if it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<String>,
    /// What the receiver answered last, as far as the process remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// The first bytes of that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
}

/// Which failed callbacks to deliver again.
#[derive(Deserialize, Default, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct RedeliverBody {
    /// Those of this task; absent: all of the tenant.
    pub task_id: Option<String>,
}

/// What a call for several redeliveries did.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RedeliveredBody {
    /// Callbacks that are due again.
    pub redelivered: u64,
    /// There may be more that failed: call again.
    pub has_more: bool,
}

/// One page of result callbacks.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct DeliveryPage<'a> {
    /// In the order of their ids.
    pub items: Vec<DeliveryBody<'a>>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}
