//! What verbs share: the shards, and where queues and tasks are.

pub(in crate::kvrocks) mod directory;
pub(in crate::kvrocks) mod former;
pub(in crate::kvrocks) mod found;
pub(in crate::kvrocks) mod known;
pub(in crate::kvrocks) mod layout;
pub(in crate::kvrocks) mod notes;
pub(in crate::kvrocks) mod offset;
pub(in crate::kvrocks) mod shard;
pub(in crate::kvrocks) mod spread;
