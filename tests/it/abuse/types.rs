//! Every field of every body with values of every other type, and with the largest and smallest numbers.

use super::{NOBODY, assert_serves, create};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Text,
    Int,
    Bool,
    Object,
    Texts,
    Ints,
    Objects,
}

use Kind::{Bool, Int, Ints, Object, Objects, Text, Texts};

struct Body {
    method: &'static str,
    path: String,
    /// A body that is read without complaint about its shape.
    good: Value,
    fields: &'static [(&'static str, Kind)],
}

const CREATE: &[(&str, Kind)] = &[
    ("command", Text),
    ("priority", Int),
    ("webhook", Text),
    ("headers", Object),
    ("maxAttempts", Int),
    ("idempotencyKey", Text),
    ("runAt", Text),
    ("delaySeconds", Int),
    ("lane", Text),
    ("tags", Texts),
    ("expireSeconds", Int),
    ("expiresAt", Text),
    ("maxRunSeconds", Int),
    ("unique", Object),
    ("after", Texts),
    ("onDependencyFailure", Text),
    ("batchId", Text),
];
const SUBMIT: &[(&str, Kind)] =
    &[("status", Text), ("result", Object), ("error", Text), ("artifacts", Objects), ("attempt", Int)];
const ARTIFACT: &[(&str, Kind)] =
    &[("name", Text), ("url", Text), ("contentBase64", Text), ("content", Text), ("contentType", Text)];

fn bodies() -> Vec<Body> {
    let body = |path: String, good, fields| Body { method: "POST", path, good, fields };
    let by_id = |verb: &str| format!("/v1/codeq/tasks/{NOBODY}/{verb}");
    let policy = json!({"priorityTiers": [1], "maxAttempts": 3, "deadLetterTopicRef": "dead"});
    vec![
        body("/v1/codeq/tasks".into(), json!({"command": "typed", "payload": 1}), CREATE),
        body("/v1/codeq/tasks/batch".into(), json!({"tasks": [{"command": "typed"}]}), &[("tasks", Objects)]),
        body(
            "/v1/codeq/tasks/claim".into(),
            json!({"commands": ["none"]}),
            &[("commands", Texts), ("leaseSeconds", Int), ("waitSeconds", Int), ("order", Text)],
        ),
        body(
            "/v1/codeq/tasks/claim/batch".into(),
            json!({"commands": ["none"], "count": 1}),
            &[("commands", Texts), ("leaseSeconds", Int), ("count", Int), ("waitSeconds", Int)],
        ),
        body(by_id("heartbeat"), json!({}), &[("extendSeconds", Int), ("attempt", Int)]),
        body(by_id("abandon"), json!({}), &[("attempt", Int), ("refund", Bool)]),
        body(
            by_id("nack"),
            json!({}),
            &[("delaySeconds", Int), ("reason", Text), ("attempt", Int), ("refund", Bool), ("hold", Text)],
        ),
        body(by_id("result"), json!({"status": "COMPLETED", "result": {}}), SUBMIT),
        body(
            "/v1/codeq/tasks/batch/results".into(),
            json!({"results": [{"taskId": NOBODY, "status": "FAILED", "error": "e"}]}),
            &[("results", Objects)],
        ),
        body(
            "/v1/codeq/workers/subscriptions".into(),
            json!({"callbackUrl": "http://127.0.0.1:9/"}),
            &[
                ("callbackUrl", Text),
                ("eventTypes", Texts),
                ("deliveryMode", Text),
                ("groupId", Text),
                ("ttlSeconds", Int),
                ("minIntervalSeconds", Int),
            ],
        ),
        body(
            "/v1/codeq/admin/tasks/cleanup".into(),
            json!({"limit": 1}),
            &[("limit", Int), ("before", Text)],
        ),
        Body {
            method: "PUT",
            path: "/v1/codeq/admin/topics/typed".into(),
            good: policy,
            fields: &[
                ("priorityTiers", Ints),
                ("maxAttempts", Int),
                ("deadLetterTopicRef", Text),
                ("retentionSeconds", Int),
                ("maxConsumers", Int),
            ],
        },
    ]
}

/// Of cancels, batches and schedules.
fn bodies_of_flow() -> Vec<Body> {
    let body = |path: String, good, fields| Body { method: "POST", path, good, fields };
    vec![
        body(
            format!("/v1/codeq/tasks/{NOBODY}/cancel"),
            json!({}),
            &[("graceSeconds", Int), ("reason", Text)],
        ),
        body(
            "/v1/codeq/tasks/batch/heartbeat".into(),
            json!({"heartbeats": [{"taskId": NOBODY}]}),
            &[("heartbeats", Objects)],
        ),
        body(
            "/v1/codeq/batches".into(),
            json!({}),
            &[("name", Text), ("closeAfterSeconds", Int), ("onFailure", Text)],
        ),
        Body {
            method: "PUT",
            path: "/v1/codeq/schedules/typed".into(),
            good: json!({"everySeconds": 86_400, "task": {"command": "typed", "payload": 1}}),
            fields: &[
                ("cron", Text),
                ("everySeconds", Int),
                ("anchor", Text),
                ("timezone", Text),
                ("overlap", Text),
                ("catchUp", Text),
                ("catchUpWindowSeconds", Int),
                ("jitterSeconds", Int),
                ("startAt", Text),
                ("endAt", Text),
                ("paused", Bool),
            ],
        },
    ]
}

/// Values that are not of this kind.
fn wrong(kind: Kind) -> Vec<&'static str> {
    let every = [
        (Int, "1"),
        (Text, "\"1\""),
        (Bool, "true"),
        (Object, "{}"),
        (Object, "{\"a\":\"b\"}"),
        (Texts, "[\"a\"]"),
        (Ints, "[1]"),
        (Objects, "[{}]"),
    ];
    let mut values: Vec<&str> =
        every.iter().filter(|(other, _)| *other != kind).map(|(_, value)| *value).collect();
    // An item of the wrong shape is that item's fault, not the list's.
    values.retain(|value| kind != Objects || !value.starts_with('['));
    match kind {
        Int => values.extend(["1.0", "1e3", "-0.5", "9223372036854775808", "-9223372036854775809"]),
        Ints => values.extend(["[1.5]", "[\"1\"]", "[[1]]", "[null]", "[99999999999999999999]"]),
        Texts => values.extend(["[null]", "[[\"a\"]]", "[\"a\",1]"]),
        Object | Objects | Text | Bool => values.push("1.5"),
    }
    values
}

fn with(good: &Value, field: &str, value: &str) -> Vec<u8> {
    let mut good = good.clone();
    good.as_object_mut().expect("an object").remove(field);
    let rest = good.to_string();
    let comma = if rest == "{}" { "" } else { "," };
    format!("{{\"{field}\":{value}{comma}{}", &rest[1..]).into_bytes()
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_on_every_field() {
    let server = Server::dev();
    for body in bodies().into_iter().chain(bodies_of_flow()) {
        for (field, kind) in body.fields {
            for value in wrong(*kind) {
                let text = with(&body.good, field, value);
                let method = body.method.parse().expect("a method");
                let answer = server.send(method, &body.path, Some(DEV_TOKEN), Some(text)).await;
                let code = (answer.status, answer.json["code"].as_str());
                let what = format!("{} {field}={value}: {}", body.path, answer.text);
                assert_eq!(code, (400, Some("invalid_body")), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn null_is_the_same_as_leaving_a_field_out() {
    let server = Server::dev();
    for body in bodies().into_iter().chain(bodies_of_flow()) {
        for (field, _) in body.fields {
            let (method, mut without) =
                (body.method.parse::<reqwest::Method>().expect("a method"), body.good.clone());
            without.as_object_mut().expect("an object").remove(*field);
            let send = |text: Vec<u8>| server.send(method.clone(), &body.path, Some(DEV_TOKEN), Some(text));
            let left_out = send(without.to_string().into_bytes()).await;
            let null = send(with(&body.good, field, "null")).await;
            let is_created = |status| if status == 201 { 200 } else { status };
            assert_eq!(is_created(null.status), is_created(left_out.status), "{} {field}", body.path);
            assert_eq!(null.json["error"], left_out.json["error"], "{} {field}", body.path);
        }
    }
}

#[tokio::test]
async fn no_number_is_too_large_or_too_small_to_be_answered() {
    let server = Server::dev();
    for body in bodies().into_iter().chain(bodies_of_flow()) {
        for (field, kind) in body.fields {
            let numbers = [i64::MIN, i64::MIN + 1, -1, 0, u32::MAX.into(), 1 << 53, i64::MAX - 1, i64::MAX];
            for number in numbers {
                let value = match kind {
                    // Such a claim would wait for as long as it may.
                    Int if *field == "waitSeconds" && number > 0 => continue,
                    Int => number.to_string(),
                    Ints => format!("[{number}]"),
                    _ => continue,
                };
                let (method, text) =
                    (body.method.parse().expect("a method"), with(&body.good, field, &value));
                let answer = server.send(method, &body.path, Some(DEV_TOKEN), Some(text)).await;
                assert!(answer.status < 500, "{} {field}={value}: {}", body.path, answer.text);
            }
        }
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn items_of_a_batch_fail_by_themselves() {
    let server = Server::dev();
    let wrong_tasks: Vec<Value> = CREATE
        .iter()
        .flat_map(|(field, kind)| wrong(*kind).into_iter().map(move |v| (field, v)))
        .map(|(field, value)| parsed(&with(&json!({"command": "typed", "payload": 1}), field, value)))
        .chain([json!(1), json!("x"), json!(null), json!([]), json!({})])
        .collect();
    check_items(&server, "/v1/codeq/tasks/batch", "tasks", "invalid body", &wrong_tasks).await;
    let good = json!({"taskId": NOBODY, "status": "COMPLETED", "result": {}});
    let artifact = |field: &str, value: &str| {
        let item = parsed(&with(&json!({"name": "n"}), field, value));
        parsed(&with(&good, "artifacts", &json!([item]).to_string()))
    };
    let submits = SUBMIT.iter().chain(&[("taskId", Text)]);
    let wrong_results: Vec<Value> = submits
        .flat_map(|(field, kind)| wrong(*kind).into_iter().map(move |v| (field, v)))
        .map(|(field, value)| parsed(&with(&good, field, value)))
        .chain(ARTIFACT.iter().flat_map(|(field, kind)| wrong(*kind).into_iter().map(|v| artifact(field, v))))
        .chain([json!(1), json!("x"), json!(null), json!([]), json!({})])
        .collect();
    check_items(&server, "/v1/codeq/tasks/batch/results", "results", "invalid request body", &wrong_results)
        .await;
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("the test writes JSON")
}

async fn check_items(server: &Server, path: &str, list: &str, text: &str, items: &[Value]) {
    for items in items.chunks(100) {
        let answer = server.post(path, DEV_TOKEN, json!({list: items})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let results = answer.json["results"].as_array().expect("a list");
        assert_eq!(results.len(), items.len());
        for (item, result) in items.iter().zip(results) {
            assert_eq!((&result["code"], &result["error"]), (&json!("invalid_body"), &json!(text)), "{item}");
        }
    }
}

/// Fields that a body does not have are ignored, whatever they hold.
#[tokio::test]
async fn unknown_fields_are_ignored() {
    let server = Server::dev();
    let id =
        create(&server, DEV_TOKEN, json!({"command": "odd", "payload": 1, "Command": 5, "count": []})).await;
    let claim = json!({"commands": ["odd"], "count": "x", "workerId": 7});
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim).await;
    assert_eq!((claimed.status, claimed.json["id"].as_str()), (200, Some(&*id)), "{}", claimed.text);
    let batch = json!({"commands": ["odd"], "count": 1, "wait": "x"});
    assert_eq!(server.post("/v1/codeq/tasks/claim/batch", DEV_TOKEN, batch).await.status, 204);
    let submit = json!({"status": "COMPLETED", "result": {}, "workerId": 7, "taskId": 7});
    let done = server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, submit).await;
    assert_eq!(done.status, 200, "{}", done.text);
}

/// Instants at the ends of what can be written.
#[tokio::test]
async fn no_instant_is_too_far_away_to_be_answered() {
    let server = Server::dev();
    let instants = [
        "0000-01-01T00:00:00Z",
        "-009999-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59.999999999Z",
        "9999-12-31T23:59:59.999999999Z",
        "9999-12-31T23:59:59-23:59",
        "+262143-12-31T23:59:59Z",
        "2026-02-30T00:00:00Z",
        "2026-06-30T23:59:60Z",
        "2026-01-01T00:00:00.1234567890123Z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "٢٠٢٦-01-01T00:00:00Z",
        "now",
        " ",
    ];
    for instant in instants {
        let task = json!({"command": "when", "payload": 1, "runAt": instant});
        let created = server.post("/v1/codeq/tasks", DEV_TOKEN, task).await;
        assert!(matches!(created.status, 202 | 400), "{instant}: {}", created.text);
        let cleaned =
            server.post("/v1/codeq/admin/tasks/cleanup", DEV_TOKEN, json!({"before": instant})).await;
        assert!(matches!(cleaned.status, 200 | 400), "{instant}: {}", cleaned.text);
    }
    assert_serves(&server).await;
}
