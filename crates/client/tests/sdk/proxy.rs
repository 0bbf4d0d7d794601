//! A wire that can be made to swallow the answers of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

pub struct Proxy {
    pub address: String,
    is_mute: Arc<AtomicBool>,
    _accepting: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Between a client and the server at `upstream`.
    pub async fn to(upstream: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let is_mute = Arc::new(AtomicBool::new(false));
        let accepting = accept(listener, upstream.to_owned(), is_mute.clone());
        Proxy { address, is_mute, _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) }
    }

    pub fn mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, upstream: String, is_mute: Arc<AtomicBool>) {
    while let Ok((client, _)) = listener.accept().await {
        // Nobody behind us: the client is hung up on.
        let Ok(server) = TcpStream::connect(&upstream).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(copy(from_client, to_server, Arc::new(AtomicBool::new(false))));
        tokio::spawn(copy(from_server, to_client, is_mute.clone()));
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_mute: Arc<AtomicBool>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if !is_mute.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
