//! Input and output of the terminal, or of the pipe in its place.

use anyhow::{Context, bail};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{BufRead, IsTerminal, Write};

/// Lines of a terminal that does not tell how many it has.
const ROWS: usize = 24;

/// Prints a line. A reader that has seen enough (`codeq task list | head`) ends us quietly.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::terminal::print(&format!("{}\n", format_args!($($text)*))) };
}

pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Whether there is somebody to ask.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// What was typed, or the default for an empty line. A pipe is not asked, but read: where it has ended, the
/// default is taken.
pub fn ask(question: &str, default: &str) -> anyhow::Result<String> {
    if !can_ask() {
        let answer = piped_line()?.filter(|answer| !answer.is_empty());
        return Ok(answer.unwrap_or_else(|| default.to_owned()));
    }
    let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    eprint!("{question}{shown}: ");
    let answer = read_line()?;
    Ok(if answer.is_empty() { default.to_owned() } else { answer })
}

/// What was typed without showing it.
pub fn ask_secret(question: &str) -> anyhow::Result<String> {
    if !can_ask() {
        return Ok(piped_line()?.unwrap_or_default());
    }
    eprint!("{question}: ");
    let stdin = std::io::stdin();
    let shown = tcgetattr(&stdin).context("cannot read from this terminal")?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let answer = read_line();
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    eprintln!();
    answer
}

/// Asks before something is changed; with `yes` it does not ask.
pub fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !can_ask() {
        bail!("{question}: there is nobody to ask, pass --yes");
    }
    match ask(&format!("{question}? (y/N)"), "")?.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        bail!("the input ended");
    }
    Ok(line.trim().to_owned())
}

/// The next line of a pipe; none at its end.
fn piped_line() -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    let bytes = std::io::stdin().lock().read_line(&mut line).context("cannot read the input")?;
    Ok((bytes > 0).then(|| line.trim().to_owned()))
}

/// How many lines fit.
pub fn rows() -> usize {
    let size = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    if size == 0 { ROWS } else { size }
}
