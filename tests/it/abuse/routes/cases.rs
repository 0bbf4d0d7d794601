//! One request for every route, and its documented answers.

use super::things::Thing;

pub struct Case {
    pub method: &'static str,
    pub path: &'static str,
    /// What has to be there.
    pub thing: Thing,
    pub command: &'static str,
    pub query: &'static str,
    pub body: &'static str,
    /// To whoever may.
    pub status: u16,
    /// As good: of a thing that is there already.
    pub also: u16,
    /// To whoever may, in another tenant: status and code.
    pub foreign: (u16, &'static str),
}

const TASK: (u16, &str) = (404, "task_not_found");

const fn case(method: &'static str, path: &'static str, status: u16) -> Case {
    let (command, query, body) = ("quiet", "", "");
    Case {
        method,
        path,
        thing: Thing::None,
        command,
        query,
        body,
        status,
        also: status,
        foreign: (status, ""),
    }
}

impl Case {
    const fn body(self, body: &'static str) -> Case {
        Case { body, ..self }
    }

    const fn query(self, query: &'static str) -> Case {
        Case { query, ..self }
    }

    /// About one thing, which is not there for another tenant.
    const fn of(self, thing: Thing, foreign: (u16, &'static str)) -> Case {
        Case { thing, foreign, ..self }
    }

    /// About the policy of a queue.
    const fn limited(self, foreign: (u16, &'static str)) -> Case {
        Case { command: "limited", thing: Thing::QueuePolicy, foreign, ..self }
    }

    const fn dead(self) -> Case {
        Case { command: "dead", thing: Thing::Dead, foreign: TASK, ..self }
    }
}

const RESULT: &str = r#"{"status":"COMPLETED","result":{}}"#;
const RESULTS: &str = r#"{"results":[{"taskId":"{id}","status":"COMPLETED","result":{}}]}"#;
const BEATS: &str = r#"{"heartbeats":[{"taskId":"{id}"}]}"#;
const POLICY: &str = r#"{"priorityTiers":[1],"maxAttempts":1,"deadLetterTopicRef":"d"}"#;
const DRY: &str = r#"{"filter":{"command":"quiet"},"dryRun":true}"#;
/// Not due before the test is over.
const SCHEDULE: &str =
    r#"{"everySeconds":31622400,"anchor":"2000-01-01T00:00:00Z","task":{"command":"planned","payload":1}}"#;
const BACKFILL: &str = r#"{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:01Z"}"#;
const NO_SCHEDULE: (u16, &str) = (404, "schedule_not_found");
const NO_BATCH: (u16, &str) = (404, "batch_not_found");
const SUBSCRIPTION: (u16, &str) = (404, "subscription_not_found");
const OPERATION: (u16, &str) = (404, "operation_not_found");

pub const CASES: &[Case] = &[
    case("POST", "/v1/codeq/tasks", 202).body(r#"{"command":"made","payload":1}"#),
    case("POST", "/v1/codeq/tasks/batch", 200).body(r#"{"tasks":[{"command":"made","payload":1}]}"#),
    case("POST", "/v1/codeq/tasks/claim", 204).body(r#"{"commands":["quiet"]}"#),
    case("POST", "/v1/codeq/tasks/claim/batch", 204).body(r#"{"commands":["quiet"],"count":2}"#),
    case("POST", "/v1/codeq/tasks/{id}/heartbeat", 200).of(Thing::Running, TASK),
    case("POST", "/v1/codeq/tasks/{id}/abandon", 200).of(Thing::Running, TASK),
    // Not due before the test is over: the state is compared.
    case("POST", "/v1/codeq/tasks/{id}/nack", 200).body(r#"{"delaySeconds":600}"#).of(Thing::Running, TASK),
    case("POST", "/v1/codeq/tasks/{id}/result", 200).body(RESULT).of(Thing::Running, TASK),
    case("POST", "/v1/codeq/tasks/{id}/cancel", 200).of(Thing::Ready, TASK),
    case("POST", "/v1/codeq/tasks/batch/heartbeat", 200).body(BEATS).of(Thing::Running, (200, "")),
    case("POST", "/v1/codeq/tasks/batch/results", 200).body(RESULTS).of(Thing::Running, (200, "")),
    case("GET", "/v1/codeq/tasks/{id}", 200).of(Thing::Ready, TASK),
    case("GET", "/v1/codeq/tasks/{id}/result", 200).of(Thing::Done, TASK),
    case("GET", "/v1/codeq/tasks/{id}/artifacts/{name}", 200).of(Thing::Done, TASK),
    case("POST", "/v1/codeq/workers/subscriptions", 200).body(r#"{"callbackUrl":"http://127.0.0.1:9/"}"#),
    case("POST", "/v1/codeq/workers/subscriptions/{id}/heartbeat", 200).of(Thing::Subscription, SUBSCRIPTION),
    case("GET", "/v1/codeq/schedules", 200),
    Case { also: 200, ..case("PUT", "/v1/codeq/schedules/{scheduleName}", 201).body(SCHEDULE) }
        .of(Thing::Schedule, (201, "")),
    case("GET", "/v1/codeq/schedules/{scheduleName}", 200).of(Thing::Schedule, NO_SCHEDULE),
    case("DELETE", "/v1/codeq/schedules/{scheduleName}", 204).of(Thing::Schedule, NO_SCHEDULE),
    case("POST", "/v1/codeq/schedules/{scheduleName}/trigger", 202).of(Thing::Schedule, NO_SCHEDULE),
    case("POST", "/v1/codeq/schedules/{scheduleName}/pause", 200).of(Thing::Schedule, NO_SCHEDULE),
    case("POST", "/v1/codeq/schedules/{scheduleName}/resume", 200).of(Thing::Schedule, NO_SCHEDULE),
    case("GET", "/v1/codeq/schedules/{scheduleName}/next", 200).of(Thing::Schedule, NO_SCHEDULE),
    case("POST", "/v1/codeq/schedules/{scheduleName}/backfill", 202)
        .body(BACKFILL)
        .of(Thing::Schedule, NO_SCHEDULE),
    case("POST", "/v1/codeq/batches", 201).body(r#"{"then":[{"command":"made","payload":1}]}"#),
    case("GET", "/v1/codeq/batches/{batchId}", 200).of(Thing::Batch, NO_BATCH),
    case("DELETE", "/v1/codeq/batches/{batchId}", 202).of(Thing::Batch, NO_BATCH),
    case("POST", "/v1/codeq/batches/{batchId}/close", 200).of(Thing::Batch, NO_BATCH),
    case("GET", "/v1/codeq/batches/{batchId}/members", 200).of(Thing::Batch, NO_BATCH),
    case("GET", "/v1/codeq/events", 200),
    case("GET", "/v1/codeq/raft/status", 200),
    case("GET", "/v1/codeq/admin/queues", 200),
    case("GET", "/v1/codeq/admin/queues/{command}", 200),
    case("PUT", "/v1/codeq/admin/queues/{command}/policy", 200).body(r#"{"concurrency":1}"#),
    case("GET", "/v1/codeq/admin/queues/{command}/policy", 200).limited((404, "policy_not_found")),
    case("DELETE", "/v1/codeq/admin/queues/{command}/policy", 204).limited((404, "policy_not_found")),
    case("GET", "/v1/codeq/admin/queues/{command}/lanes", 200),
    case("POST", "/v1/codeq/admin/tasks/cleanup", 200),
    Case { also: 200, ..case("PUT", "/v1/codeq/admin/topics/{topicName}", 201).body(POLICY) }
        .of(Thing::Topic, (201, "")),
    case("GET", "/v1/codeq/admin/topics/{topicName}", 200).of(Thing::Topic, (404, "topic_not_found")),
    case("DELETE", "/v1/codeq/admin/topics/{topicName}", 204)
        .query("deletionPolicy=Delete")
        .of(Thing::Topic, (204, "")),
    case("GET", "/v1/codeq/admin/history", 200),
    case("GET", "/v1/codeq/admin/store", 200),
    case("GET", "/v1/codeq/admin/workers", 200),
    case("GET", "/v1/codeq/admin/audit", 200),
    case("GET", "/v1/codeq/admin/tasks", 200),
    case("POST", "/v1/codeq/admin/tasks/cancel", 200).body(DRY),
    case("GET", "/v1/codeq/admin/tasks/{id}/explain", 200).of(Thing::Ready, TASK),
    case("GET", "/v1/codeq/admin/tasks/{id}/attempts", 200).of(Thing::Ready, TASK),
    case("POST", "/v1/codeq/admin/tasks/{id}/cancel", 200).of(Thing::Ready, TASK),
    case("POST", "/v1/codeq/admin/tasks/{id}/run-now", 200).of(Thing::Delayed, TASK),
    case("GET", "/v1/codeq/admin/dlq/{command}", 200),
    case("DELETE", "/v1/codeq/admin/dlq/{command}", 202).query("confirm=true"),
    case("GET", "/v1/codeq/admin/dlq/{command}/groups", 200),
    case("POST", "/v1/codeq/admin/dlq/{command}/requeue", 200).body(r#"{"dryRun":true}"#),
    case("POST", "/v1/codeq/admin/dlq/{command}/{id}/requeue", 200).dead(),
    case("DELETE", "/v1/codeq/admin/dlq/{command}/{id}", 204).dead(),
    case("GET", "/v1/codeq/admin/failed/{command}", 200),
    case("GET", "/v1/codeq/admin/failed/{command}/groups", 200),
    case("POST", "/v1/codeq/admin/failed/{command}/requeue", 200).body(r#"{"dryRun":true}"#),
    case("POST", "/v1/codeq/admin/failed/{command}/{id}/requeue", 200).dead(),
    case("POST", "/v1/codeq/admin/queues/{command}/pause", 200),
    case("POST", "/v1/codeq/admin/queues/{command}/resume", 200),
    case("GET", "/v1/codeq/admin/operations", 200),
    case("GET", "/v1/codeq/admin/operations/{id}", 200).of(Thing::Operation, OPERATION),
    case("POST", "/v1/codeq/admin/operations/{id}/cancel", 200).of(Thing::Operation, OPERATION),
    case("GET", "/v1/codeq/admin/backup", 200),
    case("GET", "/v1/codeq/admin/export", 200),
    case("POST", "/v1/codeq/admin/import", 200),
    case("GET", "/v1/codeq/admin/webhooks", 200),
    case("POST", "/v1/codeq/admin/webhooks/redeliver", 202),
    case("POST", "/v1/codeq/admin/webhooks/{id}/redeliver", 202)
        .of(Thing::Delivery, (404, "delivery_not_found")),
    case("GET", "/healthz", 200),
    case("GET", "/livez", 200),
    case("GET", "/readyz", 200),
    case("GET", "/metrics", 200),
    case("GET", "/openapi.json", 200),
    case("GET", "/docs", 200),
    case("GET", "/docs/docs.css", 200),
    case("GET", "/docs/docs.js", 200),
    case("GET", "/ui", 200),
    case("GET", "/ui/{*asset}", 200),
];
