use clap::Args;
#[derive(Args)]
pub struct Install {}
impl Install { pub fn run(self) -> anyhow::Result<()> { Ok(()) } }
