//! Configuration: one struct, its sources, its faults.
//!
//! Later sources win: the defaults, the YAML file, the environment names of the table, the `CODEQ_`
//! names, the flags. [`load`] reads them all and returns either a complete, checked [`Config`] or all
//! faults at once, each naming its key. Nothing here prints a secret.
//!
//! Start at `keys.rs`, the table. `values.rs`, `settings.rs` and `environment.rs` read the sources into one layer;
//! `rules.rs` applies bounds and `derive.rs` what follows from which source; `sections.rs` gives all of it types, `validate.rs`
//! checks what must hold between them, and `build.rs` makes the configuration.

mod address;
mod build;
mod derive;
mod environment;
mod error;
mod keys;
mod lines;
mod masked;
mod model;
mod placeholder;
mod rules;
mod secret;
mod sections;
mod settings;
#[cfg(test)]
mod tests;
mod validate;
mod values;
mod yaml;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use address::ListenAddress;
pub use derive::{DEV_TENANT, DEV_TOKEN};
pub use error::{ConfigError, Fault};
pub use model::{
    Artifacts, AuthProvider, Backend, Config, Durability, Embedded, Kvrocks, Limits, Mode, Oidc, Persistence,
    RateLimit, RateLimits, S3, Sentinel, Sharding, Streams, Tasks, TlsFiles, Tracing, Webhooks,
};
pub use secret::{MASK, Secret};

use environment::Variables;
use lines::Lines;
use sections::Sections;
use settings::{Findings, Layer, Settings};

/// The reference: every key with its default, as a file that loads.
pub const DEFAULT_YAML: &str = include_str!("../../../../config.default.yaml");

/// Everything a configuration is made of, taken by the caller from the process.
pub struct Sources {
    pub mode: Mode,
    /// `--config`; must exist.
    pub file: Option<PathBuf>,
    /// All variables of the process.
    pub env: Vec<(String, String)>,
    /// Values of flags by the path of their key, such as `("port", "9000")`.
    pub flags: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// To be logged once the log is open.
    pub warnings: Vec<String>,
}

/// Reads and checks all sources.
pub fn load(sources: Sources) -> Result<Loaded, ConfigError> {
    let mode = sources.mode;
    let mut findings = Findings::default();
    let settings = read(sources, &mut findings);
    check(settings, mode, findings)
}

/// Reads and checks all sources for a tool that works on the shards of a Kvrocks and serves nobody: it needs
/// neither auth nor webhooks, and backends alone say which store it is.
pub fn load_shards(sources: Sources) -> Result<Loaded, ConfigError> {
    let mode = sources.mode;
    let mut findings = Findings::default();
    let mut settings = read(sources, &mut findings);
    if !settings.map("sharding.backends").is_empty() {
        settings.put("sharding.enabled", true);
        if !settings.is_set("persistenceProvider") {
            settings.put("persistenceProvider", "kvrocks");
        }
    }
    prepare(&mut settings, mode, &mut findings)?;
    let sections = Sections::of(&settings);
    findings.faults.extend(validate::shard_faults(&sections).into_iter().map(Fault::from));
    built(sections, &settings, findings)
}

/// Reads and checks the text of a file as the only source.
pub fn load_text(text: &str, mode: Mode) -> Result<Loaded, ConfigError> {
    let (mut settings, mut findings) = (Settings::defaults(mode), Findings::default());
    match yaml::parse(text) {
        Ok(value) => take_file(&mut settings, value, &mut findings),
        Err(fault) => findings.faults.push(fault.into()),
    }
    if findings.faults.is_empty() {
        derive::choose_provider(&mut settings, mode, &mut findings);
        derive::drop_foreign_keys(&mut settings, &mut findings);
    }
    check(settings, mode, findings)
}

fn check(mut settings: Settings, mode: Mode, mut findings: Findings) -> Result<Loaded, ConfigError> {
    prepare(&mut settings, mode, &mut findings)?;
    let sections = Sections::of(&settings);
    let is_worker_automatic = derive::is_automatic(&settings, "workerAuthProvider");
    let mut faults = validate::faults(&sections, mode, is_worker_automatic);
    faults.extend(settings.unsupported.iter().map(|name| format!("{name} is not supported")));
    findings.faults.extend(faults.into_iter().map(Fault::from));
    built(sections, &settings, findings)
}

/// Bounds, replacements, and what follows from other settings.
fn prepare(settings: &mut Settings, mode: Mode, findings: &mut Findings) -> Result<(), ConfigError> {
    if !findings.faults.is_empty() {
        // What could be read is judged as well: a misspelt key must not hide a wrong value.
        rules::apply(settings, findings);
        return Err(ConfigError::Load(std::mem::take(&mut findings.faults)));
    }
    if mode == Mode::Dev {
        derive::force_loopback(settings, findings);
    }
    rules::apply(settings, findings);
    derive::apply(settings, mode, findings);
    Ok(())
}

fn built(sections: Sections, settings: &Settings, findings: Findings) -> Result<Loaded, ConfigError> {
    if !findings.faults.is_empty() {
        return Err(ConfigError::Invalid(findings.faults));
    }
    let config = build::config(sections, settings.mode(), masked::shown(settings));
    Ok(Loaded { config, warnings: findings.warnings })
}

fn read(sources: Sources, findings: &mut Findings) -> Settings {
    let mut settings = Settings::defaults(sources.mode);
    let variables = environment::variables(sources.env);
    let file = read_file(sources.file.as_deref(), &variables, findings);
    // A file that could not be read may have named the provider.
    let is_provider_known = findings.faults.is_empty();
    if let Some((path, (value, lines))) = file {
        settings.note_file(path, lines);
        take_file(&mut settings, value, findings);
    }
    environment::take(&mut settings, &variables, findings);
    environment::take_flags(&mut settings, &sources.flags, findings);
    if is_provider_known {
        derive::choose_provider(&mut settings, sources.mode, findings);
        derive::drop_foreign_keys(&mut settings, findings);
    }
    settings
}

fn read_file(
    flag: Option<&Path>,
    variables: &Variables,
    findings: &mut Findings,
) -> Option<(String, (Value, Lines))> {
    let named = variables.get(environment::CONFIG_PATH).map(Path::new);
    let path = flag.or(named)?;
    match yaml::read(path) {
        Ok(Some(read)) => return Some((path.display().to_string(), read)),
        Ok(None) if flag.is_some() => {
            findings.faults.push(format!("{}: no such file", path.display()).into());
        }
        Ok(None) => findings.warnings.push(format!(
            "{} names {}, which does not exist",
            environment::CONFIG_PATH,
            path.display()
        )),
        Err(fault) => findings.faults.push(fault.into()),
    }
    None
}

fn take_file(settings: &mut Settings, value: Value, findings: &mut Findings) {
    match value {
        Value::Object(map) => settings.take_map(map, "", Layer::File, findings),
        Value::Null => {}
        _ => findings.faults.push(Fault::from("the configuration file must be a map")),
    }
}
