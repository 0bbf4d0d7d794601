//! The rules of codeQ: what can happen to a task, in which order, and what is refused.
//!
//! Everything here is pure. Time, identity and randomness come in as arguments, nothing here can fail
//! because of the outside world, and nothing here knows how tasks are kept or how they travel.
//!
//! Start with [`task`] (the states and the guards), then [`retry`] (what a failed attempt leads to),
//! then [`store`] (what any storage has to promise).

#![warn(missing_docs)]

pub mod attempt;
pub mod audit;
pub mod batch;
pub mod cause;
pub mod clock;
pub mod create;
pub mod delivery;
pub mod dependency;
pub mod event;
pub mod filter;
pub mod id;
pub mod import;
pub mod lane;
pub mod lease;
pub mod limits;
pub mod operation;
pub mod options;
pub mod order;
pub mod policy;
pub mod queue;
pub mod rate;
pub mod refusal;
pub mod report;
pub mod result;
pub mod retry;
pub mod schedule;
pub mod schema;
pub mod shared;
pub mod store;
pub mod subscription;
pub mod task;
pub mod time;
pub mod topic;

pub use attempt::{Attempt, AttemptOutcome};
pub use audit::{AuditEntry, AuditPage, Audited};
pub use batch::{Batch, Batches};
pub use create::{Delay, NewTask};
pub use delivery::{Delivery, DeliveryState};
pub use dependency::{Held, OnFailure, Standing};
pub use event::{Event, Observer};
pub use filter::{Filter, Listed, Page, Whereabouts};
pub use id::TaskId;
pub use lease::{CancelRequest, Lease, Owner};
pub use operation::{Operation, OperationKind, OperationState};
pub use options::{OnConflict, TaskOptions, UniqueRule, UniqueUntil};
pub use order::{Order, Weights};
pub use policy::{Policies, QueuePolicy, StoredPolicy};
pub use queue::{Commands, QueueKey, QueueStats};
pub use refusal::{Failure, Refusal};
pub use result::{Artifact, FailureReason, Outcome, ResultRecord, Status};
pub use retry::{Backoff, BackoffPolicy};
pub use schedule::{Schedule, Schedules};
pub use schema::PayloadSchema;
pub use shared::Shared;
pub use store::{CatalogueStore, OperatorStore, Store, TaskStore};
pub use task::{Body, Place, State, Task, TaskStatus};
pub use time::Time;
