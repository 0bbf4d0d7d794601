//! The embedded store: one directory, one process, nothing to operate.
//!
//! Each shard has one [`owner`] thread that decides, a [`journal`] that is the truth, and [`tables`] behind
//! it for what must outlive memory. The way of a command: [`inbox`] -> [`owner`] (rules, one journal entry
//! per transition) -> [`commit`] (one sync for all that waits, then the answers) -> [`feeder`] (rows for
//! the tables, in large batches) -> segments are recycled.

mod audit;
mod backup;
mod batches;
mod batching;
mod by_id;
mod catalogue;
mod change;
mod codec;
mod commit;
mod entry;
mod feeder;
pub mod files;
mod folding;
mod front;
mod handle;
mod ids;
mod imports;
mod inbox;
pub mod journal;
mod library;
mod listing;
mod load;
mod lookups;
mod manifest;
mod meters;
mod open;
mod operations;
mod options;
mod owner;
mod parted;
mod parts;
mod policies;
mod readers;
mod records;
mod routes;
mod schedules;
mod scheduling;
mod shard;
mod slots;
mod store;
pub mod tables;
mod threads;
mod upgrade;
mod verify;

pub use backup::{RestoreError, Restored, restore};
pub use entry::sample_cycle;
pub(crate) use meters::Meter;
pub use meters::{Meters, Reading};
pub use open::{Durability, LocalOptions, OpenError, Parts, ShardParts, assemble, open};
pub use shard::Limits;
pub use store::LocalStore;
pub use verify::{Verified, verify};
