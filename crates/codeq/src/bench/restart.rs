//! `codeq bench store --restart N`: how long opening takes after kill -9.

use super::drive::drive;
use super::meter::rss_mb;
use super::report::{self, Row};
use super::store::{fill, new_task, rules};
use anyhow::Context;
use codeq_queue::OperatorStore;
use codeq_store::local::{self, LocalOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Fill {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    tasks: u64,
}

impl Fill {
    pub fn run(self) -> anyhow::Result<()> {
        let store =
            local::open(LocalOptions { rules: rules(86_400.0), ..LocalOptions::new(self.directory) })?;
        let filled = store.clone();
        let filling = async move { fill(&*filled, &new_task(), self.tasks, |done| println!("{done}")).await };
        drive(vec![Box::pin(filling)])?;
        println!("filled");
        std::io::stdout().flush()?;
        loop {
            std::thread::park();
        }
    }
}

#[derive(clap::Args)]
pub struct Open {
    #[arg(long)]
    directory: PathBuf,
}

impl Open {
    pub fn run(self) -> anyhow::Result<()> {
        let at = Instant::now();
        let store =
            local::open(LocalOptions { rules: rules(86_400.0), ..LocalOptions::new(self.directory) })?;
        let open_ms = at.elapsed().as_millis();
        let rss = rss_mb();
        drive(vec![Box::pin(async move {
            let queues = store.queues(None).await?;
            let ready: u64 = queues.iter().map(codeq_queue::QueueStats::ready_total).sum();
            println!("{open_ms} {rss} {ready}");
            Ok(())
        })])
    }
}

/// Fills a store in a process of its own, kills that, and opens the store in another.
pub fn measure(root: &Path, tasks: u64) -> anyhow::Result<Row> {
    let directory = root.join("restart");
    let program = std::env::current_exe()?;
    let mut filler = Command::new(&program)
        .args(["bench", "fill", "--tasks", &tasks.to_string(), "--directory"])
        .arg(&directory)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = filler.stdout.take().context("the filler's output is piped")?;
    let mut is_filled = false;
    for line in BufReader::new(output).lines() {
        let line = line?;
        is_filled = line == "filled";
        if is_filled {
            break;
        }
        report::progress(&format!("filling: {line} of {tasks}"));
    }
    filler.kill()?;
    filler.wait()?;
    anyhow::ensure!(is_filled, "the filling process ended early");
    report::progress("opening");
    let opened = Command::new(&program).args(["bench", "open", "--directory"]).arg(&directory).output()?;
    let text = String::from_utf8_lossy(&opened.stdout).into_owned();
    let mut fields = text.split_whitespace();
    let mut field = || {
        fields.next().with_context(|| {
            format!("the opening process said: {text}{}", String::from_utf8_lossy(&opened.stderr))
        })
    };
    let (open_ms, rss, ready) =
        (field()?.parse::<u64>()?, field()?.parse::<f64>()?, field()?.parse::<u64>()?);
    anyhow::ensure!(ready == tasks, "{tasks} tasks were acknowledged, {ready} are there");
    Ok(Row {
        name: "restart".to_owned(),
        rss_mb: rss.round(),
        backlog: Some(tasks),
        open_ms: Some(open_ms),
        ..Row::default()
    })
}
