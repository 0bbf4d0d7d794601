//! The client side: where the server is, who we are, and one request with its answer.

mod api;
mod connection;
mod pages;
pub mod profile;

pub use api::{Api, Refused, answer, encoded, http_client, path, read, text};
pub use connection::{Connection, FLAGS, Settings};
pub use pages::query;

/// Runs a command that talks to a server.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command)
}
