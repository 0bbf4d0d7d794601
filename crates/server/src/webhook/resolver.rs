//! Names become addresses here and nowhere else: what is checked is what is dialled.

use super::addresses::is_refused;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::Semaphore;

/// Lookups at once. One that hangs keeps its thread until the system gives up, whoever has stopped waiting.
const LOOKUPS: usize = 256;

/// Every address that a name stands for was refused.
#[derive(Clone, Copy, Debug, Error)]
#[error("refused address")]
pub struct Refused;

pub type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Asks who a name is.
pub type Lookup = Arc<dyn Fn(String) -> Found + Send + Sync>;

/// Gives the connector only those addresses that may be called.
pub struct Guarded {
    pub lookup: Lookup,
    pub allows_private: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let found = (self.lookup)(name.as_str().to_owned());
        let allows_private = self.allows_private;
        Box::pin(async move {
            let mut found = found.await?;
            let is_known = !found.is_empty();
            found.retain(|address| allows_private || !is_refused(address.ip()));
            if is_known && found.is_empty() {
                return Err(Refused.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// The system's own resolver.
pub fn system() -> Lookup {
    let seats = Arc::new(Semaphore::new(LOOKUPS));
    Arc::new(move |name| {
        let seats = seats.clone();
        Box::pin(async move {
            let seat = seats.acquire_owned().await.map_err(io::Error::other)?;
            let looking = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs().map(Iterator::collect);
                drop(seat);
                found
            });
            looking.await.map_err(io::Error::other)?
        })
    })
}
