//! How much room the store has.

use super::call::Call;
use super::error::Error;
use super::reply;
use crate::auth::Admin;
use axum::response::Response;
use codeq_api::admin::{ServerBody, ShardBody, StoreBody};
use codeq_queue::store::ShardView;
use std::path::{Path, PathBuf};

/// Files that are looked at; a store of more shows the size of these.
const FILES: usize = 20_000;

/// The store is everybody's: how large it is, and its disk, is told to operators only.
pub async fn store(call: Call, admin: Admin) -> Result<Response, Error> {
    let provider = call.app.store_provider.into();
    let room = match call.app.data_directory.clone().filter(|_| call.app.gate.operates(&admin.0)) {
        // Looking at a disk can take a while, and nobody else should wait for it.
        Some(path) => tokio::task::spawn_blocking(move || room(&path)).await.ok().flatten(),
        None => None,
    };
    let (data, free, total) =
        room.map_or((None, None, None), |(data, free, total)| (Some(data), Some(free), Some(total)));
    let shards = call.app.broker().map(|broker| broker.shards()).unwrap_or_default();
    let is_operator = call.app.gate.operates(&admin.0);
    let shard = |shard: ShardView| shard_body(shard, is_operator);
    Ok(reply::ok(&StoreBody {
        provider,
        data_bytes: data,
        disk_free_bytes: free,
        disk_total_bytes: total,
        shards: shards.into_iter().map(shard).collect(),
    }))
}

fn shard_body(shard: ShardView, is_operator: bool) -> ShardBody {
    let server = shard.server.map(|server| ServerBody {
        replicas: server.replicas,
        round_trip_ms: (server.round_trip.as_secs_f64() * 1e6).round() / 1000.0,
        queues: server.queues,
        tasks: server.tasks,
    });
    ShardBody {
        name: shard.name,
        up: shard.away.is_none(),
        address: if is_operator { shard.address } else { String::new() },
        reason: shard.away.filter(|_| is_operator),
        server: server.filter(|_| is_operator),
    }
}

/// Bytes of the data, free bytes of its disk, all bytes of its disk.
fn room(path: &Path) -> Option<(u64, u64, u64)> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some((size(path), disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize))
}

fn size(path: &Path) -> u64 {
    let mut bytes = 0;
    let mut left = FILES;
    let mut directories: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(left) {
            left -= 1;
            match entry.metadata() {
                Ok(found) if found.is_dir() => directories.push(entry.path()),
                Ok(found) => bytes += found.len(),
                // Gone between listing and looking.
                Err(_) => {}
            }
        }
    }
    bytes
}
