//! TLS on every listener: certificate and key from files, taken anew when these change.
//!
//! Promise: a connection begins with the certificate that was last read whole; files that cannot be used change
//! nothing but the log. Connections that exist keep what they began with.
//! Not promised: that a change is seen at once. The files are looked at every [`LOOK`].

mod files;
mod transport;
mod validity;

use crate::config;
use crate::metrics::Metrics;
use files::{FileStamp, Files};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
pub use transport::Transport;
pub use validity::Validity;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The protocol that is spoken inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    Http1,
    Http2,
}

/// What the listeners of a server have in common.
pub struct Tls {
    files: Files,
    current: RwLock<Current>,
}

struct Current {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    validity: Validity,
}

impl Tls {
    /// Reads the files; the error is a start-up text that names the file.
    pub fn open(config: &config::TlsFiles) -> Result<Tls, String> {
        let files = Files::new(config);
        let current = RwLock::new(files.read()?);
        Ok(Tls { files, current })
    }

    /// How long the certificate in use is good for.
    pub fn validity(&self) -> Validity {
        self.current.read().unwrap_or_else(PoisonError::into_inner).validity
    }

    /// Greets a caller; none if that fails or takes too long.
    pub async fn greet(&self, stream: TcpStream, inside: Inside) -> Option<Transport> {
        let accepting = TlsAcceptor::from(self.config(inside)).accept(stream);
        match tokio::time::timeout(HANDSHAKE, accepting).await {
            Ok(Ok(stream)) => Some(Transport::Tls(Box::new(stream))),
            Ok(Err(error)) => {
                tracing::debug!(err = %error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }

    fn config(&self, inside: Inside) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        match inside {
            Inside::Http1 => current.http1.clone(),
            Inside::Http2 => current.http2.clone(),
        }
    }

    /// Looks at the files again and again, as long as the server lives.
    pub(crate) async fn keep_current(self: Arc<Self>, metrics: Arc<Metrics>) {
        metrics.certified(self.validity());
        let mut seen = self.files.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let tls = self.clone();
            let looked = tokio::task::spawn_blocking(move || tls.look(seen)).await;
            match looked {
                Ok(stamp) => {
                    seen = stamp;
                    metrics.certified(self.validity());
                }
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime ends.
                Err(_) => return,
            }
        }
    }

    /// Takes the files if they are not those of the stamp. Certificate and key are written one after the other, so
    /// a pair that does not fit may fit at the next look, which sees another stamp then.
    fn look(&self, seen: FileStamp) -> FileStamp {
        let stamp = self.files.stamp();
        if stamp == seen {
            return seen;
        }
        match self.files.read() {
            Ok(current) => {
                let expires = current.validity.not_after.to_string();
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
                tracing::info!(expires, "TLS certificate reloaded");
            }
            Err(error) => tracing::warn!(err = error, "TLS certificate not reloaded, the former one stays"),
        }
        stamp
    }
}
