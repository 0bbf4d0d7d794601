//! The exam, sat by every store of this crate. Another backend adds its constructor to `candidates` and one
//! line here.

use crate::candidates;
use codeq_store::local::Durability;
use codeq_store::testing::model::as_store;

/// Exam and model hold each other honest.
mod model {
    use super::*;
    codeq_store::exam!(as_store::open());
}

mod memory {
    use super::*;
    codeq_store::exam!(candidates::memory(1));
    codeq_store::exam_schedules!(candidates::memory(1));
    codeq_store::exam_policies!(candidates::memory(1));
    codeq_store::exam_batches!(candidates::memory(1));
    codeq_store::exam!(@flow candidates::memory(1));
}

mod local_with_one_shard {
    use super::*;
    codeq_store::exam!(candidates::local(1, Durability::Fsync));
    codeq_store::exam_schedules!(candidates::local(1, Durability::Fsync));
    codeq_store::exam_policies!(candidates::local(1, Durability::Fsync));
    codeq_store::exam_batches!(candidates::local(1, Durability::Fsync));
    codeq_store::exam!(@flow candidates::local(1, Durability::Fsync));
}

/// On a disk that can be crashed.
mod local_on_a_forgetful_disk {
    use super::*;
    codeq_store::exam_batches!(candidates::forgetful());
}

mod local_with_four_shards {
    use super::*;
    codeq_store::exam!(candidates::local(4, Durability::Fsync));
    codeq_store::exam_schedules!(candidates::local(4, Durability::Fsync));
    codeq_store::exam_policies!(candidates::local(4, Durability::Fsync));
    codeq_store::exam_batches!(candidates::local(4, Durability::Fsync));
    codeq_store::exam!(@flow candidates::local(4, Durability::Fsync));
}
