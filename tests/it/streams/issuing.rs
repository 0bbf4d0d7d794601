//! Tokens that expire: an issuer with its keys on a port of its own.

use crate::abuse::issuer::{Issuer, now};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub struct Keys {
    issuer: Issuer,
    pub url: String,
}

impl Keys {
    /// An issuer whose keys can be had.
    pub async fn served() -> Keys {
        let issuer = Issuer::generate();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/jwks", listener.local_addr().expect("bound"));
        tokio::spawn(serve(listener, json!({"keys": [issuer.jwk("key-1")]}).to_string()));
        Keys { issuer, url }
    }

    /// An issuer whose keys nobody serves.
    pub async fn unreachable() -> Keys {
        let issuer = Issuer::generate();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Keys { issuer, url: format!("http://{}/jwks", listener.local_addr().expect("bound")) }
    }

    /// The provider, next to no leeway.
    pub fn provider(&self) -> Value {
        json!({"jwksUrl": self.url, "issuer": "tests", "audience": "codeq", "clockSkew": "1ms"})
    }

    /// A token of `acme` with these claims besides, for so many seconds.
    pub fn token(&self, seconds: i64, more: Value) -> String {
        let mut claims = json!({"iss": "tests", "aud": "codeq", "tid": "acme", "exp": now() + seconds});
        let more = more.as_object().expect("claims are an object").clone();
        claims.as_object_mut().expect("an object").extend(more);
        self.issuer.token("key-1", &claims)
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
