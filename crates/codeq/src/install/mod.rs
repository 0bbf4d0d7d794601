//! `codeq install`: a bundle that runs codeQ on Docker or Kubernetes, as it is written.

mod access;
mod chart;
mod docker;
mod kubernetes;
mod size;

use crate::{say, tag, terminal};
use access::Access;
use anyhow::{Context, bail};
use clap::ValueEnum;
use size::Size;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    #[value(alias = "compose")]
    Docker,
    #[value(aliases = ["k8s", "helm"])]
    Kubernetes,
}

/// Write the files to run codeQ on Docker or Kubernetes, and print how to start it.
///
/// Without an identity provider the bundle holds random tokens for a producer and a worker of one tenant.
#[derive(clap::Args, Clone)]
#[command(after_help = "Examples:\n  codeq install --no-prompt\n  \
    codeq install --target kubernetes --size medium --redis-addr kvrocks:6666 --domain codeq.example.com\n  \
    codeq install --identity-service-url https://id.example.com --execute")]
pub struct Install {
    /// Target to install on [default: docker].
    #[arg(long, value_enum)]
    target: Option<Target>,
    /// Size of the installation [default: dev on Docker, small on Kubernetes].
    #[arg(long, value_enum)]
    size: Option<Size>,
    /// Name of the Helm release or the Compose project.
    #[arg(long, default_value = "codeq")]
    release: String,
    /// Namespace on Kubernetes.
    #[arg(long, default_value = "codeq")]
    namespace: String,
    /// The Helm chart; if it is not there, the one in this binary is written into the bundle.
    #[arg(long, default_value = "./helm/codeq", value_name = "PATH")]
    chart: String,
    /// Directory to write the bundle to.
    #[arg(long, default_value = "codeq-install", value_name = "DIR")]
    output_dir: PathBuf,
    /// The image [default: codeq:<version>].
    #[arg(long)]
    image: Option<String>,
    /// Host name at which the server is reached.
    #[arg(long)]
    domain: Option<String>,
    /// Address of a Kvrocks that keeps the tasks, instead of a volume.
    #[arg(long, value_name = "HOST:PORT")]
    redis_addr: Option<String>,
    /// The identity provider of producers.
    #[arg(long, value_name = "URL")]
    identity_service_url: Option<String>,
    /// The keys of workers' tokens [default: producers may be workers].
    #[arg(long, value_name = "URL")]
    worker_jwks_url: Option<String>,
    /// The issuer of workers' tokens.
    #[arg(long)]
    worker_issuer: Option<String>,
    /// The audience of workers' tokens.
    #[arg(long, default_value = "codeq-worker")]
    worker_audience: String,
    /// Signs webhooks [default: random].
    #[arg(long, value_name = "SECRET")]
    webhook_hmac_secret: Option<String>,
    /// Build the image.
    #[arg(long)]
    build: bool,
    /// The source to build the image from.
    #[arg(long, default_value = ".", value_name = "DIR")]
    build_context: PathBuf,
    /// Start the installation.
    #[arg(long)]
    execute: bool,
    /// Do not prompt; use defaults for what is not given.
    #[arg(long)]
    no_prompt: bool,
}

/// A file of the bundle; the name is relative to its directory.
struct Written {
    name: String,
    text: String,
}

/// What a target needs: files, and commands that start them.
struct Bundle {
    files: Vec<Written>,
    commands: Vec<Vec<String>>,
}

impl Install {
    pub fn run(mut self) -> anyhow::Result<()> {
        self.ask()?;
        let target = self.target.unwrap_or(Target::Docker);
        let access = Access::new(&self)?;
        let bundle = match target {
            Target::Docker => docker::bundle(&self, &access)?,
            Target::Kubernetes => kubernetes::bundle(&self, &access)?,
        };
        for file in &bundle.files {
            write(&self.output_dir, file)?;
        }
        say!("{} Installation bundle written to {}", tag::ok(), self.output_dir.display());
        for file in &bundle.files {
            say!("  {}", self.output_dir.join(&file.name).display());
        }
        if let Some(warning) = &access.warning {
            say!("{} {warning}", tag::warn());
        }
        match self.execute {
            true => bundle.commands.iter().try_for_each(|command| execute(command)),
            false => {
                say!("Next command:");
                bundle.commands.iter().for_each(|command| say!("  {}", shown(command)));
                Ok(())
            }
        }
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        if self.no_prompt || !terminal::can_ask() {
            return Ok(());
        }
        if self.target.is_none() {
            self.target = Some(choose("Target (docker, kubernetes)", "docker")?);
        }
        if self.size.is_none() {
            let default = if self.target == Some(Target::Docker) { "dev" } else { "small" };
            self.size = Some(choose("Size (dev, small, medium, large)", default)?);
        }
        Ok(())
    }

    fn image(&self) -> String {
        self.image.clone().unwrap_or_else(|| format!("codeq:{}", env!("CARGO_PKG_VERSION")))
    }

    /// The directory to build from, as it can be named from anywhere.
    fn build_context(&self) -> anyhow::Result<String> {
        let found = self.build_context.canonicalize();
        let found = found.with_context(|| format!("cannot find {}", self.build_context.display()))?;
        if !found.join(DOCKERFILE).is_file() {
            bail!("{} is not the source of codeQ: it has no {DOCKERFILE}", found.display());
        }
        Ok(found.display().to_string())
    }
}

const DOCKERFILE: &str = "deploy/docker/Dockerfile";

fn choose<T: ValueEnum>(question: &str, default: &str) -> anyhow::Result<T> {
    let answer = terminal::ask(question, default)?;
    T::from_str(&answer, true).map_err(|_| anyhow::anyhow!("{answer:?} is none of these"))
}

/// A bundle holds secrets: its files are for its owner only.
fn write(directory: &Path, file: &Written) -> anyhow::Result<()> {
    let path = directory.join(&file.name);
    let parent = path.parent().unwrap_or(directory);
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let opened = File::options().create(true).truncate(true).write(true).mode(0o600).open(&path);
    let mut opened = opened.with_context(|| format!("cannot write {}", path.display()))?;
    opened.write_all(file.text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn shown(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,".contains(c);
    let word = |word: &String| match word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn execute(command: &[String]) -> anyhow::Result<()> {
    let text = shown(command);
    say!("{} Running: {text}", tag::info());
    let (program, arguments) = command.split_first().context("a command has a program")?;
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    if !status.success() {
        bail!("{program} failed ({status})");
    }
    Ok(())
}
