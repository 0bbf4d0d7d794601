//! Tests without a server, and tests with one.
//!
//! [`InlineQueue`] runs the handlers of a worker in this process. [`DevServer`] starts `codeq dev` on a free port; its
//! clock can be moved.

mod inline;
mod server;

pub use inline::{InlineQueue, InlineTask};
pub use server::DevServer;
