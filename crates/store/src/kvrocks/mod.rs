//! The Kvrocks store: any number of processes over one keyspace of a server that speaks the Redis protocol.
//!
//! Every transition of a task is one Lua script, sent as MULTI, EVALSHA, EXEC in one write: the script makes it isolated,
//! EXEC makes it crash-atomic. Operations that wait at the same time share one EXEC (see [`writer`](redis::writer)); a refused
//! one changes nothing and does not touch the others. Records are JSON text of which scripts change only the
//! head (see [`record`](format::record) and `scripts/record.lua`).
//!
//! Start with [`keys`](format::keys) (what is kept where), then `scripts/`, then [`writer`](redis::writer), then [`store`]. Only
//! [`connection`](redis::connection) names the client library.

mod context;
mod coordination;
mod format;
mod moving;
mod redis;
mod store;
mod timers;
mod verbs;

pub use context::layout::accept;
pub use context::spread::{SPREAD_SHARDS, parse as spread_shard};
pub use moving::moves::ShardMove;
pub use moving::relocate::{Immovable, Places, Relocation};
pub use redis::bare::Bare;
pub use redis::inspect::{CLOCKS_APART, Inspection, inspect, processor_time};
pub use redis::meters::Meters;
pub use store::KvrocksStore;
pub use store::open::open;
pub use store::options::{Backend, KvrocksOptions, SILENCE, Sentinel, Sharding, Timing};
