//! A key endpoint that can be changed, counted, and be down.

use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub struct Keys {
    desk: Arc<Desk>,
    address: SocketAddr,
}

struct Desk {
    keys: Mutex<Value>,
    hits: AtomicUsize,
}

/// An address where nobody listens, yet.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

impl Keys {
    pub fn serving(keys: &[Value]) -> Keys {
        Keys::at("127.0.0.1:0".parse().expect("an address"), keys)
    }

    pub fn at(address: SocketAddr, keys: &[Value]) -> Keys {
        let listener = TcpListener::bind(address).expect("the port is free");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("it is bound");
        let desk = Arc::new(Desk { keys: Mutex::new(json!({"keys": keys})), hits: AtomicUsize::new(0) });
        tokio::spawn(serve(listener, desk.clone()));
        Keys { desk, address }
    }

    pub fn set(&self, keys: &[Value]) {
        *self.desk.keys.lock().expect("nobody panics holding it") = json!({"keys": keys});
    }

    pub fn url(&self) -> String {
        url(self.address)
    }

    pub fn hits(&self) -> usize {
        self.desk.hits.load(Ordering::SeqCst)
    }
}

pub fn url(address: SocketAddr) -> String {
    format!("http://{address}/jwks.json")
}

async fn serve(listener: TcpListener, desk: Arc<Desk>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((mut stream, _)) = listener.accept().await {
        let desk = desk.clone();
        tokio::spawn(async move {
            let _ = stream.read(&mut [0; 4096]).await;
            desk.hits.fetch_add(1, Ordering::SeqCst);
            let text = desk.keys.lock().expect("nobody panics holding it").to_string();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            let _ = stream.write_all(format!("{head}: {}\r\n\r\n{text}", text.len()).as_bytes()).await;
        });
    }
}
