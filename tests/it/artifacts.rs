//! Files that come with results: stored before the commit, read back by anyone of the tenant.

use crate::harness::{DEV_TOKEN, Server, answer};
use reqwest::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// Creates and claims a task; its id.
async fn running(server: &Server) -> String {
    let task = server.post("/v1/codeq/tasks", DEV_TOKEN, json!({"command": "files", "payload": 1})).await;
    assert_eq!(task.status, 202, "{}", task.text);
    let claimed = server.post("/v1/codeq/tasks/claim", DEV_TOKEN, json!({"commands": ["files"]})).await;
    claimed.json["id"].as_str().expect("a task").to_owned()
}

fn done(artifacts: Value) -> Value {
    json!({"status": "COMPLETED", "result": {"ok": true}, "artifacts": artifacts})
}

async fn submit(server: &Server, id: &str, artifacts: Value) -> crate::harness::Answer {
    server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, done(artifacts)).await
}

fn stored_files(server: &Server) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![server.data().join("artifacts")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => open.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[tokio::test]
async fn a_file_comes_back_as_it_was_sent() {
    let mut server = Server::dev();
    let id = running(&server).await;
    let submitted = submit(
        &server,
        &id,
        json!([
            {"name": "log.txt", "contentBase64": "aGk=", "contentType": "text/plain"},
            {"name": "a b+ü.bin", "content": "AAEC/w"},
            {"name": "elsewhere", "url": "s3://bucket/key"},
            {"name": "nothing"},
        ]),
    )
    .await;
    assert_eq!(submitted.status, 200, "{}", submitted.text);
    let base = format!("/v1/codeq/tasks/{id}/artifacts");
    let expected = json!([
        {"name": "log.txt", "url": format!("{base}/log.txt")},
        {"name": "a b+ü.bin", "url": format!("{base}/a%20b%2B%C3%BC.bin")},
        {"name": "elsewhere", "url": "s3://bucket/key"},
    ]);
    assert_eq!(submitted.json["artifacts"], expected);
    for file in stored_files(&server) {
        assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        let directory = file.parent().expect("in a directory").metadata().expect("a directory");
        assert_eq!(directory.permissions().mode() & 0o777, 0o700);
    }
    server.kill();
    server.start_again();
    let log = answer(server.request(Method::GET, &format!("{base}/log.txt")).bearer_auth(DEV_TOKEN)).await;
    assert_eq!((log.status, &*log.text), (200, "hi"));
    let header = |name: &str| log.headers[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "text/plain");
    assert_eq!(header("content-disposition"), "attachment");
    assert_eq!((header("x-content-type-options"), header("content-length")), ("nosniff".into(), "2".into()));
    let binary = server.request(Method::GET, &format!("{base}/a%20b%2B%C3%BC.bin")).bearer_auth(DEV_TOKEN);
    let binary = binary.send().await.expect("an answer");
    assert_eq!(binary.headers()["content-type"], "application/octet-stream");
    assert_eq!(&*binary.bytes().await.expect("bytes"), [0, 1, 2, 255]);
    for missing in ["elsewhere", "nothing", "log", "..%2f..%2fCURRENT"] {
        let refused = server.get(&format!("{base}/{missing}"), DEV_TOKEN).await;
        assert_eq!(
            (refused.status, refused.json["code"].as_str()),
            (404, Some("artifact_not_found")),
            "{missing}"
        );
    }
    let unknown = server.get(&base.replace(&id, "00000000-0000-4000-8000-000000000000"), DEV_TOKEN).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn files_that_are_refused_leave_nothing_behind() {
    let server = Server::dev();
    let id = running(&server).await;
    let file = |name: &str| json!({"name": name, "contentBase64": "aGk="});
    let many: Vec<Value> = (0..17).map(|n| file(&format!("f{n}"))).collect();
    let long = "n".repeat(256);
    for (artifacts, text) in [
        (json!([file("a"), {"name": "b", "contentBase64": "*"}]), "artifact b base64 decode: "),
        (json!([file("a"), file("a")]), "duplicate artifact name: a"),
        (json!([file("../x")]), "invalid artifact name: ../x"),
        (json!([file("a/b")]), "invalid artifact name: a/b"),
        (json!([file("a\\b")]), "invalid artifact name: a\\b"),
        (json!([file("a\u{7}")]), "invalid artifact name: "),
        (json!([file(&long)]), "invalid artifact name: "),
        (
            json!([{"name": "a", "contentBase64": "aGk=", "contentType": "x\ny"}]),
            "invalid artifact contentType: a",
        ),
        (json!(many), "too many artifacts (max 16)"),
    ] {
        let refused = submit(&server, &id, artifacts).await;
        assert_eq!(
            (refused.status, refused.json["code"].as_str()),
            (400, Some("invalid_artifact")),
            "{text}"
        );
        let said = refused.json["error"].as_str().expect("a text");
        assert!(said.starts_with(text), "{said}");
    }
    let wrong = json!({"status": "COMPLETED", "artifacts": [file("a")]});
    let refused = server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, wrong).await;
    assert_eq!(refused.json["code"], "result_required");
    let fenced = json!({"status": "COMPLETED", "result": {}, "attempt": 7, "artifacts": [file("a")]});
    let refused = server.post(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN, fenced).await;
    assert_eq!((refused.status, refused.json["code"].as_str()), (409, Some("lease_lost")));
    assert_eq!(stored_files(&server), Vec::<std::path::PathBuf>::new());
    assert_eq!(submit(&server, &id, json!([file("a")])).await.status, 200);
    let again = submit(&server, &id, json!([file("a")])).await;
    assert_eq!(again.json["code"], "not_in_progress");
    assert_eq!(stored_files(&server).len(), 1);
}

#[tokio::test]
async fn a_batch_stores_the_files_of_each_item() {
    let server = Server::dev();
    let ids = [running(&server).await, running(&server).await];
    let item = |id: &str, content: &str| {
        let mut item = done(json!([{"name": "f", "contentBase64": content}]));
        item["taskId"] = id.into();
        item
    };
    let body = json!({"results": [item(&ids[0], "aGk="), item(&ids[1], "*")]});
    let answers = server.post("/v1/codeq/tasks/batch/results", DEV_TOKEN, body).await;
    assert_eq!(answers.status, 200, "{}", answers.text);
    assert_eq!(answers.json["results"][0]["result"]["artifacts"][0]["name"], "f");
    assert_eq!(answers.json["results"][1]["code"], "invalid_artifact");
    let path = format!("/v1/codeq/tasks/{}/artifacts/f", ids[0]);
    assert_eq!(server.get(&path, DEV_TOKEN).await.text, "hi");
}

#[tokio::test]
async fn a_storage_that_fails_refuses_the_result_and_the_task_goes_on() {
    let server = Server::dev();
    let id = running(&server).await;
    let directory = server.data().join("artifacts");
    std::fs::remove_dir_all(&directory).expect("it was made at the start");
    std::fs::write(&directory, "in the way").expect("the data is ours");
    let files = json!([{"name": "a", "contentBase64": "aGk="}]);
    let failed = submit(&server, &id, files.clone()).await;
    assert_eq!((failed.status, failed.json["code"].as_str()), (503, Some("storage_unavailable")));
    assert_eq!(failed.json["error"], "artifact a upload: storage unavailable");
    assert!(failed.headers.contains_key("retry-after"));
    std::fs::remove_file(&directory).expect("ours");
    std::fs::create_dir(&directory).expect("ours");
    assert_eq!(submit(&server, &id, files).await.status, 200);
}

/// An S3-compatible server that ends with the test.
struct S3(Child);

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn start_s3() -> (S3, String) {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/s3-server.sh");
    let child =
        Command::new(script).arg(port.to_string()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let server = S3(child.expect("scripts/s3-server.sh starts"));
    let url = format!("http://127.0.0.1:{port}");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    for _ in 0..600 {
        if let Ok(made) = client.put(format!("{url}/artifacts-test")).send().await {
            assert!(made.status().is_success(), "{made:?}");
            return (server, url);
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("the S3 server did not start: run scripts/s3-server.sh {port} and see")
}

#[tokio::test]
async fn files_can_be_kept_in_an_s3_bucket() {
    let (_s3, endpoint) = start_s3().await;
    let static_token = json!({"token": DEV_TOKEN, "subject": "p", "raw": {"tenantId": "acme"}});
    let server = Server::serve(json!({
        "env": "dev", "publicBaseUrl": "https://codeq.example.com/",
        "producerAuthProvider": "static", "producerAuthConfig": static_token, "allowProducerAsWorker": true,
        "artifacts": {"provider": "s3", "s3": {
            "bucket": "artifacts-test", "region": "eu-west-1", "endpoint": endpoint, "prefix": "codeq/prod",
            "accessKeyId": "test", "secretAccessKey": "test", "pathStyle": true,
        }},
    }));
    let id = running(&server).await;
    let submitted =
        submit(&server, &id, json!([{"name": "f", "contentBase64": "aGk=", "contentType": "text/x"}])).await;
    assert_eq!(submitted.status, 200, "{}", submitted.text);
    let path = format!("/v1/codeq/tasks/{id}/artifacts/f");
    assert_eq!(submitted.json["artifacts"][0]["url"], format!("https://codeq.example.com{path}"));
    let file = server.get(&path, DEV_TOKEN).await;
    assert_eq!(
        (file.status, &*file.text, &file.headers["content-type"]),
        (200, "hi", &"text/x".parse().expect("text"))
    );
    drop(_s3);
    let gone = server.get(&path, DEV_TOKEN).await;
    assert_eq!((gone.status, gone.json["code"].as_str()), (503, Some("storage_unavailable")));
}

/// Submits a result with one file per task, all at once; tells of every success.
async fn submit_all(server: &Server, ids: &[String], told: tokio::sync::mpsc::UnboundedSender<()>) {
    let submits = ids.iter().map(|id| {
        let content = base64(&format!("of {id}").repeat(2000));
        let body = done(json!([{"name": "f", "contentBase64": content}]));
        let request = server.request(Method::POST, &format!("/v1/codeq/tasks/{id}/result"));
        let (request, told) = (request.bearer_auth(DEV_TOKEN).body(body.to_string()), told.clone());
        tokio::spawn(async move {
            if request.send().await.is_ok_and(|answer| answer.status() == 200) {
                let _ = told.send(());
            }
        })
    });
    for submit in submits.collect::<Vec<_>>() {
        submit.await.expect("no panic");
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}

#[tokio::test]
async fn a_result_never_names_a_file_that_a_crash_took() {
    let mut server = Server::dev();
    let mut kept = 0;
    for _ in 0..3 {
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(running(&server).await);
        }
        let (told, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let pid = server.pid().to_string();
        let killing = tokio::spawn(async move {
            for _ in 0..10 {
                answered.recv().await;
            }
            Command::new("kill").args(["-9", &pid]).status().expect("kill is there");
        });
        submit_all(&server, &ids, told).await;
        killing.await.expect("no panic");
        server.wait();
        server.start_again();
        for id in ids {
            let result = server.get(&format!("/v1/codeq/tasks/{id}/result"), DEV_TOKEN).await;
            if result.status == 200 {
                kept += 1;
            } else {
                let again = json!([{"name": "f", "contentBase64": base64(&format!("of {id}").repeat(2000))}]);
                assert_eq!(submit(&server, &id, again).await.status, 200, "the task is still its worker's");
            }
            let file = server.get(&format!("/v1/codeq/tasks/{id}/artifacts/f"), DEV_TOKEN).await;
            assert_eq!((file.status, file.text), (200, format!("of {id}").repeat(2000)));
        }
    }
    assert!(kept >= 30, "ten were answered in every round");
}
