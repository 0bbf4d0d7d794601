//! Bodies of requests, as every body the server takes.

use codeq_api::admin::{BulkBody, CleanupBody, ExportedTask, PolicyBody, RequeueBody};
use codeq_api::json;
use codeq_api::subscription::{RenewBody, SubscribeBody};
use codeq_api::task::{CreateBatch, CreateBody};
use codeq_api::work::{
    AbandonBody, ClaimBatchBody, ClaimBody, HeartbeatBody, NackBody, SubmitBatch, SubmitBody,
};

pub fn read(input: &[u8]) {
    drop(json::read::<CreateBody>(input));
    drop(json::read::<CreateBatch>(input));
    drop(json::read::<SubmitBody>(input));
    drop(json::read::<SubmitBatch>(input));
    drop(json::read_or_empty::<ClaimBody>(input));
    drop(json::read_or_empty::<ClaimBatchBody>(input));
    drop(json::read_or_empty::<HeartbeatBody>(input));
    drop(json::read_or_empty::<AbandonBody>(input));
    drop(json::read_or_empty::<NackBody>(input));
    drop(json::read::<SubscribeBody>(input));
    drop(json::read_or_empty::<RenewBody>(input));
    drop(json::read::<CleanupBody>(input));
    drop(json::read::<PolicyBody>(input));
    drop(json::read::<BulkBody>(input));
    drop(json::read::<RequeueBody>(input));
    drop(json::read::<ExportedTask>(input));
}
