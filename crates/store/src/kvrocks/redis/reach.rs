//! Connecting to all servers, a few at a time: in a cluster each of 64 shards has connections of its own, and one after the
//! other they would take as many round trips.

use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::redis::connection::{Connection, Target};
use crate::kvrocks::redis::gate::Gate;
use crate::kvrocks::redis::inspect::{check, needs_full_coverage};
use crate::kvrocks::redis::script::Names;
use futures_util::{StreamExt, stream};
use std::sync::Arc;

/// Connections to one server for reading.
const MOST_READING: u32 = 1000;
/// Servers, or shards of a cluster, that are connected to at once.
const REACHED_TOGETHER: usize = 8;

/// A server and what is needed to use it, or why it cannot be used.
pub struct Reached {
    /// Of the first of its shards.
    pub name: String,
    pub target: Target,
    pub gate: Arc<Gate>,
    /// For writes, and for reads.
    pub lines: (Arc<Connection>, Arc<Connection>),
    pub scripts: Result<Names, String>,
}

/// In the order of the servers. Each is told by the first of its shards.
pub async fn reach_all(servers: Vec<(String, Target, Keys)>) -> Vec<Reached> {
    let reached: Vec<Reached> =
        stream::iter(servers.into_iter().map(reach)).buffered(REACHED_TOGETHER).collect().await;
    if let Some(first) = reached.iter().find(|reached| reached.scripts.is_ok())
        && needs_full_coverage(&first.lines.1).await
    {
        tracing::warn!(
            "with cluster-require-full-coverage yes every server of the cluster refuses while one is away; set it to no"
        );
    }
    reached
}

async fn reach((name, target, keys): (String, Target, Keys)) -> Reached {
    let gate = Arc::<Gate>::default();
    let (writes, reads) = (line(target.clone(), gate.clone()), reading_lines(target.clone(), gate.clone()));
    let scripts = prepare(&reads, &writes, &keys).await;
    Reached { name, target, gate, lines: (writes, reads), scripts }
}

async fn prepare(reads: &Connection, writes: &Connection, keys: &Keys) -> Result<Names, String> {
    check(reads, keys).await?;
    Names::load(writes).await.map_err(|trouble| trouble.text().to_owned())
}

/// One connection.
pub fn line(target: Target, gate: Arc<Gate>) -> Arc<Connection> {
    Arc::new(Connection::new(target, gate))
}

/// What the pool has besides the connection for writes, and at least one.
fn reading_lines(target: Target, gate: Arc<Gate>) -> Arc<Connection> {
    let size = target.backend.pool_size.saturating_sub(1).clamp(1, MOST_READING);
    Arc::new(Connection::pooled(target, gate, usize::try_from(size).unwrap_or(1)))
}
