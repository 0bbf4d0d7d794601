//! POST /tasks/claim and /tasks/claim/batch: http.md §4.3, 4.4; order: semantics §7.

use super::{claim, create, fields, get, id, instant, lies_ahead, now, post, refused, task};
use crate::harness::{DEV_TOKEN, Server};
use serde_json::{Value, json};

async fn create_named(server: &Server, command: &str, name: &str, priority: i64) {
    create(server, json!({"command": command, "payload": name, "priority": priority})).await;
}

/// The payloads in the order in which single claims give them, until there is no more.
async fn drain(server: &Server, body: Value) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let answer = post(server, "/tasks/claim", body.clone()).await;
        if answer.status == 204 {
            return names;
        }
        assert_eq!(answer.status, 200, "{}", answer.text);
        names.push(answer.json["payload"].as_str().expect("a payload").trim_matches('"').to_owned());
    }
}

#[tokio::test]
async fn a_claimed_task_shows_its_lease() {
    let server = Server::memory();
    let created = create(&server, json!({"command": "Render", "payload": 1})).await;
    let before = now();
    let claimed = claim(&server, json!({"commands": ["rENDER"], "leaseSeconds": 60})).await;
    let expected = json!({
        "id": created["id"], "command": "Render", "payload": "1", "status": "IN_PROGRESS",
        "lastKnownLocation": "INPROG_SET", "workerId": "worker-dev", "leaseUntil": claimed["leaseUntil"],
        "attempts": 1, "maxAttempts": 5, "tenantId": "dev-tenant", "createdAt": created["createdAt"],
        "updatedAt": claimed["updatedAt"],
    });
    assert_eq!(claimed, expected);
    let lease = claimed["leaseUntil"].as_str().expect("a lease");
    assert!(lease.len() == 20 && lease.ends_with('Z'), "UTC in whole seconds: {lease}");
    lies_ahead(instant(&claimed["leaseUntil"]), 60, before);
    assert!(instant(&claimed["updatedAt"]) >= before);
    assert_eq!(task(&server, &id(&created)).await, claimed);
}

#[tokio::test]
async fn leases_are_defaulted_and_clamped() {
    let server = Server::memory();
    for (given, seconds) in [
        (json!(null), 300),
        (json!(0), 300),
        (json!(-7), 300),
        (json!(1000), 1000),
        (json!(43_200), 43_200),
        (json!(43_201), 43_200),
        (json!(i64::MAX), 43_200),
    ] {
        create(&server, json!({"command": "c", "payload": 1})).await;
        create(&server, json!({"command": "c", "payload": 1})).await;
        let before = now();
        let one = claim(&server, json!({"leaseSeconds": given})).await;
        lies_ahead(instant(&one["leaseUntil"]), seconds, before);
        let batch = post(&server, "/tasks/claim/batch", json!({"count": 1, "leaseSeconds": given})).await;
        lies_ahead(instant(&batch.json["tasks"][0]["leaseUntil"]), seconds, before);
        let path = format!("/tasks/{}/heartbeat", id(&one));
        let beat = post(&server, &path, json!({"extendSeconds": given})).await;
        assert_eq!((beat.status, &beat.json["ok"]), (200, &json!(true)));
        lies_ahead(instant(&beat.json["leaseUntil"]), seconds, before);
        lies_ahead(instant(&task(&server, &id(&one)).await["leaseUntil"]), seconds, before);
    }
}

#[tokio::test]
async fn the_highest_priority_comes_first_and_within_it_the_oldest() {
    let server = Server::memory();
    for (name, priority) in [("a0", 0), ("b5", 5), ("c9", 9), ("d5", 5), ("e0", 0), ("f9", 12)] {
        create_named(&server, "c", name, priority).await;
    }
    assert_eq!(drain(&server, json!({"commands": ["c"]})).await, ["c9", "f9", "b5", "d5", "a0", "e0"]);
}

#[tokio::test]
async fn the_first_named_command_with_work_wins() {
    let server = Server::memory();
    for (command, name, priority) in [("b", "b9", 9), ("a", "a0", 0), ("b", "b1", 1), ("other", "no", 9)] {
        create_named(&server, command, name, priority).await;
    }
    let order = drain(&server, json!({"commands": ["none", " A ", "b", "b"]})).await;
    assert_eq!(order, ["a0", "b9", "b1"]);
}

#[tokio::test]
async fn without_commands_the_best_head_of_all_queues_wins() {
    for body in [json!({}), json!({"commands": ["*"]}), json!({"commands": []})] {
        let server = Server::memory();
        for (command, name, priority) in
            [("z", "z3", 3), ("a", "a3", 3), ("m", "m7", 7), ("z", "z0", 0), ("a", "a0", 0)]
        {
            create_named(&server, command, name, priority).await;
            // Heads are compared by their creation to the millisecond.
            let millis = || std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
            let created = millis();
            while millis() <= created {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(drain(&server, body).await, ["m7", "z3", "a3", "z0", "a0"]);
    }
}

#[tokio::test]
async fn ill_formed_commands_are_refused() {
    let server = Server::memory();
    let long = "c".repeat(129);
    for path in ["/tasks/claim", "/tasks/claim/batch"] {
        for bad in ["", " ", "a b", "a/b", "é", "a*", "**", &long] {
            let got = post(&server, path, json!({"count": 1, "commands": ["ok", bad]})).await;
            refused(&got, 400, "invalid_command", "invalid command");
        }
        for bad in [json!("c"), json!([null]), json!([1]), json!({}), json!([["c"]])] {
            let got = post(&server, path, json!({"count": 1, "commands": bad})).await;
            refused(&got, 400, "invalid_body", "invalid body");
        }
    }
}

#[tokio::test]
async fn a_batch_claims_as_many_as_asked_for_or_as_there_are() {
    let server = Server::memory();
    for (command, name, priority) in [("b", "b1", 0), ("b", "b2", 0), ("a", "a1", 0), ("a", "a9", 9)] {
        create_named(&server, command, name, priority).await;
    }
    let asked = |count: i64| json!({"count": count, "commands": ["a", "b"]});
    let answer = post(&server, "/tasks/claim/batch", asked(3)).await;
    assert_eq!((answer.status, fields(&answer.json)), (200, vec!["tasks"]));
    let tasks = answer.json["tasks"].as_array().expect("a list");
    let payloads: Vec<_> = tasks.iter().map(|task| task["payload"].as_str().unwrap_or_default()).collect();
    assert_eq!(payloads, ["\"a9\"", "\"a1\"", "\"b1\""]);
    for claimed in tasks {
        assert_eq!((&claimed["attempts"], &claimed["workerId"]), (&json!(1), &json!("worker-dev")));
        assert_eq!(task(&server, &id(claimed)).await, *claimed);
    }
    let rest = post(&server, "/tasks/claim/batch", asked(100)).await;
    assert_eq!(rest.json["tasks"].as_array().map(Vec::len), Some(1));
    assert_eq!(post(&server, "/tasks/claim/batch", asked(1)).await.status, 204);
}

#[tokio::test]
async fn a_count_is_required_and_at_most_100() {
    let server = Server::memory();
    create_named(&server, "c", "only", 0).await;
    let path = "/tasks/claim/batch";
    for count in [json!(null), json!(0), json!(-1), json!(i64::MIN)] {
        let got = post(&server, path, json!({"count": count})).await;
        refused(&got, 400, "invalid_body", "invalid body");
    }
    refused(&post(&server, path, json!({})).await, 400, "invalid_body", "invalid body");
    for count in [101, i64::MAX] {
        let got = post(&server, path, json!({"count": count})).await;
        refused(&got, 400, "batch_too_large", "count exceeds maximum of 100");
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 1, "nothing was claimed");
}

/// A task that falls due at the end of a wait was missed: whoever waits is woken by a sweep that comes a moment
/// later. So a claim looks once more before it says that there is nothing.
#[tokio::test]
async fn a_claim_finds_what_falls_due_at_its_deadline() {
    let server = Server::memory();
    let ask = |command: &'static str| {
        let server = &server;
        async move {
            let task = json!({"command": command, "payload": 1, "delaySeconds": 1});
            assert_eq!(server.post("/v1/codeq/tasks", DEV_TOKEN, task).await.status, 202);
            let claim = json!({"commands": [command], "waitSeconds": 1});
            server.post("/v1/codeq/tasks/claim", DEV_TOKEN, claim).await.status
        }
    };
    let claimed = tokio::join!(ask("a"), ask("b"), ask("c"), ask("d"));
    assert_eq!(claimed, (200, 200, 200, 200));
}

/// Five commands with work: the last ones starved behind the first.
#[tokio::test]
async fn a_fair_claim_shares_out_by_weight() {
    let server = Server::memory();
    let (commands, weights) = (["a", "b", "c", "d", "e"], json!({"a": 5, "B": 4, "c": 3, "d": 2}));
    for command in commands {
        let task = json!({"command": command, "payload": command});
        let batch = json!({"tasks": vec![task; 100]});
        for _ in 0..4 {
            assert_eq!(post(&server, "/tasks/batch", batch.clone()).await.status, 200);
        }
    }
    for commands in [json!(commands), json!(["*"])] {
        let mut firsts = std::collections::BTreeMap::<String, usize>::new();
        let body = json!({"commands": commands, "order": "fair", "weights": weights});
        for _ in 0..450 {
            let task = claim(&server, body.clone()).await;
            *firsts.entry(task["command"].as_str().expect("a command").to_owned()).or_default() += 1;
        }
        // 150, 120, 90, 60 and 30 on average; each is five standard deviations away from its bounds.
        let expected = [("a", 100..200), ("b", 72..168), ("c", 48..132), ("d", 24..96), ("e", 4..56)];
        for (command, range) in expected {
            let count = firsts.get(command).copied().unwrap_or_default();
            assert!(range.contains(&count), "{command}: {count} of {firsts:?}");
        }
    }
    let strict = claim(&server, json!({"commands": commands, "order": "listed"})).await;
    assert_eq!(strict["command"], "a");
}

#[tokio::test]
async fn orders_and_weights_that_mean_nothing_are_refused() {
    let server = Server::memory();
    create_named(&server, "c", "only", 0).await;
    let weights = "invalid 'weights' (at most 256 commands, each with a number from 1 to 100)";
    for path in ["/tasks/claim", "/tasks/claim/batch"] {
        let ask = async |more: Value| {
            let mut body = json!({"count": 1, "commands": ["c"]});
            body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            post(&server, path, body).await
        };
        let order = "invalid 'order' (use listed or fair)";
        refused(&ask(json!({"order": "random"})).await, 400, "invalid_order", order);
        for bad in [json!({"c": 0}), json!({"c": 101}), json!({"c": -1}), json!({"*": 1})] {
            let got = ask(json!({"order": "fair", "weights": bad})).await;
            refused(&got, 400, "invalid_weights", weights);
        }
        let got = ask(json!({"weights": {"c": 2}})).await;
        refused(&got, 400, "invalid_weights", "invalid 'weights' (they need order=fair)");
        for bad in [json!({"order": 1}), json!({"order": "fair", "weights": [1]})] {
            refused(&ask(bad).await, 400, "invalid_body", "invalid body");
        }
    }
    assert_eq!(get(&server, "/admin/queues/c").await.json["ready"], 1, "nothing was claimed");
}

#[tokio::test]
async fn fair_claims_and_batch_claims_wait_for_whichever_queue_is_fed() {
    let server = Server::memory();
    for (path, commands) in [
        ("/tasks/claim", json!(["a", "b"])),
        ("/tasks/claim", json!(["*"])),
        ("/tasks/claim/batch", json!(["a", "b"])),
        ("/tasks/claim/batch", json!(["*"])),
    ] {
        let body = json!({"count": 2, "commands": commands, "order": "fair", "waitSeconds": 20});
        let held = async { post(&server, path, body).await };
        let feed = async {
            while !server.get("/metrics", "").await.text.contains("codeq_claims_waiting 1") {
                tokio::task::yield_now().await;
            }
            create_named(&server, "b", "fed", 0).await;
        };
        let (answer, ()) = tokio::join!(held, feed);
        assert_eq!(answer.status, 200, "{path} {commands}: {}", answer.text);
    }
    let none = json!({"count": 2, "order": "fair", "waitSeconds": 1});
    let begun = std::time::Instant::now();
    assert_eq!(post(&server, "/tasks/claim/batch", none).await.status, 204);
    assert!(begun.elapsed().as_millis() >= 900, "it waited");
}
