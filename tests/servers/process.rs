//! `codeq serve` as a process that is killed and started again.

use super::power::Power;
use anyhow::{Context, bail, ensure};
use rand::rngs::SmallRng;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A server that does not listen by then does not start.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Default, Debug)]
pub struct Addresses {
    pub http: String,
    pub producers: String,
    pub workers: String,
}

pub struct Server {
    binary: PathBuf,
    config: PathBuf,
    child: Option<Child>,
    panics: Arc<AtomicU64>,
    power: Option<Power>,
    lost: usize,
}

impl Server {
    /// Not started yet. With `power` a kill also takes back what was not synced.
    pub fn new(
        binary: &Path,
        directory: &Path,
        config: &Value,
        power: Option<Power>,
    ) -> anyhow::Result<Server> {
        std::fs::create_dir_all(directory)?;
        let file = directory.join("config.yaml");
        std::fs::write(&file, config.to_string()).context("the configuration cannot be written")?;
        let binary = binary.to_owned();
        Ok(Server { binary, config: file, child: None, panics: Arc::default(), power, lost: 0 })
    }

    /// Starts the process and waits until it listens.
    pub fn start(&mut self) -> anyhow::Result<Addresses> {
        let said = self.spawn()?;
        said.recv_timeout(PATIENCE).context("the server did not start; its errors are above")
    }

    /// Starts the process and kills it after a while, whatever it does by then.
    pub fn start_in_vain(&mut self, after: Duration, random: &mut SmallRng) -> anyhow::Result<()> {
        let _said = self.spawn()?;
        std::thread::sleep(after);
        self.kill(random)
    }

    fn spawn(&mut self) -> anyhow::Result<Receiver<Addresses>> {
        ensure!(self.child.is_none(), "the server runs already");
        let mut command = Command::new(&self.binary);
        command.env_clear().arg("serve").arg("--config").arg(&self.config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(power) = &self.power {
            power.watch(&mut command);
        }
        let mut child =
            command.spawn().with_context(|| format!("{} cannot be run", self.binary.display()))?;
        let (sender, said) = channel();
        let output = child.stdout.take().context("the output is piped")?;
        let errors = child.stderr.take().context("the errors are piped")?;
        std::thread::spawn(move || hear(output, &sender));
        let panics = self.panics.clone();
        std::thread::spawn(move || pass_on(errors, &panics));
        self.child = Some(child);
        Ok(said)
    }

    /// `kill -9`, and the loss of power if there is one. Fails if the process has ended by itself before.
    pub fn kill(&mut self, random: &mut SmallRng) -> anyhow::Result<()> {
        let mut child = self.child.take().context("the server does not run")?;
        let ended = child.try_wait()?;
        child.kill()?;
        child.wait()?;
        if let Some(power) = &self.power {
            self.lost += power.lose(random)?;
        }
        match ended {
            None => Ok(()),
            Some(status) => bail!("the server ended by itself: {status}"),
        }
    }

    /// Changes to files that were taken back.
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// Panics that all processes so far have reported.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Tells the addresses once the server listens, and reads on so that the pipe does not fill.
fn hear(output: ChildStdout, listens: &Sender<Addresses>) {
    let mut addresses = Addresses::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        let address = format!("http://{}", line["addr"].as_str().unwrap_or_default());
        match line["msg"].as_str() {
            Some("worker streaming gRPC enabled") => addresses.workers = address,
            Some("producer streaming gRPC enabled") => addresses.producers = address,
            Some("listening") => {
                addresses.http = address;
                let _ = listens.send(addresses.clone());
            }
            _ => {}
        }
    }
}

fn pass_on(errors: ChildStderr, panics: &AtomicU64) {
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        panics.fetch_add(u64::from(line.contains("panicked at")), Ordering::Relaxed);
        eprintln!("{line}");
    }
}
