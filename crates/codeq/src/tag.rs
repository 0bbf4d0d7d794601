//! The words in front of what the CLI says, coloured only on a terminal and without `NO_COLOR`.

use std::io::IsTerminal;

/// <https://no-color.org>: set and not empty.
fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn tag(word: &str, colour: u8, is_terminal: bool) -> String {
    match is_terminal && !is_plain() {
        true => format!("\x1b[{colour}m[{word}]\x1b[0m"),
        false => format!("[{word}]"),
    }
}

pub fn ok() -> String {
    tag("OK", 32, std::io::stdout().is_terminal())
}

/// A warning among what a command prints goes to stdout; one beside it to stderr.
pub fn warn_aside() -> String {
    tag("WARN", 33, std::io::stderr().is_terminal())
}

pub fn info() -> String {
    tag("INFO", 36, std::io::stdout().is_terminal())
}

pub fn warn() -> String {
    tag("WARN", 33, std::io::stdout().is_terminal())
}

/// An error among other lines on stdout; the one that ends a command goes to stderr.
pub fn failed() -> String {
    tag("ERROR", 31, std::io::stdout().is_terminal())
}

pub fn error() -> String {
    tag("ERROR", 31, std::io::stderr().is_terminal())
}
