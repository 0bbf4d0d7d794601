//! The benches over a store that several servers share.

use super::Redis;
use serde_json::Value;
use tokio::process::Command;

async fn rows(redis: &Redis, arguments: &[&str]) -> Vec<(String, f64)> {
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.args(arguments).args(["--store", "kvrocks", "--redis-url", &url, "--json"]);
    let output = command.output().await.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rows = report["rows"].as_array().expect("rows").iter();
    rows.map(|row| (row["name"].to_string(), row["per_second"].as_f64().expect("a rate"))).collect()
}

#[tokio::test]
async fn a_server_over_redis_is_compared_with_a_bare_loop() {
    let redis = Redis::start().await;
    let http = ["bench", "http", "--seconds", "0.4", "--connections", "4", "--backlog", "200"];
    let measured = rows(&redis, &http).await;
    let names: Vec<&str> = measured.iter().map(|(name, _)| name.trim_matches('"')).collect();
    let all = "bare create claim submit cycle batch-create batch-claim batch-submit wake";
    assert_eq!(names.join(" "), all);
    assert!(measured.iter().all(|(_, rate)| *rate > 0.0), "{measured:?}");
}

#[tokio::test]
async fn streams_over_redis_are_compared_with_an_echo() {
    let redis = Redis::start().await;
    let measured = rows(&redis, &["bench", "grpc", "--seconds", "0.3", "--streams", "2"]).await;
    let names: Vec<&str> = measured.iter().map(|(name, _)| name.trim_matches('"')).collect();
    assert_eq!(names.join(" "), "echo-single kvrocks-single echo-batch kvrocks-batch wake");
    assert!(measured.iter().all(|(_, rate)| *rate > 0.0), "{measured:?}");
}
