//! The Kvrocks store: any number of processes over one keyspace of a server that speaks the Redis protocol.
//!
//! Every transition of a task is one Lua script, sent as MULTI, EVALSHA, EXEC in one write: the script makes it isolated,
//! EXEC makes it crash-atomic. Operations that wait at the same time share one EXEC (see [`writer`]); a refused
//! one changes nothing and does not touch the others. Records are JSON text of which scripts change only the
//! head (see [`record`] and `scripts/record.lua`).
//!
//! Start with [`keys`] (what is kept where), then `scripts/`, then [`writer`], then [`store`]. Only
//! [`connection`] names the client library.

mod acted;
mod asked;
mod audit;
mod bare;
mod batch;
mod claim;
mod clock;
mod cluster;
mod connection;
mod create;
mod directory;
mod events;
mod foreign;
mod former;
mod found;
mod gate;
mod glance;
mod import;
mod inspect;
mod keys;
mod known;
mod layout;
mod list;
mod master;
mod meters;
mod migrate;
mod notes;
mod notify;
mod open;
mod operate;
mod operations;
mod options;
mod outbox;
mod outcome;
mod presence;
mod rate;
mod read;
mod record;
mod relocate;
mod replication;
mod reply;
mod report;
mod schedules;
mod scheduling;
mod script;
mod shard;
mod shared;
mod signal;
mod spread;
mod store;
mod subscriptions;
mod sweep;
mod ticking;
mod topics;
mod waiting;
mod within;
mod writer;

pub use bare::Bare;
pub use inspect::{CLOCKS_APART, Inspection, inspect, processor_time};
pub use layout::accept;
pub use meters::Meters;
pub use open::open;
pub use options::{Backend, KvrocksOptions, Sentinel, Sharding, Timing};
pub use relocate::{Immovable, Places, Relocation};
pub use store::KvrocksStore;
