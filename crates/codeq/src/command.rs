//! The command of a queue, as an argument: `demo` or `--command demo`.

use crate::client::MissingFlag;
use anyhow::bail;

#[derive(clap::Args)]
pub struct CommandName {
    /// Command of the tasks; also given as --command.
    #[arg(value_name = "COMMAND", conflicts_with = "flag")]
    position: Option<String>,
    #[arg(id = "flag", long = "command", alias = "event", value_name = "COMMAND", hide = true)]
    flag: Option<String>,
}

impl CommandName {
    pub fn name(&self) -> Option<String> {
        self.position.clone().or_else(|| self.flag.clone())
    }

    pub fn required(&self) -> anyhow::Result<String> {
        match self.name() {
            Some(name) => Ok(name),
            None => bail!(MissingFlag::new("command is required", "its name, such as `demo`")),
        }
    }
}
