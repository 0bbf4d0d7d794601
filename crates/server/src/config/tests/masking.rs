//! No secret is ever shown.

use serde_json::json;

use super::*;

const SECRETS: &str = r#"
persistenceProvider: kvrocks
persistenceConfig: {password: hunter2-a}
redisPassword: hunter2-b
webhookHmacSecret: hunter2-c
identityServiceApiKey: hunter2-d
identityServiceUrl: https://user:hunter2-e@id.example.com
artifacts: {provider: s3, s3: {bucket: b, accessKeyId: hunter2-f, secretAccessKey: hunter2-g}}
sharding: {enabled: true, defaultShard: m, backends: {m: {address: "a:1", password: hunter2-h}}}
producerAuthProvider: multi
producerAuthConfig:
  providers:
    - {type: static, config: {token: hunter2-i, subject: seen, tokne: hunter2-j}}
    - {type: static, config: hunter2-k}
    - {type: jwks, config: {jwksUrl: "https://seen.example.com", issuer: i, audience: a}}
workerAuthProvider: static
workerAuthConfig: '"hunter2-l"'
"#;

#[test]
fn printed_configuration_shows_settings_and_no_secrets() {
    let config = serve(SECRETS).config();
    let shown = config.masked();
    for text in [shown.to_string(), format!("{config:?}"), format!("{config:#?}")] {
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("seen.example.com"), "{text}");
    }
    assert_eq!(shown["webhookHmacSecret"], "***");
    assert_eq!(shown["workerAuthConfig"], "***");
    assert_eq!(shown["identityServiceUrl"], "https://user:***@id.example.com/");
    assert_eq!(
        shown["sharding"]["backends"]["m"],
        json!({"address": "a:1", "password": "***", "db": 0, "poolSize": 10, "sentinel": {}})
    );
    assert_eq!(shown["producerAuthConfig"]["providers"][0]["config"]["subject"], "seen");
}

#[test]
fn printed_configuration_has_every_value_in_use() {
    let shown = enough("port: 9").config().masked();
    assert_eq!(
        (&shown["port"], &shown["redisPassword"], &shown["webhooks"]["timeoutSeconds"]),
        (&json!(9), &json!(""), &json!(15))
    );
    assert_eq!(shown["localArtifactsDir"], "./codeq-data/artifacts");
    assert_eq!(
        shown["persistenceConfig"],
        json!({"path": "./codeq-data", "numShards": 1, "fsyncOnCommit": true})
    );
}

#[test]
fn faults_do_not_repeat_secrets() {
    for yaml in [
        "workerAuthConfig: hunter2",
        "redisPassword: [hunter2]",
        "producerAuthConfig: '{\"token\": hunter2}'",
        "webhookHmacSecret: \"hunter2",
    ] {
        let error = serve(yaml).load().expect_err("a fault");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
