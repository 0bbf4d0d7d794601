//! `codeq queue watch`: queues as they fill and drain.

use super::rates::Rates;
use super::{counts, oldest, views};
use crate::client::Api;
use crate::command::CommandName;
use crate::table::Table;
use crate::{say, terminal};
use codeq_api::admin::{QueueStats, QueueView};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Watch the counts of queues until interrupted.
///
/// On a terminal the table is redrawn in place; elsewhere every refresh prints a line per queue.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq queue watch\n  codeq queue watch demo --interval 0.5\n  \
    codeq queue watch demo --until-empty\n  codeq queue watch --count 3 | cat")]
pub struct Watch {
    #[command(flatten)]
    of: CommandName,
    /// Seconds between refreshes.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    interval: f64,
    /// Stop after this many refreshes.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Stop once nothing is ready, delayed or running.
    #[arg(long)]
    until_empty: bool,
    /// Queues of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    /// Print the queues of every refresh as a JSON array, one per line.
    #[arg(long)]
    json: bool,
}

impl Watch {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(self.interval.clamp(0.1, 3600.0)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut screen = Screen { is_terminal: std::io::stdout().is_terminal(), drawn: 0 };
        let only = self.of.name();
        let mut rates = Rates::default();
        let mut left = self.count.unwrap_or(u64::MAX);
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        while left > 0 {
            tokio::select! {
                _ = &mut interrupted => return Ok(()),
                _ = ticks.tick() => {}
            }
            rates.read(api).await;
            let mut queues = views(api, self.tenant.as_deref()).await?;
            if let Some(command) = &only {
                queues.retain(|queue| queue.stats.command.eq_ignore_ascii_case(command));
            }
            match self.json {
                true => say!("{}", serde_json::to_string(&queues)?),
                false => screen.show(&queues, &rates),
            }
            left -= 1;
            if self.until_empty && queues.iter().all(is_empty) {
                break;
            }
        }
        Ok(())
    }
}

/// Dead letters stay until somebody looks after them.
fn is_empty(queue: &QueueView<'_>) -> bool {
    let QueueStats { ready, delayed, in_progress, .. } = queue.stats;
    ready + delayed + in_progress == 0
}

struct Screen {
    is_terminal: bool,
    /// Lines of ours above the cursor.
    drawn: usize,
}

impl Screen {
    fn show(&mut self, queues: &[QueueView<'_>], rates: &Rates) {
        if !self.is_terminal {
            return lines(queues, rates);
        }
        let mut lines = table(queues, rates).lines();
        let room = terminal::rows().saturating_sub(2).max(2);
        if lines.len() > room {
            let hidden = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(format!("… and {hidden} more"));
        }
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        self.drawn = lines.len();
        terminal::print(&format!("{up}\r\x1b[J{}\n", lines.join("\n")));
    }
}

fn table(queues: &[QueueView<'_>], rates: &Rates) -> Table {
    let head = ["COMMAND", "READY", "DELAYED", "RUNNING", "DEAD", "FAILED", "OLDEST", "IN", "OUT", "STATE"];
    let mut table = Table::new(&head);
    for queue in queues {
        let [ready, delayed, running, dead, failed] = counts(queue);
        let (coming, going) = rates.of(&queue.stats.command);
        let state = if queue.paused { "paused" } else { "open" };
        let command = queue.stats.command.to_string();
        let row =
            [command, ready, delayed, running, dead, failed, oldest(queue), coming, going, state.into()];
        table.row(row.to_vec());
    }
    table
}

fn lines(queues: &[QueueView<'_>], rates: &Rates) {
    if queues.is_empty() {
        say!("no queues");
    }
    for queue in queues {
        let [ready, delayed, running, dead, failed] = counts(queue);
        let (coming, going) = rates.of(&queue.stats.command);
        let paused = if queue.paused { " paused" } else { "" };
        say!(
            "{} ready={ready} delayed={delayed} running={running} dead={dead} failed={failed} oldest={} in={coming} out={going}{paused}",
            queue.stats.command,
            oldest(queue)
        );
    }
}
