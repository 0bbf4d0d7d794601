//! Payloads come back as the text that was sent.

use super::{claim, id, post_text, refused, task};
use crate::harness::Server;
use serde_json::{Value, json};

#[tokio::test]
async fn the_text_of_a_payload_is_kept_to_the_byte() {
    let server = Server::memory();
    for payload in [
        "0",
        "-0",
        "false",
        "true",
        "\"\"",
        "[]",
        "{}",
        "[null]",
        "1.10",
        "1E+2",
        "1e999",
        "123456789012345678901234567890",
        r#"{"jobId": 9007199254740993}"#,
        "{ \"b\" : 1,\n\t\"a\" :\r\n[ 1 , 2 ] }",
        r#""\u00e9\/\n\u0000""#,
        "\"é 😀 \u{2028}\"",
        r#""\ud83d\ude00""#,
        r#""\ud800""#,
        r#"{"":""}"#,
    ] {
        let body = format!("{{\"command\":\"exact\" , \"payload\" :  {payload}  }}\n");
        let created = post_text(&server, "/tasks", &body).await;
        assert_eq!(created.status, 202, "{payload}: {}", created.text);
        assert_eq!(created.json["payload"], payload);
        let claimed = claim(&server, json!({"commands": ["exact"]})).await;
        assert_eq!((&claimed["id"], &claimed["payload"]), (&created.json["id"], &json!(payload)));
        assert_eq!(task(&server, &id(&claimed)).await["payload"], payload);
        let batch = format!("{{\"tasks\":[ {body} ]}}");
        let batch = post_text(&server, "/tasks/batch", &batch).await;
        assert_eq!(batch.json["results"][0]["task"]["payload"], payload);
        claim(&server, json!({"commands": ["exact"]})).await;
    }
}

#[tokio::test]
async fn a_payload_is_required_and_null_is_none() {
    let server = Server::memory();
    for body in
        [r#"{"command":"c"}"#, r#"{"command":"c","payload":null}"#, r#"{"command":"c","payload": null }"#]
    {
        refused(&post_text(&server, "/tasks", body).await, 400, "invalid_body", "invalid body");
        let batch = post_text(&server, "/tasks/batch", &format!("{{\"tasks\":[{body}]}}")).await;
        assert_eq!(batch.json["results"][0]["task"]["payload"], "null", "{}", batch.text);
    }
}

#[tokio::test]
async fn a_payload_nests_to_128_levels_with_the_body_around_it() {
    let server = Server::memory();
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    for payload in [nested(127), objects(127)] {
        let body = format!("{{\"command\":\"deep\",\"payload\":{payload}}}");
        let created = post_text(&server, "/tasks", &body).await;
        assert_eq!((created.status, &created.json["payload"]), (202, &Value::from(payload)));
    }
    for payload in [nested(128), objects(128), nested(100_000), "[".repeat(100_000)] {
        let body = format!("{{\"command\":\"deep\",\"payload\":{payload}}}");
        refused(&post_text(&server, "/tasks", &body).await, 400, "invalid_body", "invalid body");
    }
    // A batch is two levels more, and one that is too deep is no body at all.
    for (levels, status) in [(125, 200), (126, 400)] {
        let body = format!("{{\"tasks\":[{{\"command\":\"deep\",\"payload\":{}}}]}}", nested(levels));
        assert_eq!(post_text(&server, "/tasks/batch", &body).await.status, status, "{levels}");
    }
}
