//! A server of two tenants, and the things of one of them that requests are about.

use super::super::issuer::{ISSUER, Issuer, claims, worker_claims};
use super::super::keys::Keys;
use crate::harness::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thing {
    None,
    Ready,
    Delayed,
    /// Held by the worker that every worker token stands for.
    Running,
    /// With an artifact.
    Done,
    Dead,
    Subscription,
    Topic,
    /// Of the queue `limited`.
    QueuePolicy,
    Schedule,
    /// Open, and nobody has joined it.
    Batch,
    Operation,
    /// A callback that failed.
    Delivery,
}

pub struct World {
    pub server: Server,
    pub issuer: Issuer,
    admin: String,
    worker: String,
    made: Cell<u32>,
    _keys: Keys,
}

impl World {
    pub async fn open() -> World {
        let issuer = Issuer::generate();
        let keys = Keys::serving(&[issuer.jwk("k1")]);
        let side = |audience: &str| json!({"jwksUrl": keys.url(), "issuer": ISSUER, "audience": audience});
        let server = Server::serve(json!({
            "env": "dev", "resultWebhookMaxAttempts": 1,
            "producerAuthProvider": "jwks", "producerAuthConfig": side("codeq-producer"),
            "workerAuthProvider": "jwks", "workerAuthConfig": side("codeq-worker"),
        }));
        let admin = issuer.token("k1", &claims(json!({})));
        let worker = issuer.token("k1", &worker_claims());
        World { server, issuer, admin, worker, made: Cell::new(0), _keys: keys }
    }

    /// A new thing of tenant acme; what a path calls it.
    pub async fn make(&self, thing: Thing) -> String {
        self.made.set(self.made.get() + 1);
        match thing {
            Thing::None => "none".into(),
            Thing::Ready => self.create(json!({"command": "ready", "payload": 1})).await,
            Thing::Delayed => {
                self.create(json!({"command": "delayed", "payload": 1, "delaySeconds": 600})).await
            }
            Thing::Running => self.running("run", json!({})).await,
            Thing::Done => {
                let id = self.running("done", json!({})).await;
                self.finish(&id).await;
                id
            }
            Thing::Dead => {
                let id = self.running("dead", json!({"maxAttempts": 1})).await;
                let nacked = self.post(&format!("tasks/{id}/nack"), &self.worker, json!({})).await;
                assert_eq!(nacked.json["status"], "dlq", "{}", nacked.text);
                id
            }
            Thing::Subscription => {
                let body = json!({"callbackUrl": "http://127.0.0.1:9/"});
                let made = self.post("workers/subscriptions", &self.worker, body).await;
                text(&made.json["subscriptionId"])
            }
            Thing::Topic => self.topic().await,
            Thing::QueuePolicy => self.queue_policy().await,
            Thing::Schedule => self.schedule().await,
            Thing::Batch => text(&self.post("batches", &self.admin, json!({})).await.json["id"]),
            Thing::Operation => self.operation().await,
            Thing::Delivery => self.delivery().await,
        }
    }

    /// What must not change when others ask.
    pub async fn state(&self) -> Vec<String> {
        let paths = ["admin/tasks?limit=500&payload=true", "admin/dlq/dead?limit=500"];
        let mut state = Vec::new();
        for path in paths {
            let got = self.server.get(&format!("/v1/codeq/{path}"), &self.admin).await;
            assert_eq!(got.status, 200, "{path}: {}", got.text);
            state.push(got.text);
        }
        // How far an operation is may change by itself.
        let operations = self.server.get("/v1/codeq/admin/operations", &self.admin).await.json;
        state.extend(operations["items"].as_array().expect("a list").iter().map(|item| text(&item["id"])));
        let topic = format!("/v1/codeq/admin/topics/topic-{}", self.made.get());
        state.push(self.server.get(&topic, &self.admin).await.json["version"].to_string());
        state
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        let got = self.server.post(&format!("/v1/codeq/{path}"), token, body).await;
        assert!(got.status < 300, "{path}: {}", got.text);
        got
    }

    async fn create(&self, task: Value) -> String {
        text(&self.post("tasks", &self.admin, task).await.json["id"])
    }

    async fn running(&self, command: &str, more: Value) -> String {
        let mut task = json!({"command": command, "payload": 1});
        for (name, value) in more.as_object().expect("an object") {
            task[name] = value.clone();
        }
        self.create(task).await;
        let claimed = self.post("tasks/claim", &self.worker, json!({"commands": [command]})).await;
        text(&claimed.json["id"])
    }

    async fn finish(&self, id: &str) {
        let artifacts = json!([{"name": "a", "contentBase64": "aGk="}]);
        let result = json!({"status": "COMPLETED", "result": {}, "artifacts": artifacts});
        self.post(&format!("tasks/{id}/result"), &self.worker, result).await;
    }

    async fn topic(&self) -> String {
        let name = format!("topic-{}", self.made.get());
        let policy = json!({"priorityTiers": [1], "maxAttempts": 1, "deadLetterTopicRef": "d"});
        let path = format!("/v1/codeq/admin/topics/{name}");
        let body = Some(policy.to_string().into_bytes());
        assert_eq!(self.server.send(Method::PUT, &path, Some(&self.admin), body).await.status, 201);
        name
    }

    async fn queue_policy(&self) -> String {
        let path = "/v1/codeq/admin/queues/limited/policy";
        let body = Some(br#"{"concurrency":2}"#.to_vec());
        assert_eq!(self.server.send(Method::PUT, path, Some(&self.admin), body).await.status, 200);
        "limited".into()
    }

    /// Not due before the test is over.
    async fn schedule(&self) -> String {
        let name = format!("schedule-{}", self.made.get());
        let schedule = json!({
            "everySeconds": 31_622_400, "anchor": "2000-01-01T00:00:00Z",
            "task": {"command": "planned", "payload": 1},
        });
        let path = format!("/v1/codeq/schedules/{name}");
        let body = Some(schedule.to_string().into_bytes());
        assert_eq!(self.server.send(Method::PUT, &path, Some(&self.admin), body).await.status, 201);
        name
    }

    /// One that has come to its end.
    async fn operation(&self) -> String {
        let filter = json!({"filter": {"command": "nothing"}});
        let id = text(&self.post("admin/tasks/cancel", &self.admin, filter).await.json["id"]);
        let path = format!("/v1/codeq/admin/operations/{id}");
        self.until(&path, |got| got["state"] == "done").await;
        id
    }

    async fn delivery(&self) -> String {
        // Nobody listens on that port.
        let id = self.running("told", json!({"webhook": "http://127.0.0.1:9/"})).await;
        self.finish(&id).await;
        let path = format!("/v1/codeq/admin/webhooks?state=failed&taskId={id}");
        let got = self.until(&path, |got| got["items"][0]["id"].is_string()).await;
        text(&got["items"][0]["id"])
    }

    async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let got = self.server.get(path, &self.admin).await.json;
            if is_so(&got) {
                return got;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{path}: {got}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
