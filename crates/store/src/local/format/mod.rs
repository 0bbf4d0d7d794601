//! Bytes only: ids, entries of the journal, rows of tables.

pub(in crate::local) mod audit;
pub(in crate::local) mod batches;
pub(in crate::local) mod catalogue;
pub(in crate::local) mod codec;
pub(in crate::local) mod entry;
pub(in crate::local) mod ids;
pub(in crate::local) mod lost;
pub(in crate::local) mod operations;
pub(in crate::local) mod parts;
pub(in crate::local) mod policies;
pub(in crate::local) mod records;
pub(in crate::local) mod schedules;
