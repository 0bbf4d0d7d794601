//! Bulk operations: work on many tasks that outlives the request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct OperationBody {
    /// 32 hex digits.
    pub id: String,
    /// `cancel`, `requeue` or `delete`.
    pub kind: String,
    /// `running`, `done`, `cancelled` or `failed`.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    pub processed: u64,
    pub failed: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Which tasks it is about, in the words of a filter.
    #[serde(default)]
    pub filter: BTreeMap<String, String>,
    /// What the errors of its tasks have in common, if it is about one cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The subject of the token that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct OperationPage {
    pub items: Vec<OperationBody>,
    pub next: Option<String>,
}
