//! The configuration as a whole, from its sources to its faults.

mod derived;
mod dev;
mod examples;
mod faults;
mod masking;
mod sources;
mod types;

use std::io::Write;

use super::*;

/// Enough to start `serve`.
const ENOUGH: &str = "
producerAuthProvider: static
producerAuthConfig: {token: p}
workerAuthProvider: static
workerAuthConfig: {token: w}
webhookHmacSecret: s
";

struct Case {
    mode: Mode,
    yaml: String,
    env: Vec<(&'static str, &'static str)>,
    flags: Vec<(&'static str, &'static str)>,
}

fn serve(yaml: &str) -> Case {
    Case { mode: Mode::Serve, yaml: yaml.into(), env: Vec::new(), flags: Vec::new() }
}

/// A server that starts, with more settings.
fn enough(yaml: &str) -> Case {
    serve(&format!("{ENOUGH}{yaml}"))
}

fn dev(yaml: &str) -> Case {
    Case { mode: Mode::Dev, ..serve(yaml) }
}

impl Case {
    fn env(mut self, env: &[(&'static str, &'static str)]) -> Case {
        self.env.extend(env);
        self
    }

    fn flags(mut self, flags: &[(&'static str, &'static str)]) -> Case {
        self.flags.extend(flags);
        self
    }

    fn load(self) -> Result<Loaded, ConfigError> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(self.yaml.as_bytes()).expect("a written file");
        load(Sources {
            mode: self.mode,
            file: Some(file.path().into()),
            env: self.env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            flags: self.flags.iter().map(|(path, value)| (*path, value.to_string())).collect(),
        })
    }

    fn config(self) -> Config {
        self.load().expect("a configuration without faults").config
    }

    fn warnings(self) -> Vec<String> {
        self.load().expect("a configuration without faults").warnings
    }

    fn load_faults(self) -> Vec<String> {
        match self.load() {
            Err(ConfigError::Load(faults)) => faults.into_iter().map(|fault| fault.text).collect(),
            other => panic!("expected load faults, got {other:?}"),
        }
    }

    fn invalid(self) -> Vec<String> {
        match self.load() {
            Err(ConfigError::Invalid(faults)) => faults.into_iter().map(|fault| fault.text).collect(),
            other => panic!("expected validation faults, got {other:?}"),
        }
    }
}
