//! Tokens that expire: an issuer with its keys on a port of its own.

#[path = "../../../crates/codeq/src/issuer.rs"]
mod issuer;

use issuer::Issuer;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub struct Keys {
    issuer: Issuer,
    pub url: String,
}

impl Keys {
    /// An issuer whose keys can be had.
    pub async fn served() -> Keys {
        let issuer = Issuer::generate("key-1").expect("a key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/jwks", listener.local_addr().expect("bound"));
        tokio::spawn(serve(listener, issuer.jwks().to_string()));
        Keys { issuer, url }
    }

    /// An issuer whose keys nobody serves.
    pub async fn unreachable() -> Keys {
        let issuer = Issuer::generate("key-1").expect("a key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Keys { issuer, url: format!("http://{}/jwks", listener.local_addr().expect("bound")) }
    }

    /// The provider, next to no leeway.
    pub fn provider(&self) -> Value {
        json!({"jwksUrl": self.url, "issuer": "tests", "audience": "codeq", "clockSkew": "1ms"})
    }

    /// A token of `acme` with these claims besides, for so many seconds.
    pub fn token(&self, seconds: i64, more: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
        let mut claims = json!({"iss": "tests", "aud": "codeq", "tid": "acme", "exp": now + seconds});
        let more = more.as_object().expect("claims are an object").clone();
        claims.as_object_mut().expect("an object").extend(more);
        self.issuer.mint(&claims).expect("a token")
    }
}

async fn serve(listener: TcpListener, body: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await;
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
        let _ = stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await;
    }
}
