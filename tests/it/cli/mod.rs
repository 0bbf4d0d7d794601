//! The command line, as somebody at a terminal uses it: the real binary against a real server.

mod backup;
mod bench;
mod deploy;
mod docs;
mod doctor;
mod install;
mod login;
mod moving;
mod operations;
mod operator;
mod profiles;
mod queues;
mod snippets;
mod stand_in;
mod tasks;
mod tokens;
mod usage;
mod worker_run;
mod worker_start;

use crate::harness::Server;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// What is said where a flag is missing.
pub fn missing(text: &str, flag: &str) -> String {
    format!("[ERROR] {text}\n  next: add {flag}; --help shows examples")
}

/// A home of its own, and the environment that commands run in.
pub struct Cli {
    home: TempDir,
    env: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Cli {
    /// Knows no server.
    pub fn new() -> Cli {
        let home = tempfile::tempdir().expect("a temporary directory");
        Cli { home, env: Vec::new() }
    }

    /// Talks to this server.
    fn of(server: &Server) -> Cli {
        Cli::at(&server.base)
    }

    pub fn at(base: &str) -> Cli {
        Cli::new().with("CODEQ_BASE_URL", base)
    }

    pub fn with(mut self, name: &str, value: &str) -> Cli {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home.path()).current_dir(self.home.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What a command that succeeds prints when this comes through a pipe.
    #[track_caller]
    fn piped(&self, arguments: &[&str], input: &str) -> String {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        Write::write_all(&mut stdin, input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().expect("it was ours");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("it speaks UTF-8")
    }

    /// What a command that succeeds prints.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
        run.stdout
    }

    /// What a command that fails says.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {run:?}");
        assert!(run.stderr.starts_with("[ERROR] "), "{run:?}");
        run.stderr.trim_end().to_owned()
    }

    /// The id of a new task.
    #[track_caller]
    fn create(&self, arguments: &[&str]) -> String {
        let all = ["task", "create"].iter().chain(arguments).copied().collect::<Vec<_>>();
        let said = self.ok(&all);
        said.split_whitespace().next_back().expect("the id is the last word").to_owned()
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, lines }
    }
}

/// A command that goes on until it is told to stop.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// The first line from here on that holds this text.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).expect("it speaks UTF-8");
            assert!(count > 0, "{text:?} is not among\n{seen}");
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
            seen += &line;
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill is there").success());
    }

    /// SIGINT; the exit code, and what was said last.
    fn interrupt(mut self) -> (Option<i32>, String) {
        self.signal("INT");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).expect("it speaks UTF-8");
        (self.child.wait().expect("it was ours").code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn write(path: &Path, text: &str) {
    let mut file = std::fs::File::create(path).expect("the directory is ours");
    file.write_all(text.as_bytes()).expect("there is room");
}
