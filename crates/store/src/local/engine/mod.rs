//! The threads of a shard: calls come in, the owner decides, the committer makes it durable and answers.

pub(in crate::local) mod commit;
pub(in crate::local) mod failures;
pub(in crate::local) mod front;
pub(in crate::local) mod handle;
pub(in crate::local) mod inbox;
pub(in crate::local) mod meters;
pub(in crate::local) mod owner;
pub(in crate::local) mod threads;
