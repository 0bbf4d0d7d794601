//! `codeq reference`: the page docs/reference/cli.md, made of what the command line knows about itself.

use clap::{Arg, Command};
use std::fmt::Write;

/// Print the reference of the command line as Markdown.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  codeq reference > docs/reference/cli.md")]
pub struct Reference {}

const HEAD: &str = "# Command line reference\n\nEvery command with its arguments and flags, as `codeq COMMAND --help` \
                    tells them; this page is printed by\n`codeq reference`. For a tour see [the command line]\
                    (../cli.md). Client commands also take the flags of `codeq help connection`.\n";

impl Reference {
    pub fn run(self, command: Command) -> anyhow::Result<()> {
        crate::terminal::print(&page(command));
        Ok(())
    }
}

fn page(mut command: Command) -> String {
    command.build();
    let mut page = HEAD.to_owned();
    for sub in shown(&command) {
        tell(sub, "codeq", &mut page);
    }
    page
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn tell(command: &Command, above: &str, page: &mut String) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = plain(&about);
    let end = if about.ends_with('.') { "" } else { "." };
    let _ = write!(page, "\n## {name}\n\n{about}{end}\n");
    if shown(command).next().is_none() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").lines().next().unwrap_or_default().to_owned();
        let _ = write!(page, "\n```text\n{usage}\n```\n");
        arguments(command, page);
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let (title, lines) = examples.split_once('\n').unwrap_or(("Example:", &examples));
        let _ = write!(page, "\n{title}\n\n```text\n{lines}\n```\n");
    }
    for sub in shown(command) {
        tell(sub, &name, page);
    }
}

fn arguments(command: &Command, page: &mut String) {
    let known = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let rows: Vec<String> = command.get_arguments().filter(known).map(row).collect();
    if !rows.is_empty() {
        let _ = write!(page, "\n| Argument | Meaning |\n|---|---|\n{}\n", rows.join("\n"));
    }
}

/// `| `--priority <N>` | From 0 to 9. Default: 0. |`
fn row(arg: &Arg) -> String {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = plain(&text).replace('\n', " ");
    if !text.ends_with('.') {
        text.push('.');
    }
    let values = arg.get_possible_values();
    let is_switch = !arg.get_action().takes_values();
    if !values.is_empty() && !is_switch {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && !is_switch && !arg.is_hide_default_value_set() {
        let _ = write!(text, " Default: `{}`.", defaults.join(" "));
    }
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    format!("| {short}`{}` | {text} |", form(arg).replace('|', "\\|"))
}

/// `--rate <N>`, or `<ID>` for one that has its place.
fn form(arg: &Arg) -> String {
    let is_switch = !arg.get_action().takes_values();
    let value = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
    match arg.get_long() {
        Some(long) if is_switch => format!("--{long}"),
        Some(long) => format!("--{long} <{value}>"),
        None => format!("<{value}>"),
    }
}

/// Text that Markdown takes as it is: outside of code nothing looks like a tag or ends a cell.
fn plain(text: &str) -> String {
    let parts = text.trim().split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.replace('<', "\\<").replace('|', "\\|").replace('*', "\\*"),
        _ => part.replace('|', "\\|"),
    });
    parts.collect::<Vec<_>>().join("`")
}
