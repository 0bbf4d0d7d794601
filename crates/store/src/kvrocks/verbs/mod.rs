//! One file for each verb, or for those of one thing: which scripts run where, and what they answer.

pub(in crate::kvrocks) mod acted;
pub(in crate::kvrocks) mod audit;
pub(in crate::kvrocks) mod awaiting;
pub(in crate::kvrocks) mod batching;
pub(in crate::kvrocks) mod claim;
pub(in crate::kvrocks) mod create;
pub(in crate::kvrocks) mod import;
pub(in crate::kvrocks) mod intake;
pub(in crate::kvrocks) mod list;
pub(in crate::kvrocks) mod notify;
pub(in crate::kvrocks) mod operate;
pub(in crate::kvrocks) mod operations;
pub(in crate::kvrocks) mod outbox;
pub(in crate::kvrocks) mod policies;
pub(in crate::kvrocks) mod rate;
pub(in crate::kvrocks) mod read;
pub(in crate::kvrocks) mod report;
pub(in crate::kvrocks) mod schedules;
pub(in crate::kvrocks) mod scheduling;
pub(in crate::kvrocks) mod shared;
pub(in crate::kvrocks) mod sightings;
pub(in crate::kvrocks) mod subscriptions;
pub(in crate::kvrocks) mod topics;
pub(in crate::kvrocks) mod wishes;
