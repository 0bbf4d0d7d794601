//! The `codeq` binary.

mod bench;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// codeQ: a durable task queue in one binary.
#[derive(Parser)]
#[command(name = "codeq", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check a data directory that no server uses.
    Verify(verify::Verify),
}

fn main() -> ExitCode {
    let run = match Cli::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Verify(verify) => verify.run(),
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("[ERROR] {error:#}");
            ExitCode::FAILURE
        }
    }
}
