//! Searching in payloads, which nothing indexes.

use super::{create, get, ids, post, refused};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

/// Creates so many tasks, every tenth of which carries the needle.
async fn haystack(server: &Server, count: usize) -> Vec<String> {
    let mut needles = Vec::new();
    for from in (0..count).step_by(100) {
        let task = |n: usize| {
            let text = if n.is_multiple_of(10) { "Needle" } else { "hay" };
            json!({"command": format!("c{}", n % 3), "payload": {"n": n, "text": text}})
        };
        let tasks: Vec<Value> = (from..from + 100).map(task).collect();
        let made = server.post("/v1/codeq/tasks/batch", DEV_TOKEN, json!({"tasks": tasks})).await;
        assert_eq!(made.status, 200, "{}", made.text);
        let made = made.json["results"].as_array().expect("results");
        let id = |result: &Value| result["task"]["id"].as_str().expect("an id").to_owned();
        needles.extend(made.iter().step_by(10).map(id));
    }
    needles
}

#[tokio::test]
async fn payloads_are_searched_page_by_page_and_it_is_said_how_many_were_looked_at() {
    for server in [Server::memory(), Server::dev()] {
        let needles = haystack(&server, 1000).await;
        for order in ["oldest", "newest"] {
            let (mut found, mut looked, mut cursor) = (Vec::new(), 0, String::new());
            loop {
                let query = format!("/tasks?payloadContains=needle&order={order}&limit=7&cursor={cursor}");
                let page = get(&server, &query).await;
                let items = ids(&page);
                assert!(items.len() <= 7, "{}", page.text);
                found.extend(items);
                looked += page.json["examined"].as_u64().expect("it says how many");
                match page.json["next"].as_str() {
                    Some(next) => cursor = next.to_owned(),
                    None => break,
                }
            }
            if order == "newest" {
                found.reverse();
            }
            assert_eq!(found, needles, "{order}");
            assert_eq!(looked, 1000, "{order}: each payload is looked at once");
        }
    }
}

#[tokio::test]
async fn other_filters_narrow_what_is_looked_at() {
    let server = Server::memory();
    haystack(&server, 300).await;
    let page = get(&server, "/tasks?payloadContains=NEEDLE&command=c0&limit=500&payload=true").await;
    assert_eq!(
        (ids(&page).len(), &page.json["examined"], &page.json["next"]),
        (10, &json!(100), &json!(null))
    );
    assert!(page.json["items"][0]["payload"].as_str().expect("a text").contains("Needle"), "{}", page.text);
    let none = get(&server, "/tasks?payloadContains=%22n%22%3A77%2C").await;
    assert_eq!((ids(&none).len(), &none.json["examined"]), (1, &json!(300)));
    let all = get(&server, "/tasks?payloadContains=").await;
    assert!(all.json.get("examined").is_none(), "an empty text is none: {}", all.text);
}

/// A bulk operation is stored and continued without the text, so it must not begin with it.
#[tokio::test]
async fn bulk_operations_take_no_search_in_payloads() {
    let server = Server::memory();
    let long = "x".repeat(1025);
    refused(&get(&server, &format!("/tasks?payloadContains={long}")).await, 400, "invalid_filter");
    let filter = json!({"filter": {"payloadContains": "x"}});
    refused(&post(&server, "/tasks/cancel", filter).await, 400, "invalid_filter");
}

#[tokio::test]
async fn the_idempotency_key_is_told_to_who_looks_and_not_to_who_works() {
    let server = Server::memory();
    let id = create(&server, json!({"command": "c", "payload": 1, "idempotencyKey": "order-7"})).await;
    let shown = server.get(&format!("/v1/codeq/tasks/{id}"), DEV_TOKEN).await;
    assert_eq!(shown.json["idempotencyKey"], "order-7");
    assert_eq!(get(&server, "/tasks").await.json["items"][0]["idempotencyKey"], "order-7");
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["c"]})).await;
    assert!(claimed.json.get("idempotencyKey").is_none(), "{}", claimed.text);
}
