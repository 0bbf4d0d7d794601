//! A backup of several shards is one instant: whoever is in it, everyone acknowledged before is in it as well.

use codeq_queue::store::TaskRef;
use codeq_queue::{OperatorStore, Store, TaskId, TaskStore};
use codeq_store::local::{self, LocalOptions, LocalStore};
use codeq_store::testing::exam::request::New;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SHARDS: u32 = 4;
const BACKUPS: usize = 8;

fn open(path: &Path) -> Arc<LocalStore> {
    let options = LocalOptions { shards: SHARDS, segment_bytes: 1 << 20, ..LocalOptions::new(path) };
    local::open(options).expect("the store opens")
}

/// One task after the other, each asked for when the one before it was acknowledged, on all shards in turn.
async fn chain(store: Arc<LocalStore>, is_over: Arc<AtomicBool>) -> Vec<TaskId> {
    let mut made = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let new = New::of(&format!("command-{}", made.len() % 13)).build(&"acme".into());
        made.push(store.create(vec![new]).await.unwrap().remove(0).unwrap().task.id);
    }
    made
}

/// Shards were read one after the other: a backup had a task without those acknowledged before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_several_shards_has_no_task_without_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("data"));
    let is_over = Arc::new(AtomicBool::new(false));
    let chains: Vec<_> = (0..2).map(|_| tokio::spawn(chain(store.clone(), is_over.clone()))).collect();
    let mut backups = Vec::new();
    for _ in 0..BACKUPS {
        let pieces = store.backup().await.unwrap().expect("it can be backed up");
        let bytes: Vec<u8> = pieces.flat_map(|piece| piece.unwrap()).collect();
        backups.push(bytes);
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::Release);
    let mut made = Vec::new();
    for chain in chains {
        made.push(chain.await.unwrap());
    }
    for (number, bytes) in backups.iter().enumerate() {
        let path = directory.path().join(format!("restored-{number}"));
        local::restore(&mut bytes.as_slice(), &path, &mut |_| {}).expect("it is whole");
        let restored = open(&path);
        for chain in &made {
            let named = chain.iter().map(|id| TaskRef { tenant: "acme".into(), id: *id }).collect();
            let found = restored.get(named).await.unwrap();
            let count = found.iter().flatten().count();
            assert!(
                found[..count].iter().all(Option::is_some),
                "backup {number} has holes among {count} tasks"
            );
        }
        restored.close().await.unwrap();
    }
    store.close().await.unwrap();
}
