//! Over HTTP. Every request says where to: servers come and go.

use super::{Claimed, Deed, PATIENCE, Report, TOKEN, Told, Trouble, Wish, refused};
use crate::servers::clients::Lent;
use crate::servers::order::Order;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    token: &'static str,
}

pub type Answer = Result<Value, Trouble>;

impl Http {
    pub fn new(token: &'static str) -> Http {
        let client = reqwest::Client::builder().no_proxy().connect_timeout(PATIENCE);
        let client = client.build().expect("a plain client can be built");
        Http { client, token }
    }

    /// The client of the audit: it may read everything.
    pub fn admin() -> Http {
        Http::new(TOKEN)
    }

    pub async fn get(&self, base: &str, path: &str) -> Answer {
        self.send(self.client.get(format!("{base}/v1/codeq{path}")), Duration::ZERO).await
    }

    async fn post(&self, base: &str, path: &str, body: &Value, wait: Duration) -> Answer {
        let request = self.client.post(format!("{base}/v1/codeq{path}"));
        self.send(request.body(body.to_string()), wait).await
    }

    /// Null for an answer without a body.
    async fn send(&self, request: reqwest::RequestBuilder, wait: Duration) -> Answer {
        let sent = request.bearer_auth(self.token).timeout(PATIENCE + wait).send().await;
        let response = sent.map_err(|error| match error.is_connect() {
            true => Trouble::Unsent,
            false => Trouble::Unknown,
        })?;
        let status = response.status();
        let text = response.text().await.map_err(|_| Trouble::Unknown)?;
        if status.as_u16() == 204 {
            return Ok(Value::Null);
        }
        let body: Value = serde_json::from_str(&text)
            .map_err(|_| Trouble::Refused(format!("{status} without JSON: {text}")))?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(body["code"].as_str().unwrap_or_default())),
        }
    }

    /// One answer for every order, in order.
    pub async fn create(&self, base: &str, orders: &[Order]) -> Vec<Result<String, Trouble>> {
        if let [order] = orders {
            let made = self.post(base, "/tasks", &order.body(), Duration::ZERO).await;
            return vec![made.map(|task| text(&task["id"]))];
        }
        let body = json!({"tasks": orders.iter().map(Order::body).collect::<Vec<_>>()});
        let made = match self.post(base, "/tasks/batch", &body, Duration::ZERO).await {
            Ok(made) => made,
            Err(trouble) => return vec![Err(trouble); orders.len()],
        };
        let item = |n: usize| match &made["results"][n]["task"]["id"] {
            Value::String(id) => Ok(id.clone()),
            _ => Err(refused(made["results"][n]["code"].as_str().unwrap_or("no answer"))),
        };
        (0..orders.len()).map(item).collect()
    }

    pub async fn claim(&self, base: &str, wish: &Wish) -> Result<Claimed, Trouble> {
        let mut body = json!({"leaseSeconds": wish.lease.as_secs()});
        if !wish.commands.is_empty() {
            body["commands"] = json!(wish.commands);
        }
        let sent = Instant::now();
        let (tasks, is_batch) = if wish.count > 1 {
            body["count"] = json!(wish.count);
            (self.post(base, "/tasks/claim/batch", &body, Duration::ZERO).await?, true)
        } else {
            let wait = Duration::from_secs(u64::from(wish.is_waiting));
            body["waitSeconds"] = json!(wait.as_secs());
            (self.post(base, "/tasks/claim", &body, wait).await?, false)
        };
        let received = Instant::now();
        let tasks = match tasks {
            Value::Null => Vec::new(),
            tasks if is_batch => tasks["tasks"].as_array().into_iter().flatten().map(lent).collect(),
            task => vec![lent(&task)],
        };
        Ok(Claimed { sent, received, lease: wish.lease, tasks })
    }

    /// One answer for every report, in order. Several ends go in one request.
    pub async fn report(&self, base: &str, reports: &[Report]) -> Vec<Result<Told, Trouble>> {
        if let [report] = reports {
            return vec![self.report_one(base, report).await];
        }
        let items: Vec<Value> = reports.iter().map(result_body).collect();
        let answered =
            self.post(base, "/tasks/batch/results", &json!({"results": items}), Duration::ZERO).await;
        let items = match answered {
            Ok(items) => items,
            Err(trouble) => return vec![Err(trouble); reports.len()],
        };
        let item = |n: usize| match &items["results"][n]["result"] {
            Value::Object(_) => Ok(Told::Done),
            _ => Err(refused(items["results"][n]["code"].as_str().unwrap_or("no answer"))),
        };
        (0..reports.len()).map(item).collect()
    }

    async fn report_one(&self, base: &str, report: &Report) -> Result<Told, Trouble> {
        let (verb, body) = match report.deed {
            Deed::Complete | Deed::Fail => ("result", result_body(report)),
            Deed::Nack { delay_seconds } => {
                ("nack", json!({"attempt": report.attempt, "delaySeconds": delay_seconds}))
            }
            Deed::Abandon { refund } => ("abandon", json!({"attempt": report.attempt, "refund": refund})),
            Deed::Beat { extend } => {
                ("heartbeat", json!({"attempt": report.attempt, "extendSeconds": extend.as_secs()}))
            }
        };
        let answer = self.post(base, &format!("/tasks/{}/{verb}", report.id), &body, Duration::ZERO).await?;
        Ok(match (report.deed, answer["status"].as_str()) {
            (Deed::Nack { .. } | Deed::Abandon { .. }, Some("dlq")) => Told::Dead,
            (Deed::Nack { .. } | Deed::Abandon { .. }, _) => {
                Told::Back { delay: Duration::from_secs(answer["delaySeconds"].as_u64().unwrap_or(0)) }
            }
            _ => Told::Done,
        })
    }
}

fn result_body(report: &Report) -> Value {
    let mut body = json!({"taskId": report.id, "attempt": report.attempt});
    match report.deed {
        Deed::Fail => {
            body["status"] = json!("FAILED");
            body["error"] = json!(report.mark);
        }
        _ => {
            body["status"] = json!("COMPLETED");
            body["result"] = json!({"mark": report.mark});
        }
    }
    body
}

fn lent(task: &Value) -> Lent {
    Lent {
        id: text(&task["id"]),
        attempt: u32::try_from(task["attempts"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX),
        payload: text(&task["payload"]).into_bytes(),
        lease_until: text(&task["leaseUntil"]),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
