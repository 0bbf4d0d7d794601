//! A server whose clock a test moves.

use super::{claim, create, id, instant, post, refused, task};
use crate::harness::Server;
use serde_json::json;

#[tokio::test]
async fn time_stands_still_until_it_is_moved_and_things_happen_in_order() {
    let server = Server::test_clock();
    let late = create(&server, json!({"command": "c", "payload": "late", "delaySeconds": 7200})).await;
    create(&server, json!({"command": "c", "payload": "soon", "delaySeconds": 3600})).await;
    let body = json!({"commands": ["c"]});
    assert_eq!(post(&server, "/tasks/claim", body.clone()).await.status, 204);
    let waiting =
        post(&server, "/tasks/claim", json!({"commands": ["c"], "waitSeconds": 30, "leaseSeconds": 60}));
    let moving = async {
        server.until_claims_wait(1).await;
        post(&server, "/test/clock", json!({"advanceSeconds": 86_400})).await
    };
    let (first, moved) = tokio::join!(waiting, moving);
    assert_eq!((first.status, moved.status), (200, 200), "{} {}", first.text, moved.text);
    assert_eq!(first.json["payload"], "\"soon\"", "the claim was served when the first fell due");
    let created = instant(&late["createdAt"]);
    assert_eq!(instant(&moved.json["now"]).since(created).as_secs(), 86_400);
    // Its lease of a minute ran out on the way, and its backoff with it.
    let soon = task(&server, &id(&first.json)).await;
    assert_eq!((&soon["status"], &soon["attempts"]), (&json!("PENDING"), &json!(1)));
    assert_eq!(soon["lastKnownLocation"], "PENDING_LIST");
    let claimed = [claim(&server, body.clone()).await, claim(&server, body).await];
    let order: Vec<_> = claimed.iter().map(|task| task["payload"].as_str().unwrap_or_default()).collect();
    assert_eq!(order, ["\"soon\"", "\"late\""], "in the order in which they became ready");
}

#[tokio::test]
async fn it_does_not_go_back_and_is_not_there_unless_asked_for() {
    let server = Server::test_clock();
    for bad in
        [json!({}), json!({"advanceSeconds": -1}), json!({"to": "2001-01-01T00:00:00Z"}), json!({"to": "x"})]
    {
        let got = post(&server, "/test/clock", bad).await;
        assert_eq!((got.status, &got.json["code"]), (400, &json!("invalid_clock")), "{}", got.text);
    }
    let to = post(&server, "/test/clock", json!({"to": "2035-01-01T00:00:00Z"})).await;
    assert_eq!((to.status, &to.json["now"]), (200, &json!("2035-01-01T00:00:00Z")), "{}", to.text);
    let made = create(&server, json!({"command": "c", "payload": 1})).await;
    assert_eq!(made["createdAt"], "2035-01-01T00:00:00Z");
    let plain = Server::memory();
    let got = post(&plain, "/test/clock", json!({"advanceSeconds": 1})).await;
    refused(&got, 404, "route_not_found", "404 page not found");
}
