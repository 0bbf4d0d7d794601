//! `codeq completions`: what a shell needs to complete our commands.

use clap_complete::{Shell, generate};

/// Print the completion script of a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  source <(codeq completions bash)\n  \
    codeq completions zsh > ~/.zfunc/_codeq\n  codeq completions fish > ~/.config/fish/completions/codeq.fish")]
pub struct Completions {
    /// bash, zsh or fish.
    shell: Shell,
}

impl Completions {
    pub fn run(self, mut command: clap::Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "codeq", &mut script);
        crate::terminal::print(&String::from_utf8_lossy(&script));
        Ok(())
    }
}
