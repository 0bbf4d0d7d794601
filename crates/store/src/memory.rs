//! The memory store: the same owner without a journal. It obeys every rule but one: nothing outlives the
//! process.

use crate::clock::Clock;
use crate::local::{self, Durability, Parts};
use crate::rules::Rules;
use codeq_queue::{Observer, Store};
use std::sync::Arc;

pub struct MemoryOptions {
    pub rules: Rules,
    pub shards: u32,
    pub clock: Arc<dyn Clock>,
    pub observer: Option<Observer>,
}

pub fn open(options: MemoryOptions) -> std::io::Result<Arc<dyn Store>> {
    tracing::warn!("memory store: data is lost on exit");
    let parts = Parts::in_memory(options.shards);
    let local = local::LocalOptions {
        rules: options.rules,
        shards: options.shards,
        clock: options.clock,
        durability: Durability::Os,
        observer: options.observer,
        ..local::LocalOptions::new("")
    };
    let store = local::assemble(local, parts).map_err(std::io::Error::other)?;
    Ok(store)
}
