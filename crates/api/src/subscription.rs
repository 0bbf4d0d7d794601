//! Subscriptions to availability notifications.

use serde::{Deserialize, Serialize};

/// Who wants to be told that commands have work.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct SubscribeBody {
    /// An absolute http or https URL; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The commands, or `*`; those of the token if absent.
    #[serde(default, deserialize_with = "crate::list::kept", skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    /// `fanout`, `broadcast` (the same), `group` or `hash`; `group` if absent and the token has a group, else `fanout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_mode: Option<String>,
    /// Required for `group`; that of the token if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// How long it lives without a renewal; zero, below and absent mean 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    /// The shortest time between two notifications; 0 is none, absent what the server is configured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_interval_seconds: Option<i64>,
}

/// How long a subscription goes on living.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct RenewBody {
    /// From now on; zero, below and absent mean 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
}

/// The answer to a subscription or a renewal.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Subscribed {
    /// What renewals name.
    pub subscription_id: String,
    /// In UTC: it is forgotten then, unless it is renewed.
    pub expires_at: String,
}
