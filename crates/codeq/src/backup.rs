//! `codeq backup` and `codeq restore`: everything of an embedded store in one file, and back.

use crate::client::{Api, Connection, block_on, encoded};
use crate::transfer::private_file;
use crate::{say, tag};
use anyhow::{Context, bail};
use codeq_store::local::restore;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Method;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time a backup may take.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Back up a running server with an embedded store, as of one instant.
///
/// The backup holds every tenant, so the token needs the scope `codeq:operator`. Artifacts are separate files and
/// are not included. The file is readable by its owner only.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq backup --to codeq.backup\n  codeq backup --to /backups --rate 20")]
pub struct Backup {
    /// File to write, or a directory in which to create a file named by the time.
    #[arg(long)]
    to: PathBuf,
    /// Maximum megabytes per second.
    #[arg(long, default_value_t = 64.0)]
    rate: f64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Backup {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        let file = target(&self.to)?;
        let path = format!("/admin/backup?mbPerSecond={}", encoded(&self.rate.to_string()));
        let request = api.request(Method::GET, &path).timeout(TIMEOUT);
        // Under its name only once it is whole.
        let draft = file.with_extension("part");
        let written = block_on(download(&api, request, &draft));
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                return Err(error);
            }
        };
        std::fs::rename(&draft, &file).with_context(|| format!("cannot make {}", file.display()))?;
        match self.json {
            true => say!("{}", serde_json::json!({"file": file, "bytes": bytes})),
            false => say!("{} Backed up to {} ({:.1} MB)", tag::ok(), file.display(), bytes as f64 / 1e6),
        }
        Ok(())
    }
}

fn target(to: &Path) -> anyhow::Result<PathBuf> {
    if !to.is_dir() {
        return Ok(to.to_path_buf());
    }
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).context("the clock is off")?;
    Ok(to.join(format!("codeq-{}.backup", now.as_secs())))
}

async fn download(api: &Api, request: reqwest::RequestBuilder, to: &Path) -> anyhow::Result<u64> {
    let mut response = api.accepted(request).await?;
    let mut file = private_file(to)?;
    let bar = bar("bytes backed up");
    let mut bytes = 0;
    let mut tail = Vec::new();
    while let Some(chunk) = response.chunk().await.context("the backup broke off")? {
        file.write_all(&chunk).with_context(|| format!("cannot write {}", to.display()))?;
        bytes += chunk.len() as u64;
        bar.set_position(bytes);
        tail.extend_from_slice(&chunk[chunk.len().saturating_sub(17)..]);
        tail.drain(..tail.len().saturating_sub(17));
    }
    bar.finish_and_clear();
    // The last piece is a mark, a count and a checksum; `codeq restore` checks them.
    if tail.first() != Some(&255) {
        bail!("the backup broke off: the server ended it too soon");
    }
    file.sync_all().with_context(|| format!("cannot sync {}", to.display()))?;
    Ok(bytes)
}

fn bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bytes} {msg} ({bytes_per_sec})");
    let bar = ProgressBar::no_length().with_message(what);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// Create a data directory from a backup.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq restore --from codeq.backup --data-dir ./restored\n  \
    codeq dev --data-dir ./restored")]
pub struct Restore {
    /// File with the backup.
    #[arg(long)]
    from: PathBuf,
    /// Directory to create; it must be empty or not exist.
    #[arg(long, default_value = "./codeq-data")]
    data_dir: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub fn run(self) -> anyhow::Result<()> {
        let file = File::open(&self.from).with_context(|| format!("cannot read {}", self.from.display()))?;
        let existed = self.data_dir.exists();
        let is_ours = is_empty(&self.data_dir);
        let bar = bar("bytes restored");
        let mut told = |bytes| bar.set_position(bytes);
        let restored = restore(&mut BufReader::with_capacity(1 << 20, file), &self.data_dir, &mut told);
        bar.finish_and_clear();
        if restored.is_err() && is_ours {
            discard(&self.data_dir, existed);
        }
        let restored = restored.with_context(|| format!("cannot restore {}", self.from.display()))?;
        let directory = self.data_dir.display();
        match self.json {
            true => say!(
                "{}",
                serde_json::json!({"dataDir": self.data_dir, "shards": restored.shards, "rows": restored.rows,
                    "bytes": restored.bytes})
            ),
            false => {
                say!("{} Restored {} rows to {directory}", tag::ok(), restored.rows);
                say!("{} check: codeq verify --data-dir {directory}", tag::info());
                if restored.shards != 1 {
                    say!("{} numShards is {} in this directory", tag::info(), restored.shards);
                }
            }
        }
        Ok(())
    }
}

/// Whether everything that will be there after a restore comes from it.
fn is_empty(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Removes what a failed restore has written: half a store is none, and in the way of the next try.
fn discard(directory: &Path, existed: bool) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
    if !existed {
        let _ = std::fs::remove_dir(directory);
    }
}
