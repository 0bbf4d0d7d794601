//! Why the server does not start with this configuration.

use std::fmt;

/// All faults of one stage. The text is what follows `[ERROR] ` on stderr.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// A source could not be read: the file, its YAML, a variable or a flag.
    Load(Vec<String>),
    /// The values were read but do not make a configuration.
    Invalid(Vec<String>),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Load(faults) => write!(f, "load config: {}", faults.join("; ")),
            ConfigError::Invalid(faults) => {
                write!(f, "invalid config: config validation failed: {}", faults.join("; "))
            }
        }
    }
}

impl std::error::Error for ConfigError {}
