//! Rows of tables: one of them is changed, and the store is opened on it. Files of tables: bytes are changed.

use codeq_queue::store::{Claim, Nack, Report, Submit, Wait};
use codeq_queue::{Commands, Outcome, Owner, Store};
use codeq_store::local::files::{Files, MemoryFiles};
use codeq_store::local::{self, LocalOptions, Parts};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::forgetful::ForgetfulDisk;
use codeq_store::testing::table_rows::{PARTS_KEY, TableRows};
use std::sync::Arc;
use std::time::Duration;

pub struct Rows(TableRows);

/// What a store leaves on its disk.
pub fn a_life(segment_bytes: u64) -> ForgetfulDisk {
    let disk = ForgetfulDisk::new();
    let options = LocalOptions { segment_bytes, ..LocalOptions::new("/forgetful") };
    let parts = Parts::over(vec![Arc::new(disk.clone())], 1);
    let store = local::assemble(options, parts).expect("an empty disk opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime needs only memory");
    runtime.block_on(work(store));
    disk
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
    let claim = Claim {
        tenant: tenant.clone(),
        commands,
        owner: owner.clone(),
        lease,
        is_default_lease: false,
        count: 4,
        wait: Wait::No,
    };
    for (n, task) in store.claim(claim).await.unwrap_or_default().into_iter().enumerate() {
        let report = Report { tenant: tenant.clone(), id: task.id, owner: owner.clone(), attempt: None };
        match n {
            0 => {
                let outcome = Outcome::completed("{\"ok\":true}");
                drop(store.submit(vec![Submit { report, outcome }]).await);
            }
            1 | 2 => {
                let nack = Nack::new(report, 5, Some("busy".into()));
                drop(store.nack(vec![nack]).await);
            }
            _ => {}
        }
    }
    drop(store.close().await);
}

impl Rows {
    pub fn record() -> Rows {
        let rows = TableRows::read(Arc::new(a_life(64 << 10)), PARTS_KEY);
        assert!(!rows.rows.is_empty(), "the life left something");
        Rows(rows)
    }

    /// The first byte names the row, the rest is its value.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        (0..=u8::MAX).zip(&self.0.rows).map(|(index, row)| [&[index], &*row.2].concat()).collect()
    }

    pub fn read(&self, input: &[u8]) {
        let Some((index, value)) = input.split_first() else { return };
        let mut rows = self.0.clone();
        let changed = usize::from(*index) % rows.rows.len();
        rows.rows[changed].2 = value.to_vec();
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::default());
        rows.write(&files, PARTS_KEY);
        let mut parts = Parts::over(vec![files], 2);
        parts.shards[0].has_journal = false;
        drop(local::assemble(LocalOptions::new("/forgetful"), parts));
    }
}
