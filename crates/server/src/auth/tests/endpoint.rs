//! A key endpoint that can be broken.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

#[derive(Clone)]
pub enum Answer {
    Body(String),
    Status(u16),
    /// Accepts the request and never answers.
    Silence,
}

struct Desk {
    answer: Mutex<Answer>,
    hits: AtomicUsize,
}

pub struct Endpoint {
    desk: Arc<Desk>,
    address: SocketAddr,
}

impl Endpoint {
    pub async fn serving(keys: &[Value]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the socket is bound");
        let desk = Desk { answer: Mutex::new(body(keys)), hits: AtomicUsize::new(0) };
        let desk = Arc::new(desk);
        let router = Router::new().fallback(answer).with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Endpoint { desk, address }
    }

    pub fn url(&self) -> String {
        format!("http://{}/jwks.json", self.address)
    }

    pub fn set(&self, answer: Answer) {
        *self.desk.answer.lock().unwrap() = answer;
    }

    pub fn set_keys(&self, keys: &[Value]) {
        self.set(body(keys));
    }

    pub fn hits(&self) -> usize {
        self.desk.hits.load(Ordering::SeqCst)
    }
}

fn body(keys: &[Value]) -> Answer {
    Answer::Body(json!({"keys": keys}).to_string())
}

async fn answer(State(desk): State<Arc<Desk>>) -> Response {
    desk.hits.fetch_add(1, Ordering::SeqCst);
    let answer = desk.answer.lock().unwrap().clone();
    match answer {
        Answer::Body(body) => body.into_response(),
        Answer::Status(status) => {
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [(header::LOCATION, "/elsewhere")], "{\"keys\":[]}").into_response()
        }
        Answer::Silence => std::future::pending().await,
    }
}
