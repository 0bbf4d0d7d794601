//! The client side: where the server is, who we are, and one request with its answer.

mod advice;
mod api;
mod connection;
mod pages;
pub mod profile;

pub use advice::{MissingFlag, NO_PAYLOAD, Refused, advice, words};
pub use api::{Api, answer, encoded, http_client, path, read, unchecked_client};
pub use connection::{Connection, ConnectionPage, FLAGS, Settings, page};
pub use pages::query;

/// Runs a command that talks to a server.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command)
}
