//! `codeq export` and `codeq import`: the tasks of a tenant as JSON lines, and back.

use crate::client::{Connection, block_on, query};
use crate::filter::Filter;
use crate::table::plural;
use crate::{say, tag};
use anyhow::{Context, bail};
use codeq_api::admin::{ExportEnd, ImportedBody};
use reqwest::{Method, Response};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that a transfer may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Bytes of the end of an export in which its last line is looked for.
const LAST_LINE_BYTES: usize = 512;
/// Refused lines of an import that are printed one by one.
const SHOWN_REFUSALS: usize = 20;

/// Export tasks with payloads and results as JSON lines.
///
/// Live tasks are exported unless --status or --place says otherwise. The last line holds the number of tasks and
/// a checksum, so that a file that was cut off cannot be imported by mistake. The file is readable by its owner
/// only, because payloads are in it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq export --to tasks.jsonl\n  \
    codeq export --command demo --place dead --to dead.jsonl\n  codeq export --to - | gzip > tasks.jsonl.gz")]
pub struct Export {
    /// File to write, or '-' for standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Export the tasks of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    connection: Connection,
}

impl Export {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let mut pairs = self.filter.pairs()?;
        pairs.extend(self.tenant.map(|tenant| ("tenant".into(), tenant)));
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            let path = format!("/admin/export{}", query(&pairs));
            let request = api.request(Method::GET, &path).timeout(TRANSFER_TIMEOUT);
            let response = api.accepted(request).await?;
            if self.to == Path::new("-") {
                download(response, &mut std::io::stdout().lock()).await?;
                return Ok(());
            }
            let end = save(response, &self.to).await?;
            match self.json {
                true => {
                    say!("{}", serde_json::json!({"file": self.to, "count": end.count, "sha256": end.sha256}))
                }
                false => {
                    say!("{} Exported {} to {}", tag::ok(), plural(end.count, "task"), self.to.display())
                }
            }
            Ok(())
        })
    }
}

/// Writes the file under its name only once it is whole.
async fn save(response: Response, to: &Path) -> anyhow::Result<ExportEnd> {
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    let draft = PathBuf::from(name);
    let written = async {
        let mut file = private_file(&draft)?;
        let end = download(response, &mut file).await?;
        file.sync_all().with_context(|| format!("cannot sync {}", draft.display()))?;
        std::fs::rename(&draft, to).with_context(|| format!("cannot make {}", to.display()))?;
        Ok(end)
    };
    let written = written.await;
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// A new file that only its owner can read: payloads and results go into it.
pub fn private_file(path: &Path) -> anyhow::Result<File> {
    let _ = std::fs::remove_file(path);
    let file = File::options().create_new(true).write(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

async fn download(mut response: Response, into: &mut impl Write) -> anyhow::Result<ExportEnd> {
    let mut tail: Vec<u8> = Vec::new();
    while let Some(chunk) = response.chunk().await.context("the export broke off")? {
        into.write_all(&chunk).context("cannot write the export")?;
        tail.extend_from_slice(&chunk[chunk.len().saturating_sub(LAST_LINE_BYTES)..]);
        tail.drain(..tail.len().saturating_sub(LAST_LINE_BYTES));
    }
    into.flush().context("cannot write the export")?;
    let text = String::from_utf8_lossy(&tail);
    let end = text.trim_end().lines().next_back().and_then(|line| serde_json::from_str(line).ok());
    end.context("the export broke off: its last line is missing")
}

/// Import tasks from an export.
///
/// Tasks keep their ids; a task whose id exists already is left alone, so an import can be repeated. Exit code 1
/// if a line was refused.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq import --from tasks.jsonl\n  zcat tasks.jsonl.gz | codeq import --from -"
)]
pub struct Import {
    /// File to read, or '-' for standard input.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Import into this tenant (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Print the answer of the server as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Import {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        let body = body(&self.from)?;
        let pairs: Vec<_> = self.tenant.map(|tenant| ("tenant".to_owned(), tenant)).into_iter().collect();
        let path = format!("/admin/import{}", query(&pairs));
        let request = api.request(Method::POST, &path).timeout(TRANSFER_TIMEOUT);
        let request = request.header("content-type", "application/x-ndjson").body(body);
        let answer = block_on(api.text(request))?;
        let imported: ImportedBody = crate::client::read(&answer)?;
        match self.json {
            true => say!("{answer}"),
            false => show(&imported),
        }
        match imported.refused.len() {
            0 => Ok(()),
            1 => bail!("1 line was refused"),
            count => bail!("{count} lines were refused"),
        }
    }
}

fn show(imported: &ImportedBody) {
    say!(
        "{} Imported {}; {} were there already",
        tag::ok(),
        plural(imported.created, "task"),
        imported.existing
    );
    for line in imported.refused.iter().take(SHOWN_REFUSALS) {
        say!("{} line {}: {}", tag::warn(), line.line, crate::table::one_line(&line.error));
    }
}

/// The file as a stream that is read in pieces.
fn body(from: &Path) -> anyhow::Result<reqwest::Body> {
    if from == Path::new("-") {
        return Ok(streamed(std::io::stdin()));
    }
    let file = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    Ok(streamed(file))
}

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 4;

fn streamed(mut from: impl Read + Send + 'static) -> reqwest::Body {
    let (pieces, received) = tokio::sync::mpsc::channel::<std::io::Result<Vec<u8>>>(PIECES_AHEAD);
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let piece = match from.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(received))
}
