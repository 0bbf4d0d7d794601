//! Starting what happens because it is time.

use crate::Supervisor;
use crate::kvrocks::store::StoreContext;
use crate::kvrocks::store::options::Timing;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Begins with the clock of the servers, or with the one that is moved by hand, until the store is closed.
pub fn timers(keeper: &Arc<StoreContext>, supervisor: &Arc<Supervisor>) {
    let (sweeping, closing) = (keeper.clone(), keeper.clone());
    match keeper.timing {
        Timing::Running { sweep_interval } => {
            let (timing, looking) = (keeper.clone(), keeper.clone());
            let sweeps: Vec<_> = (0..keeper.keyspaces.len())
                .map(|keyspace| {
                    let sweeping = sweeping.clone();
                    let sweep = move || sweeping.clone().keep_sweeping(keyspace, sweep_interval);
                    supervisor.keep("sweeps", sweep)
                })
                .chain([
                    supervisor.keep("server time", move || timing.clone().keep_time()),
                    supervisor.keep("former places", move || looking.clone().keep_former_places()),
                ])
                .collect();
            tokio::spawn(async move {
                closing.closed().await;
                sweeps.iter().for_each(JoinHandle::abort);
            });
        }
        Timing::Stepped => {
            let (moved, mut moves) = watch::channel(());
            keeper.now.clock().on_jump(Box::new(move || {
                moved.send_replace(());
            }));
            tokio::spawn(async move {
                // The clock keeps the hook and the store keeps the clock: only closing ends this.
                while let Ok(()) = tokio::select! {
                    () = closing.closed() => return,
                    moved = moves.changed() => moved,
                } {
                    let entered = sweeping.enter().await;
                    sweeping.noted_health(0, entered.err());
                    sweeping.teller.claims.ring_all();
                    sweeping.teller.watchers.tell_all();
                }
            });
        }
    }
}
