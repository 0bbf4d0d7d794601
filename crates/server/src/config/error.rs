//! Why the server does not start with this configuration.

use std::fmt;

/// One thing that is wrong. Its text names the key or the variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub text: String,
    /// The file and the line, or the variable, that the faulty setting comes from.
    pub place: Option<String>,
    /// The key that a misspelt one was probably meant to be.
    pub meant: Option<String>,
    /// The path of the setting in the file.
    pub(super) key: Option<String>,
}

impl Fault {
    /// A fault of the setting at `key`; where that was set is looked up once all sources were read.
    pub(super) fn of(key: &str, text: impl Into<String>) -> Fault {
        Fault { key: Some(key.to_owned()), ..Fault::from(text.into()) }
    }

    pub(super) fn unknown(key: &str) -> Fault {
        Fault { meant: super::keys::meant_by(key), ..Fault::of(key, format!("unknown key {key}")) }
    }
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault { text, place: None, meant: None, key: None }
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Fault {
        Fault::from(text.to_owned())
    }
}

/// One line: the place, what is wrong, and what was probably meant.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.text)?;
        match &self.meant {
            Some(meant) => write!(f, "; did you mean {meant}?"),
            None => Ok(()),
        }
    }
}

/// All faults of one stage. The text is what follows `[ERROR] ` on stderr.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// A source could not be read: the file, its YAML, a variable or a flag.
    Load(Vec<Fault>),
    /// The values were read but do not make a configuration.
    Invalid(Vec<Fault>),
}

impl ConfigError {
    pub fn faults(&self) -> &[Fault] {
        let (ConfigError::Load(faults) | ConfigError::Invalid(faults)) = self;
        faults
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self {
            ConfigError::Load(_) => "load config",
            ConfigError::Invalid(_) => "invalid config: config validation failed",
        };
        let texts: Vec<&str> = self.faults().iter().map(|fault| fault.text.as_str()).collect();
        write!(f, "{stage}: {}", texts.join("; "))
    }
}

impl std::error::Error for ConfigError {}
