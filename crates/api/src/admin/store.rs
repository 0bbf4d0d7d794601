//! The store, and the shards of one on several servers.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What the store is and how much room it has; without a disk of its own it tells only what it is.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct StoreBody<'a> {
    /// `embedded`, `kvrocks` or `memory`.
    pub provider: Cow<'a, str>,
    /// What the data directory occupies; told to operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Free bytes of its disk; told to operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// All bytes of its disk; told to operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_total_bytes: Option<u64>,
    /// The shards of a store on several servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardBody>,
}

/// A shard of a store on several servers.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ShardBody {
    /// As the configuration calls it.
    pub name: String,
    /// Its server answers.
    pub up: bool,
    /// Of the master of its server; empty for who is no operator.
    pub address: String,
    /// Why it is not up; told to operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Absent until its server has told something; told to operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerBody>,
}

/// What the server of a shard last told; several shards may live on it.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct ServerBody {
    /// Replicas that are connected to it.
    pub replicas: u64,
    /// How long a question takes to it and back.
    pub round_trip_ms: f64,
    /// Queues that it holds.
    pub queues: u64,
    /// Tasks that it holds.
    pub tasks: u64,
}
