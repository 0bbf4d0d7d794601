//! The account of real servers that are killed: producers and workers over HTTP and gRPC work `codeq serve`,
//! which dies by `kill -9` again and again; in the end every task that was acknowledged is looked for.
//!
//! Start with [`campaign`] (what happens in which order), then [`books`] (what is wrong and how it is seen),
//! then [`producer`] and [`worker`] (what clients do), then [`audit`] (the last look at the servers).
//!
//! What a client does and when a process dies is a function of the seed; how they interleave is not.

pub mod account;
pub mod audit;
pub mod books;
pub mod campaign;
mod clients;
mod doors;
mod order;
pub mod power;
mod process;
mod producer;
mod redis;
mod replicated;
mod task_book;
mod worker;

pub use account::Account;
pub use campaign::{Durability, Plan, Storage, campaign};
pub use replicated::Promoter;
