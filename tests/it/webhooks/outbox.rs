//! The outbox as operators see it.

use super::receiver::{Receiver, SILENCE};
use super::{complete, counted, server};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// The failed callbacks, as soon as there are so many.
pub async fn failed(server: &Server, count: usize) -> Vec<Value> {
    for _ in 0..400 {
        let page = server.get("/v1/codeq/admin/webhooks?state=failed&limit=500", DEV_TOKEN).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let items = page.json["items"].as_array().expect("a list");
        if items.len() >= count {
            return items.clone();
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("fewer than {count} have failed");
}

#[tokio::test]
async fn what_ran_out_of_attempts_is_seen_and_can_be_sent_again() {
    let mut server = server(json!({"resultWebhookMaxAttempts": 2}));
    let status = Arc::new(AtomicU16::new(500));
    let rule = status.clone();
    let receiver = Receiver::start(move |_, _| rule.load(Ordering::Relaxed)).await;
    let id = complete(&server, &receiver.url).await;
    let item = failed(&server, 1).await.remove(0);
    assert_eq!((&item["taskId"], &item["url"]), (&json!(id), &json!(receiver.url)));
    assert_eq!((&item["state"], &item["attempts"]), (&json!("failed"), &json!(2)));
    assert_eq!((&item["lastError"], item.get("nextAttemptAt")), (&json!("status 500"), None));
    let delivery = item["id"].as_str().expect("an id").to_owned();
    assert_eq!(receiver.all()[0].headers["webhook-id"], format!("msg_{delivery}"));
    server.kill();
    server.start_again();
    assert_eq!(failed(&server, 1).await[0]["id"], item["id"], "it is durable");
    status.store(200, Ordering::Relaxed);
    let path = format!("/v1/codeq/admin/webhooks/{delivery}/redeliver");
    let again = server.post(&path, DEV_TOKEN, json!({})).await;
    assert_eq!(
        (again.status, &again.json["state"], &again.json["attempts"]),
        (202, &json!("pending"), &json!(0))
    );
    assert!(again.json["nextAttemptAt"].is_string());
    let all = receiver.count(3).await;
    assert_eq!(all[2].body, all[0].body);
    for unknown in [delivery.as_str(), "0123456789abcdef0123456789abcdef", "x"] {
        let path = format!("/v1/codeq/admin/webhooks/{unknown}/redeliver");
        let refused = server.post(&path, DEV_TOKEN, json!({})).await;
        assert_eq!((refused.status, &refused.json["code"]), (404, &json!("delivery_not_found")));
        assert_eq!(refused.json["error"], "not-found");
    }
    let line =
        "codeq_webhook_deliveries_total{command=\"Render\",kind=\"task_result\",outcome=\"success\"} 1";
    counted(&server, &[line]).await;
}

#[tokio::test]
async fn pending_callbacks_are_listed_by_page_and_by_task() {
    let server = server(json!({"webhooks": {"timeoutSeconds": 15}}));
    let silent = Receiver::start(|_, _| SILENCE).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(complete(&server, &silent.url).await);
    }
    let list = async |query: &str| server.get(&format!("/v1/codeq/admin/webhooks{query}"), DEV_TOKEN).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?state=pending&limit=2&cursor={cursor}")).await.json;
        for item in page["items"].as_array().expect("a list") {
            assert!(item["nextAttemptAt"].is_string() && item["createdAt"].is_string());
            seen.push(item["taskId"].as_str().expect("an id").to_owned());
        }
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    seen.sort();
    ids.sort();
    assert_eq!(seen, ids);
    let one = list(&format!("?taskId={}", ids[3])).await.json;
    assert_eq!((one["items"].as_array().expect("a list").len(), &one["next"]), (1, &Value::Null));
    assert_eq!(list("?taskId=nonsense").await.json["items"], json!([]));
    assert_eq!(list("?state=failed").await.json["items"], json!([]));
    let refused = list("?state=lost").await;
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("invalid_body")));
    assert_eq!(list("?cursor=zz").await.status, 400);
    assert_eq!(list("?limit=0").await.json["items"].as_array().expect("a list").len(), 1);
    assert_eq!(server.get("/v1/codeq/admin/webhooks", "worker").await.status, 401);
}

#[tokio::test]
async fn the_outbox_of_another_tenant_does_not_exist() {
    let admin = |token: &str, tenant: &str| json!({"type": "static", "config": {"token": token, "raw": {"role": "ADMIN", "tenantId": tenant}}});
    let server = server(json!({
        "resultWebhookMaxAttempts": 1,
        "producerAuthProvider": "multi",
        "producerAuthConfig": {"providers": [admin(DEV_TOKEN, "acme"), admin("other", "evil")]},
    }));
    let receiver = Receiver::start(|_, _| 500).await;
    let task = complete(&server, &receiver.url).await;
    let delivery = failed(&server, 1).await.remove(0)["id"].as_str().expect("an id").to_owned();
    for query in ["state=failed".to_owned(), "state=pending".into(), format!("state=failed&taskId={task}")] {
        let seen = server.get(&format!("/v1/codeq/admin/webhooks?{query}"), "other").await;
        assert_eq!((seen.status, &seen.json["items"]), (200, &json!([])), "{query}");
    }
    let mut refused = Vec::new();
    for id in [delivery.as_str(), "0123456789abcdef0123456789abcdef"] {
        let path = format!("/v1/codeq/admin/webhooks/{id}/redeliver");
        let mut answer = server.post(&path, "other", json!({})).await;
        answer.json["requestId"] = Value::Null;
        refused.push((answer.status, answer.json));
    }
    assert_eq!(refused[0], refused[1], "a foreign id is an unknown one");
    let named = server.get("/v1/codeq/admin/webhooks?state=failed&tenant=acme", "other").await;
    assert_eq!((named.status, &named.json["code"]), (403, &json!("admin_only")));
    assert_eq!(receiver.all().len(), 1, "nothing was sent again");
}

#[tokio::test]
async fn what_was_delivered_is_seen_with_its_answer() {
    let server = server(json!({"resultWebhookMaxAttempts": 1}));
    let receiver = Receiver::start(|received, _| if received.path == "/bad" { 418 } else { 202 }).await;
    let id = complete(&server, &receiver.url).await;
    complete(&server, &receiver.at("/bad")).await;
    let item = failed(&server, 1).await.remove(0);
    assert_eq!((&item["lastError"], &item["responseStatus"]), (&json!("status 418"), &json!(418)), "{item}");
    let mut page = server.get("/v1/codeq/admin/webhooks?state=delivered", DEV_TOKEN).await;
    for _ in 0..400 {
        if !page.json["items"].as_array().expect("a list").is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        page = server.get("/v1/codeq/admin/webhooks?state=delivered", DEV_TOKEN).await;
    }
    let items = page.json["items"].as_array().expect("a list");
    assert_eq!((items.len(), &page.json["next"]), (1, &json!(null)), "{}", page.text);
    assert_eq!((&items[0]["taskId"], &items[0]["state"]), (&json!(id), &json!("delivered")));
    assert_eq!((&items[0]["attempts"], &items[0]["responseStatus"]), (&json!(1), &json!(202)));
    assert_eq!((&items[0]["responseBody"], &item["responseBody"]), (&json!("said 202"), &json!("said 418")));
    assert!(items[0]["deliveredAt"].is_string() && items[0].get("nextAttemptAt").is_none());
    let other = server.get("/v1/codeq/admin/webhooks?state=delivered&taskId=x", DEV_TOKEN).await;
    assert_eq!(other.json["items"], json!([]));
    let odd = server.get("/v1/codeq/admin/webhooks?state=gone", DEV_TOKEN).await;
    assert_eq!(odd.status, 400);
}

#[tokio::test]
async fn all_that_failed_is_redelivered_by_one_call() {
    let server = server(json!({"resultWebhookMaxAttempts": 1}));
    let status = Arc::new(AtomicU16::new(500));
    let rule = status.clone();
    let receiver = Receiver::start(move |_, _| rule.load(Ordering::Relaxed)).await;
    let one = complete(&server, &receiver.url).await;
    complete(&server, &receiver.url).await;
    failed(&server, 2).await;
    status.store(200, Ordering::Relaxed);
    let path = "/v1/codeq/admin/webhooks/redeliver";
    let only = server.post(path, DEV_TOKEN, json!({"taskId": one})).await;
    assert_eq!((only.status, &only.json), (202, &json!({"redelivered": 1, "hasMore": false})));
    let rest = server.post(path, DEV_TOKEN, json!({})).await;
    assert_eq!(rest.json, json!({"redelivered": 1, "hasMore": false}));
    receiver.count(4).await;
    let audit = server.get("/v1/codeq/admin/audit?verb=redeliver", DEV_TOKEN).await;
    assert_eq!(audit.json["items"][0]["count"], json!(1), "{}", audit.text);
}

fn rss_mb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// What had failed stayed in memory with all that was to be sent, for a week: 400 callbacks of 1 MB were 764 MB.
#[tokio::test]
async fn large_callbacks_that_failed_are_not_kept_in_memory() {
    const CALLBACKS: usize = 300;
    const BYTES: usize = 1_000_000;
    let mut server = server(json!({"resultWebhookMaxAttempts": 1}));
    let status = Arc::new(AtomicU16::new(500));
    let rule = status.clone();
    let receiver = Receiver::start(move |_, _| rule.load(Ordering::Relaxed)).await;
    let result = "x".repeat(BYTES);
    for _ in 0..CALLBACKS {
        let task = json!({"command": "Large", "payload": 1, "webhook": receiver.url});
        let id = super::create(&server, task).await;
        super::claim(&server, "large").await;
        let done = json!({"status": "COMPLETED", "result": {"x": result}});
        super::report(&server, &id, "result", done).await;
    }
    failed(&server, CALLBACKS).await;
    let resident = rss_mb(&server);
    assert!(resident < 450, "{resident} MB, of which all bodies together would be {CALLBACKS}");
    server.kill();
    server.start_again();
    let found = failed(&server, CALLBACKS).await;
    let resident = rss_mb(&server);
    assert!(resident < 300, "{resident} MB after a restart");
    let delivery = found[0]["id"].as_str().expect("an id");
    status.store(200, Ordering::Relaxed);
    let sent = receiver.all().len();
    let path = format!("/v1/codeq/admin/webhooks/{delivery}/redeliver");
    assert_eq!(server.post(&path, DEV_TOKEN, json!({})).await.status, 202);
    let all = receiver.count(sent + 1).await;
    assert_eq!(all[sent].json["result"]["x"].as_str().map(str::len), Some(BYTES));
}
