//! `compose.yaml` and `.env`.

use super::access::Access;
use super::size::Size;
use super::{Bundle, DOCKERFILE, Install, Written};
use serde_json::json;

pub fn bundle(install: &Install, access: &Access) -> anyhow::Result<Bundle> {
    let size = install.size.unwrap_or(Size::Dev);
    let compose = Written { name: "compose.yaml".into(), text: compose(install, size)? };
    let env = Written { name: ".env".into(), text: env(install, access, size) };
    let file = install.output_dir.join("compose.yaml").display().to_string();
    let mut up: Vec<String> = ["docker", "compose", "-f", &file, "up", "-d"].map(String::from).to_vec();
    if install.build {
        up.push("--build".into());
    }
    Ok(Bundle { files: vec![compose, env], commands: vec![up] })
}

fn compose(install: &Install, size: Size) -> anyhow::Result<String> {
    let build = match install.build {
        true => format!(
            "    build:\n      context: {}\n      dockerfile: {DOCKERFILE}\n",
            quoted(&install.build_context()?)
        ),
        false => String::new(),
    };
    // A development server is for this machine only.
    let port = if size == Size::Dev { "127.0.0.1:8080:8080" } else { "8080:8080" };
    Ok(format!(
        r#"# codeQ, written by `codeq install`. Settings and secrets are in .env.
name: {release}
services:
  codeq:
    image: {image}
{build}    command: [serve]
    env_file: [.env]
    ports: ["{port}"]
    volumes: ["data:/var/lib/codeq"]
    restart: unless-stopped
    stop_grace_period: 20s
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    cpus: {cpus}
    mem_limit: {memory}m
    healthcheck:
      test: [CMD, /usr/bin/codeq, health]
      interval: 10s
      timeout: 5s
      start_period: 30s
volumes:
  data: {{}}
"#,
        release = quoted(&install.release),
        image = quoted(&install.image()),
        cpus = size.cpus(),
        memory = size.memory_mib(),
    ))
}

fn env(install: &Install, access: &Access, size: Size) -> String {
    let mut text = "# Settings of the server. Keep this file to yourself: it holds secrets.\n".to_owned();
    for (side, token) in &access.tokens {
        text += &format!("# {side} token: {token}\n");
    }
    let (provider, persistence) = match &install.redis_addr {
        Some(addr) => ("kvrocks", json!({"addr": addr})),
        None => ("embedded", json!({"path": "/var/lib/codeq/data", "numShards": size.shards()})),
    };
    let mut pairs = vec![
        ("PORT", "8080".to_owned()),
        ("ENV", if size == Size::Dev { "dev".into() } else { "prod".to_owned() }),
        ("PERSISTENCE_PROVIDER", provider.into()),
        ("PERSISTENCE_CONFIG", persistence.to_string()),
        ("LOCAL_ARTIFACTS_DIR", "/var/lib/codeq/artifacts".into()),
    ];
    pairs.extend(access.env.iter().chain(&access.secrets).cloned());
    for (name, value) in pairs {
        text += &format!("{name}={}\n", literal(&value));
    }
    text
}

/// A value that Compose takes as it stands.
fn literal(value: &str) -> String {
    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c));
    if is_plain { value.to_owned() } else { format!("'{}'", value.replace('\'', r"\'")) }
}

/// A string in YAML; what is a string in JSON is one there as well.
pub fn quoted(text: &str) -> String {
    json!(text).to_string()
}
