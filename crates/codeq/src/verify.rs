//! `codeq verify`: the offline check of a data directory.

use anyhow::bail;
use codeq_store::local::{Verified, verify};
use serde_json::json;
use std::path::PathBuf;

/// Check a data directory that no server uses.
///
/// Reads everything, checks every checksum, and checks that every live task is in exactly one place.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq verify --data-dir ./codeq-data")]
pub struct Verify {
    /// Data directory; no server may be using it.
    #[arg(long, default_value = "./codeq-data")]
    data_dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> anyhow::Result<()> {
        let verified = verify(&self.data_dir)?;
        match self.json {
            true => crate::say!("{}", as_json(&verified)),
            false => crate::terminal::print(&as_text(&verified)),
        }
        match verified.problems.len() {
            0 => Ok(()),
            1 => bail!("{}: 1 problem", self.data_dir.display()),
            count => bail!("{}: {count} problems", self.data_dir.display()),
        }
    }
}

fn as_text(verified: &Verified) -> String {
    let Verified {
        shards,
        live,
        ready,
        delayed,
        running,
        dead,
        finished,
        deliveries,
        frames,
        torn_bytes,
        ..
    } = verified;
    let mut text = format!(
        "shards      {shards}\n\
         live tasks  {live} ({ready} ready, {delayed} delayed, {running} running)\n\
         dead        {dead}\n\
         finished    {finished}\n\
         callbacks   {deliveries}\n\
         journal     {frames} frames, {torn_bytes} torn bytes to be cut off\n"
    );
    for problem in &verified.problems {
        text += &format!("problem     {problem}\n");
    }
    if verified.problems.is_empty() {
        text += "no problems\n";
    }
    text
}

fn as_json(verified: &Verified) -> serde_json::Value {
    json!({
        "shards": verified.shards,
        "live": verified.live,
        "ready": verified.ready,
        "delayed": verified.delayed,
        "running": verified.running,
        "dead": verified.dead,
        "finished": verified.finished,
        "deliveries": verified.deliveries,
        "frames": verified.frames,
        "tornBytes": verified.torn_bytes,
        "problems": verified.problems,
    })
}
