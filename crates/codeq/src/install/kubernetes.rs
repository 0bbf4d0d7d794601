//! `values.yaml`, and the chart it is for.

use super::access::Access;
use super::size::Size;
use super::{Bundle, DOCKERFILE, Install, Written, chart};
use serde_json::{Map, Value, json};
use std::path::Path;

pub fn bundle(install: &Install, access: &Access) -> anyhow::Result<Bundle> {
    let size = install.size.unwrap_or(Size::Small);
    let values = serde_saphyr::to_string(&values(install, access, size))?;
    let head = "# codeQ, written by `codeq install`. Keep this file to yourself: it holds secrets.\n";
    let mut files = vec![Written { name: "values.yaml".into(), text: format!("{head}{values}") }];
    let chart = match Path::new(&install.chart).exists() || is_remote(&install.chart) {
        true => install.chart.clone(),
        false => {
            files.extend(chart::files("helm/codeq"));
            install.output_dir.join("helm/codeq").display().to_string()
        }
    };
    Ok(Bundle { files, commands: commands(install, &chart)? })
}

/// A chart that is not a path: `oci://...`, or `repository/chart` of a repository that Helm knows.
fn is_remote(chart: &str) -> bool {
    chart.contains("://") || !(chart.starts_with('.') || chart.starts_with('/'))
}

fn commands(install: &Install, chart: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let mut commands = Vec::new();
    if install.build {
        let context = install.build_context()?;
        let file = format!("{context}/{DOCKERFILE}");
        let build = ["docker", "build", "-f", &file, "-t", &install.image(), &context];
        commands.push(build.map(String::from).to_vec());
    }
    let values = install.output_dir.join("values.yaml").display().to_string();
    let upgrade = [
        "helm",
        "upgrade",
        "--install",
        &install.release,
        chart,
        "--namespace",
        &install.namespace,
        "--create-namespace",
        "--values",
        &values,
    ];
    commands.push(upgrade.map(String::from).to_vec());
    Ok(commands)
}

fn values(install: &Install, access: &Access, size: Size) -> Value {
    let image = install.image();
    // The last colon begins a tag unless it belongs to the port of a host.
    let (repository, tag) = match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository.to_owned(), tag.to_owned()),
        _ => (image, "latest".to_owned()),
    };
    let store = match &install.redis_addr {
        Some(addr) => json!({"provider": "kvrocks", "kvrocks": {"addr": addr}}),
        None => {
            let disk = format!("{}Gi", size.disk_gib());
            json!({"provider": "embedded", "embedded": {"shards": size.shards(), "size": disk}})
        }
    };
    let pairs = |pairs: &[(&'static str, String)]| {
        Map::from_iter(pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))))
    };
    let domain = install.domain.clone().unwrap_or_default();
    let memory = format!("{}Mi", size.memory_mib());
    json!({
        "image": {"repository": repository, "tag": tag},
        "replicaCount": size.replicas(),
        "store": store,
        "env": pairs(&access.env),
        "secrets": pairs(&access.secrets),
        "ingress": {"enabled": !domain.is_empty(), "host": domain},
        "resources": {
            "requests": {"cpu": format!("{}m", size.cpus() * 500), "memory": memory},
            "limits": {"memory": memory},
        },
    })
}
