//! The Kvrocks store: any number of processes over one keyspace of a server that speaks the Redis protocol.
//!
//! Every transition is one Lua script, sent as MULTI, EVALSHA, EXEC in one write: the script makes it isolated,
//! EXEC makes it crash-atomic. Operations that wait at the same time share one EXEC (see [`writer`]); a refused
//! one changes nothing and does not touch the others. Records are JSON text of which scripts change only the
//! head (see [`record`] and `scripts/record.lua`).
//!
//! Start with [`keys`] (what is kept where), then `scripts/`, then [`writer`], then [`store`]. Only
//! [`connection`] names the client library.

mod batch;
mod claim;
mod clock;
mod cluster;
mod connection;
mod create;
mod events;
mod foreign;
mod found;
mod import;
mod keys;
mod known;
mod list;
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
mod reply;
mod report;
mod script;
mod shard;
mod shared;
mod signal;
mod store;
mod subscriptions;
mod sweep;
mod topics;
mod waiting;
mod within;
mod writer;

pub use open::open;
pub use options::{Backend, KvrocksOptions, Sharding, Timing};
pub use relocate::{Immovable, Places, Relocation};
pub use store::KvrocksStore;
