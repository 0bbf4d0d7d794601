//! What is drawn: a head, a table, perhaps the causes of dead letters, and a foot.

use super::{Order, Question, Shown, selected};
use crate::queue::{counts, oldest};
use crate::table::{Table, one_line, plural};
use crate::worker;

const KEYS: &str = "up/down select  s sort  p pause/resume  enter inspect  r/f replay dead/failed  w workers  esc back  q quit";

pub struct Picture {
    head: String,
    table: Vec<String>,
    /// The line of the table that is selected.
    selected: Option<usize>,
    below: Vec<String>,
    foot: String,
}

impl Picture {
    pub fn of(shown: &Shown, base: &str) -> Picture {
        let at = shown.queues.iter().position(|queue| *queue.stats.command == shown.selected);
        Picture {
            head: head(shown, base),
            table: table(shown).lines(),
            // The first line is the head of the table.
            selected: at.map(|at| at + 1),
            below: if shown.lists_workers { workers(shown) } else { causes(shown) },
            foot: foot(shown),
        }
    }

    /// The text that replaces the screen. Lines are cut to its width, the table to its height.
    pub fn text(&self, rows: usize, columns: usize) -> String {
        let below = self.below.len().min(rows / 2);
        let room = rows.saturating_sub(below + 3).max(2);
        let mut lines = vec![cut(&self.head, columns), String::new()];
        lines.extend(self.visible(room).map(|(index, line)| {
            let line = cut(line, columns);
            if Some(index) == self.selected { format!("\x1b[7m{line:<columns$}\x1b[0m") } else { line }
        }));
        lines.extend(self.below.iter().take(below).map(|line| cut(line, columns)));
        lines.resize(rows.saturating_sub(1).max(lines.len()), String::new());
        lines.push(cut(&self.foot, columns));
        format!(
            "\x1b[H{}\x1b[J",
            lines.iter().map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\r\n")
        )
    }

    /// The head of the table and the rows around the selected one.
    fn visible(&self, room: usize) -> impl Iterator<Item = (usize, &String)> {
        let at = self.selected.unwrap_or(1);
        let skipped = (at + 1).saturating_sub(room);
        let lines = self.table.iter().enumerate();
        lines.filter(move |(index, _)| *index == 0 || *index > skipped).take(room)
    }
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
}

fn head(shown: &Shown, base: &str) -> String {
    let sum = |of: fn(&codeq_api::admin::QueueStats<'_>) -> u64| {
        shown.queues.iter().map(|queue| of(&queue.stats)).sum::<u64>()
    };
    let (coming, going) = shown.rates.total();
    format!(
        "codeQ top  {base}  {}  {}  ready {}  running {}  delayed {}  dead {}  failed {}  in {coming:.1}/s  out {going:.1}/s",
        plural(shown.queues.len(), "queue"),
        plural(shown.workers.len(), "worker"),
        sum(|stats| stats.ready),
        sum(|stats| stats.in_progress),
        sum(|stats| stats.delayed),
        sum(|stats| stats.dlq),
        shown.queues.iter().map(|queue| queue.failed).sum::<u64>(),
    )
}

fn table(shown: &Shown) -> Table {
    let mark = |order: Order, name: &str| if shown.order == order { format!("{name}*") } else { name.into() };
    let heads = [
        mark(Order::Name, "COMMAND"),
        mark(Order::Ready, "READY"),
        "DELAYED".into(),
        "RUNNING".into(),
        mark(Order::Dead, "DEAD"),
        "FAILED".into(),
        mark(Order::Oldest, "OLDEST"),
        "IN".into(),
        "OUT".into(),
        "STATE".into(),
    ];
    let mut table = Table::new(&heads.each_ref().map(String::as_str));
    for queue in &shown.queues {
        let [ready, delayed, running, dead, failed] = counts(queue);
        let (coming, going) = shown.rates.of(&queue.stats.command);
        let state = if queue.paused { "paused" } else { "open" };
        let command = queue.stats.command.to_string();
        let row =
            [command, ready, delayed, running, dead, failed, oldest(queue), coming, going, state.into()];
        table.row(row.to_vec());
    }
    table
}

fn workers(shown: &Shown) -> Vec<String> {
    let mut lines = vec![String::new()];
    match shown.workers.is_empty() {
        true => lines.push("No worker was heard of within the last five minutes".into()),
        false => lines.extend(worker::table(&shown.workers).lines()),
    }
    lines
}

fn causes(shown: &Shown) -> Vec<String> {
    let Some([dead, failed]) = &shown.causes else { return Vec::new() };
    let mut lines = vec![String::new()];
    for (title, causes) in [("Dead letters", dead), ("Failed tasks", failed)] {
        lines.push(format!("{title} of {} by cause", shown.selected));
        if causes.is_empty() {
            lines.push("  none".into());
        }
        for cause in causes {
            let error = one_line(cause["error"].as_str().unwrap_or_default());
            lines.push(format!("  {:>7}  {error}", cause["count"].as_u64().unwrap_or(0)));
        }
    }
    lines
}

fn foot(shown: &Shown) -> String {
    match &shown.question {
        Some(Question::Pause(command)) => {
            let ready = selected(shown).map_or(0, |queue| queue.stats.ready);
            format!("Pause {command}? {} will wait. (y/n)", plural(ready, "ready task"))
        }
        Some(Question::Resume(command)) => format!("Resume {command}? (y/n)"),
        Some(Question::Replay(of, command, count)) => {
            format!("Replay {} of {command}? (y/n)", plural(*count, of.noun()))
        }
        None if shown.message.is_empty() => KEYS.into(),
        None => one_line(&shown.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_its_screen_and_shows_the_selected_line() {
        let table = (0..100).map(|n| format!("row {n}")).collect();
        let picture = Picture {
            head: "head".repeat(90),
            table,
            selected: Some(80),
            below: Vec::new(),
            foot: "foot".into(),
        };
        let text = picture.text(10, 20);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 10);
        assert!(text.contains("row 0") && text.contains("row 80") && !text.contains("row 81"), "{text:?}");
        assert!(lines[9].starts_with("foot"), "{text:?}");
    }
}
