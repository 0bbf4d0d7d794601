//! Every key by every source, and which source wins.

use serde_json::{Value, json};

use super::super::keys::{Default, KEYS, Key, Kind, codeq_name};
use super::super::{environment, yaml};
use super::*;

/// A value that is not the default, as a value and as the text of a variable.
fn sample(key: &Key) -> (Value, String) {
    let value = match key.kind {
        Kind::Bool => Value::from(key.default != Default::True),
        Kind::Count(_) | Kind::Few(_) | Kind::Flat(_) | Kind::NotNegative(_) | Kind::Within(..) => {
            Value::from(7)
        }
        Kind::Ratio => Value::from(0.25),
        Kind::Choice(names) => Value::from(names[names.len() - 1]),
        Kind::Policy => Value::from("linear"),
        Kind::Zone => Value::from("Europe/Berlin"),
        Kind::Host => Value::from("127.0.0.2"),
        Kind::Listen => Value::from(":9"),
        Kind::HttpUrl => Value::from("https://example.com"),
        Kind::Auth => json!({"token": "t"}),
        Kind::Shards => json!({"a": "b"}),
        Kind::Backends => json!({"main": {"address": "host:1"}}),
        Kind::Names => json!(["main"]),
        Kind::Sentinel => json!({"addrs": "host:26379", "master": "codeq"}),
        Kind::Plain | Kind::Filled | Kind::Secret => Value::from("sample"),
    };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    (value, text)
}

fn nested(path: &str, value: &Value) -> Value {
    path.rsplit('.').fold(value.clone(), |inner, name| json!({ name: inner }))
}

fn from_environment(name: &str, text: &str) -> Settings {
    let mut settings = Settings::defaults(Mode::Serve);
    let mut findings = Findings::default();
    let variables = environment::variables(vec![(name.to_string(), text.to_string())]);
    environment::take(&mut settings, &variables, &mut findings);
    assert_eq!((findings.faults, findings.warnings), (vec![], vec![]), "{name}");
    settings
}

#[test]
fn every_key_is_read_from_yaml() {
    for key in KEYS {
        let (value, _) = sample(key);
        let mut settings = Settings::defaults(Mode::Serve);
        let mut findings = Findings::default();
        assert_ne!(settings.value(key.path), &value, "{}", key.path);
        let text = nested(key.path, &value).to_string();
        take_file(&mut settings, yaml::parse(&text).expect(&text), &mut findings);
        assert_eq!(findings.faults, [], "{}", key.path);
        assert_eq!(settings.value(key.path), &value, "{}", key.path);
    }
}

#[test]
fn every_key_is_read_from_its_variables() {
    for key in KEYS {
        let (value, text) = sample(key);
        let own = codeq_name(key.path);
        for name in key.env.iter().copied().chain([own.as_str()]) {
            assert_eq!(from_environment(name, &text).value(key.path), &value, "{name}");
        }
    }
}

#[test]
fn every_key_is_read_from_flags() {
    for key in KEYS {
        let (value, text) = sample(key);
        let mut settings = Settings::defaults(Mode::Serve);
        let mut findings = Findings::default();
        environment::take_flags(&mut settings, &[(key.path, text)], &mut findings);
        assert_eq!(findings.faults, [], "{}", key.path);
        assert_eq!(settings.value(key.path), &value, "{}", key.path);
    }
}

#[test]
fn later_sources_win() {
    let file = || enough("port: 1");
    assert_eq!(enough("").config().listen.port, 8080);
    assert_eq!(file().config().listen.port, 1);
    assert_eq!(file().env(&[("PORT", "2")]).config().listen.port, 2);
    let both = &[("CODEQ_PORT", "3"), ("PORT", "2")];
    assert_eq!(file().env(both).config().listen.port, 3);
    assert_eq!(file().env(both).flags(&[("port", "4")]).config().listen.port, 4);
    assert_eq!(file().env(&[("PORT", ""), ("CODEQ_PORT", "")]).config().listen.port, 1);
}

#[test]
fn the_first_of_several_variables_counts() {
    let password = |env: &[(&'static str, &'static str)]| match enough("persistenceProvider: redis")
        .env(env)
        .config()
        .persistence
    {
        Persistence::Kvrocks(kvrocks) => kvrocks.password.expose().to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(password(&[("KVROCKS_PASSWORD", "k")]), "k");
    assert_eq!(password(&[("KVROCKS_PASSWORD", "k"), ("REDIS_PASSWORD", "r")]), "r");
    assert_eq!(password(&[("KVROCKS_PASSWORD", "k"), ("REDIS_PASSWORD", "")]), "k");
}

#[test]
fn a_whole_map_replaces_the_map_and_a_nested_name_one_entry() {
    let embedded = |env: &[(&'static str, &'static str)], flags: &[(&'static str, &'static str)]| {
        let case = enough("persistenceConfig: {path: /file, numShards: 4}").env(env).flags(flags);
        match case.config().persistence {
            Persistence::Embedded(embedded) => (embedded.path.display().to_string(), embedded.num_shards),
            other => panic!("{other:?}"),
        }
    };
    let is = |path: &str, shards| (path.to_string(), shards);
    assert_eq!(embedded(&[], &[]), is("/file", 4));
    assert_eq!(embedded(&[("PERSISTENCE_CONFIG", r#"{"path":"/env"}"#)], &[]), is("/env", 1));
    assert_eq!(embedded(&[("CODEQ_PERSISTENCE_CONFIG_PATH", "/own")], &[]), is("/own", 4));
    assert_eq!(embedded(&[], &[("persistenceConfig.path", "/flag")]), is("/flag", 4));
}

#[test]
fn maps_may_be_json_text_in_the_file() {
    let config = serve(
        r#"
persistenceConfig: '{"path": "/json"}'
producerAuthProvider: static
producerAuthConfig: '{"token": "t"}'
workerAuthProvider: static
workerAuthConfig: '"bare"'
webhookHmacSecret: s
"#,
    )
    .config();
    assert!(
        matches!(config.persistence, Persistence::Embedded(ref embedded) if embedded.path == Path::new("/json"))
    );
    assert_eq!(config.producer_auth.expect("a provider").config, json!({"token": "t"}));
    assert_eq!(config.worker_auth.expect("a provider").config, json!("bare"));
}

#[test]
fn the_named_file_must_exist_and_the_variable_s_need_not() {
    let sources = |file: Option<&str>, env: &[(&str, &str)]| Sources {
        mode: Mode::Dev,
        file: file.map(PathBuf::from),
        env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        flags: Vec::new(),
    };
    let missing = load(sources(Some("/nowhere/codeq.yaml"), &[])).expect_err("no file");
    assert_eq!(missing.to_string(), "load config: /nowhere/codeq.yaml: no such file");
    let skipped = load(sources(None, &[("CODEQ_CONFIG_PATH", "/nowhere/codeq.yaml")])).expect("skipped");
    assert_eq!(skipped.warnings, ["CODEQ_CONFIG_PATH names /nowhere/codeq.yaml, which does not exist"]);
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"port: 5").expect("a written file");
    let named = file.path().to_str().expect("a plain path");
    let loaded = load(sources(None, &[("CODEQ_CONFIG_PATH", named)])).expect("a configuration");
    assert_eq!(loaded.config.listen.port, 5);
}

#[test]
fn fields_of_shards_have_variables_too() {
    let yaml = "
persistenceProvider: kvrocks
sharding: {enabled: true, defaultShard: mainShard, backends: {mainShard: {address: 'a:1', poolSize: 0}}}";
    let env = [
        ("CODEQ_SHARDING_BACKENDS_MAIN_SHARD_PASSWORD", "pw"),
        ("CODEQ_SHARDING_BACKENDS_MAIN_SHARD_DB", "2"),
    ];
    let loaded = enough(yaml).env(&env).load().expect("a configuration");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let Persistence::Kvrocks(kvrocks) = loaded.config.persistence else { panic!("not kvrocks") };
    let sharding = kvrocks.sharding.expect("shards");
    let backend = &sharding.backends["mainShard"];
    assert_eq!((backend.password.expose(), backend.db, backend.pool_size), ("pw", 2, 10));
}

#[test]
fn names_that_are_no_settings() {
    let quiet = [
        ("GIN_MODE", "release"),
        ("CODEQ_PPROF", "1"),
        ("CODEQ_PPROF_ADDR", ":1"),
        ("RAFT_ENABLED", "false"),
        ("RAFT_NODE_ID", "1"),
        ("CLUSTER_PEERS", "x"),
        ("CODEQ_BASE_URL", "x"),
        ("CODEQ_PRODUCER_TOKEN", "x"),
        ("CODEQ_CONFIG_DIR", "x"),
        ("CODEQ_NOTHING", ""),
    ];
    assert_eq!(
        enough("raft: {nodeId: 1}\ncluster: {enabled: false}").env(&quiet).warnings(),
        Vec::<String>::new()
    );
    let odd = enough("").env(&[("CODEQ_PROT", "1")]).warnings();
    assert_eq!(odd, ["unknown variable CODEQ_PROT is ignored"]);
}
