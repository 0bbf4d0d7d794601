//! KEDA's external scaler, asked by a client made from its proto.

use super::talk::connect;
use super::{SCOPES, config, server, token};
use crate::harness::Server;
use codeq_api::grpc::scaler::external_scaler_client::ExternalScalerClient;
use codeq_api::grpc::scaler::{GetMetricsRequest, ScaledObjectRef};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

const PATIENCE: Duration = Duration::from_secs(20);

async fn scaler(server: &Server) -> ExternalScalerClient<Channel> {
    ExternalScalerClient::new(connect(&server.worker_streams).await)
}

/// A trigger of KEDA with these keys besides the token.
fn trigger(pairs: &[(&str, &str)]) -> ScaledObjectRef {
    let mut pairs = pairs.to_vec();
    if !pairs.iter().any(|(key, _)| key.starts_with("token")) {
        pairs.push(("tokenFromEnv", "p"));
    }
    // KEDA sends its own keys along.
    pairs.push(("scalerAddress", "codeq:9091"));
    let scaler_metadata = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ScaledObjectRef { name: "workers".to_owned(), namespace: "jobs".to_owned(), scaler_metadata }
}

async fn value(client: &mut ExternalScalerClient<Channel>, trigger: &ScaledObjectRef) -> (String, i64, f64) {
    let request = GetMetricsRequest { scaled_object_ref: Some(trigger.clone()), metric_name: String::new() };
    let answer = client.get_metrics(request).await.expect("metrics").into_inner();
    let [metric] = answer.metric_values.try_into().expect("one metric");
    (metric.metric_name, metric.metric_value, metric.metric_value_float)
}

async fn create(server: &Server, command: &str) {
    let task = json!({"command": command, "payload": {}});
    let answer = server.post("/v1/codeq/tasks", "p", task).await;
    assert_eq!(answer.status, 202, "{}", answer.json);
}

async fn claim(server: &Server, command: &str) -> String {
    let answer = server.post("/v1/codeq/tasks/claim", "w", json!({"commands": [command]})).await;
    answer.json["id"].as_str().expect("a task").to_owned()
}

#[tokio::test]
async fn backlog_running_and_age_are_measured_by_command() {
    let server = server();
    let mut client = scaler(&server).await;
    for command in ["render", "render", "render", "mail", "other"] {
        create(&server, command).await;
    }
    claim(&server, "render").await;
    let both = trigger(&[("command", "render,mail")]);
    assert_eq!(value(&mut client, &both).await, ("codeq-backlog-render-mail".to_owned(), 4, 4.0));
    let running = trigger(&[("command", "render"), ("metric", "running")]);
    assert_eq!(value(&mut client, &running).await, ("codeq-running-render".to_owned(), 1, 1.0));
    let (_, whole, age) = value(&mut client, &trigger(&[("command", "render"), ("metric", "age")])).await;
    assert!(age > 0.0 && age < PATIENCE.as_secs_f64() && whole >= 1, "{age}");
    assert_eq!(value(&mut client, &trigger(&[("command", "nothing")])).await.1, 0);
}

#[tokio::test]
async fn tasks_that_a_limit_holds_back_want_no_workers() {
    let server = server();
    let path = "/v1/codeq/admin/queues/render/policy";
    let put = server.send(Method::PUT, path, Some("p"), Some(br#"{"concurrency":2}"#.to_vec())).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let mut client = scaler(&server).await;
    for _ in 0..9 {
        create(&server, "render").await;
    }
    let render = trigger(&[("command", "render")]);
    for running in 0..3 {
        assert_eq!(value(&mut client, &render).await.1, 2, "with {running} running");
        if running < 2 {
            claim(&server, "render").await;
        }
    }
}

#[tokio::test]
async fn the_target_is_what_the_trigger_says() {
    let server = server();
    let mut client = scaler(&server).await;
    let spec = client.get_metric_spec(trigger(&[("command", "render"), ("target", "2.5")])).await;
    let spec = spec.expect("a spec").into_inner().metric_specs.remove(0);
    assert_eq!(
        (spec.metric_name.as_str(), spec.target_size, spec.target_size_float),
        ("codeq-backlog-render", 3, 2.5)
    );
}

#[tokio::test]
async fn workers_are_wanted_as_soon_as_there_is_work_and_until_it_is_done() {
    let server = server();
    let mut client = scaler(&server).await;
    let render = trigger(&[("command", "render")]);
    let mut told = client.stream_is_active(render.clone()).await.expect("a stream").into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(PATIENCE, told.message()).await.expect("told in time");
        message.expect("the stream goes on").expect("a message").result
    };
    assert!(!next().await, "nothing to do yet");
    create(&server, "render").await;
    assert!(next().await, "a task waits");
    assert!(client.is_active(render.clone()).await.expect("an answer").into_inner().result);
    let id = claim(&server, "render").await;
    assert!(client.is_active(render.clone()).await.expect("an answer").into_inner().result, "a task runs");
    let done = json!({"status": "COMPLETED", "result": {}});
    assert_eq!(server.post(&format!("/v1/codeq/tasks/{id}/result"), "w", done).await.status, 200);
    assert!(!next().await, "all is done");
}

#[tokio::test]
async fn a_token_that_may_read_queues_is_needed() {
    let mut config = config();
    let mut plain = token("plain", "producer", "acme", &[], &[]);
    plain["config"]["raw"]["role"] = json!("USER");
    let mut observer = token("observer", "producer", "acme", &["codeq:observe"], &[]);
    observer["config"]["raw"]["role"] = json!("USER");
    let foreign = token("foreign-admin", "producer", "other", &SCOPES, &[]);
    config["producerAuthProvider"] = json!("multi");
    config["producerAuthConfig"] =
        json!({"providers": [token("p", "producer", "acme", &[], &[]), plain, observer, foreign]});
    let server = Server::serve(config);
    let mut client = scaler(&server).await;
    create(&server, "render").await;
    let mut ask = async |pairs: &[(&str, &str)]| -> Result<bool, Status> {
        client.is_active(trigger(pairs)).await.map(|answer| answer.into_inner().result)
    };
    let refused = |answer: Result<bool, Status>| answer.expect_err("refused").code();
    assert_eq!(ask(&[("command", "render")]).await.ok(), Some(true));
    assert_eq!(ask(&[("command", "render"), ("token", "observer")]).await.ok(), Some(true));
    assert_eq!(ask(&[("command", "render"), ("token", "foreign-admin")]).await.ok(), Some(false));
    assert_eq!(refused(ask(&[("command", "render"), ("token", "plain")]).await), Code::PermissionDenied);
    assert_eq!(refused(ask(&[("command", "render"), ("token", "wrong")]).await), Code::Unauthenticated);
    assert_eq!(refused(ask(&[("command", "render"), ("token", "")]).await), Code::InvalidArgument);
    assert_eq!(refused(ask(&[("command", "render"), ("metric", "speed")]).await), Code::InvalidArgument);
}
