//! The Kvrocks store against real servers.

mod away;
mod batches;
mod capabilities;
mod cluster;
mod costs;
mod cuts;
mod double;
mod faults;
mod floods;
mod flow;
pub mod ground;
mod instances;
mod isolation;
mod layout;
mod limits;
mod linked;
mod migration;
mod moving;
mod partial;
mod pool;
mod proxy;
mod relocation;
mod replicas;
mod round_trips;
mod sentinels;
mod server;
mod sharing;
mod skew;
mod spreading;
mod stale;
mod ticks;
mod timers;
mod types;
mod verbs;

mod exam_standalone {
    use super::ground;
    codeq_store::exam!(ground::standalone());
    codeq_store::exam!(@flow ground::standalone());
    codeq_store::exam_schedules!(ground::standalone());
    codeq_store::exam_batches!(ground::standalone());
    codeq_store::exam_policies!(ground::standalone());
}

/// Every queue on one of 64 shards of one server.
mod exam_spread {
    use super::ground;
    codeq_store::exam!(@flow ground::spread());
    codeq_store::exam_schedules!(ground::spread());
    codeq_store::exam_batches!(ground::spread());
    codeq_store::exam_policies!(ground::spread());
}

/// Each candidate is a shard of its own, on whichever of the three servers its slot lives.
mod exam_in_a_cluster {
    use super::cluster;
    codeq_store::exam!(cluster::candidates());
    codeq_store::exam!(@flow cluster::candidates());
    codeq_store::exam_schedules!(cluster::candidates());
    codeq_store::exam_batches!(cluster::candidates());
    codeq_store::exam_policies!(cluster::candidates());
}

/// Queues of several shards of a cluster: nothing that a task waits for need be in its own slot.
mod exam_across_a_cluster {
    use super::cluster;
    codeq_store::exam_batches!(cluster::across());
}

mod model {
    use super::ground;
    use codeq_store::testing::model::{rules_for, run, run_from_environment};

    /// Every operation is some round trips to a server that syncs: fewer of them than for the others.
    #[tokio::test]
    async fn the_kvrocks_store_does_what_the_model_does() {
        if std::env::var_os("CODEQ_MODEL_OPS").is_some() {
            return run_from_environment(ground::standalone()).await;
        }
        for seed in 1..=10 {
            run(ground::standalone()(rules_for(seed)), seed, 400).await;
        }
    }
}
