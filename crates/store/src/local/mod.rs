//! The embedded store: one directory, one process, nothing to operate.
//!
//! Each shard has one [`owner`](engine::owner) thread that decides, a [`journal`] that is the truth, and [`tables`] behind
//! it for what must outlive memory. The way of a command: [`inbox`](engine::inbox) -> [`owner`](engine::owner) (rules, one journal entry
//! per transition) -> [`commit`](engine::commit) (one sync for all that waits, then the answers) -> [`feeder`](rows::feeder) (rows for
//! the tables, in large batches) -> segments are recycled.

mod directory;
mod engine;
mod format;
pub mod journal;
mod rows;
mod shard;
mod store;
pub mod tables;

pub use directory::backup::{RestoreError, Restored, restore};
pub use directory::files;
pub use directory::open::{Durability, LocalOptions, OpenError, Parts, ShardParts, assemble, open};
pub use directory::verify::{Verified, verify};
pub(crate) use engine::meters::Meter;
pub use engine::meters::{Meters, Reading};
pub use format::entry::sample_cycle;
pub use shard::Limits;
pub use store::LocalStore;
