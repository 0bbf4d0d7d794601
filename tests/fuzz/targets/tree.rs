//! Rows of a tree: one of them is changed, and the store is opened on it.

use codeq_queue::store::{Claim, Nack, Report, Submit, Wait};
use codeq_queue::{Commands, Outcome, Owner, Store};
use codeq_store::local::tree::{Batch, Change, Space, Tree};
use codeq_store::local::{self, LocalOptions, Parts, ShardParts};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::forgetful::ForgetfulDisk;
use codeq_store::testing::lossy::LossyTree;
use std::sync::Arc;
use std::time::Duration;

type Row = (Space, Vec<u8>, Vec<u8>);

pub struct Rows(Vec<Row>);

/// What a store leaves on its disk and in its tree.
pub fn a_life(segment_bytes: u64) -> (ForgetfulDisk, LossyTree) {
    let (disk, tree) = (ForgetfulDisk::new(), LossyTree::new());
    let part = ShardParts { files: Some(Arc::new(disk.clone())), tree: Arc::new(tree.clone()) };
    let options = LocalOptions { segment_bytes, ..LocalOptions::new("/forgetful") };
    let store = local::assemble(options, Parts::doubles(vec![part], 1)).expect("an empty disk opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime needs only memory");
    runtime.block_on(work(store));
    (disk, tree)
}

/// Tasks in every state.
async fn work(store: Arc<dyn Store>) {
    let tenant: Arc<str> = "acme".into();
    let owner = Arc::new(Owner::new("subject", "worker"));
    let new = |n: u32| {
        let new = New::of("render").key(&format!("key-{n}")).webhook("https://example.org/").header("a", "b");
        let new = if n == 0 { new.delayed_ms(3_600_000) } else { new };
        new.max_attempts(1 + n % 2).build(&tenant)
    };
    drop(store.create((0..8).map(new).collect()).await);
    let (commands, lease) = (Commands::Any, Duration::from_secs(600));
    let claim =
        Claim { tenant: tenant.clone(), commands, owner: owner.clone(), lease, count: 4, wait: Wait::No };
    for (n, task) in store.claim(claim).await.unwrap_or_default().into_iter().enumerate() {
        let report = Report { tenant: tenant.clone(), id: task.id, owner: owner.clone(), attempt: None };
        match n {
            0 => {
                let outcome = Outcome::completed("{\"ok\":true}");
                drop(store.submit(vec![Submit { report, outcome }]).await);
            }
            1 | 2 => {
                let nack = Nack { report, delay_seconds: 5, reason: Some("busy".into()) };
                drop(store.nack(vec![nack]).await);
            }
            _ => {}
        }
    }
    drop(store.close().await);
}

impl Rows {
    pub fn record() -> Rows {
        let (_, tree) = a_life(64 << 10);
        let mut rows = Vec::new();
        for (space, _) in tree.check().expect("the tree is in memory") {
            let mut add = |key: &[u8], value: &[u8]| {
                rows.push((space, key.to_vec(), value.to_vec()));
                true
            };
            tree.scan(space, &[], None, &mut add).expect("the tree is in memory");
        }
        assert!(!rows.is_empty(), "the life left something");
        Rows(rows)
    }

    /// The first byte names the row, the rest is its value.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let input = |(index, row): (u8, &Row)| [&[index], &*row.2].concat();
        (0..=u8::MAX).zip(&self.0).map(input).collect()
    }

    pub fn read(&self, input: &[u8]) {
        let Some((index, value)) = input.split_first() else { return };
        let changed = usize::from(*index) % self.0.len();
        let row = |(index, (space, key, old)): (usize, &Row)| {
            let value = if index == changed { value } else { old };
            Change { space: *space, key: key.as_slice().into(), value: Some(value.into()) }
        };
        let tree = LossyTree::new();
        let changes = self.0.iter().enumerate().map(row).collect();
        tree.commit(Batch { changes, applied: 1 }, &|| ()).expect("the tree is in memory");
        let part = ShardParts { files: None, tree: Arc::new(tree) };
        drop(local::assemble(LocalOptions::new("/forgetful"), Parts::doubles(vec![part], 2)));
    }
}
