//! The `codeq` binary.

mod bench;
mod issuer;
mod migrate_shards;
mod serve;
mod tag;
mod verify;

use clap::error::ErrorKind;
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
    Dev(serve::Dev),
    Serve(serve::Serve),
    /// Measure this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Move the tasks of a command from one Kvrocks shard to another.
    MigrateShards(migrate_shards::MigrateShards),
    /// Check a data directory that no server uses.
    Verify(verify::Verify),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => return usage(&asked),
    };
    let run = match cli.command {
        Command::Dev(dev) => dev.run(),
        Command::Serve(serve) => serve.run(),
        Command::Bench(bench) => bench.run(),
        Command::MigrateShards(migrate) => migrate.run(),
        Command::Verify(verify) => verify.run(),
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} {error:#}", tag::error());
            ExitCode::FAILURE
        }
    }
}

/// Help and version succeed; anything that cannot be understood is an error like any other.
fn usage(asked: &clap::Error) -> ExitCode {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match asked.kind() {
        DisplayHelp | DisplayVersion => {
            let _ = asked.print();
            ExitCode::SUCCESS
        }
        DisplayHelpOnMissingArgumentOrSubcommand => {
            print!("{}", asked.render());
            ExitCode::SUCCESS
        }
        _ => {
            let text = asked.render().to_string();
            eprint!("{} {}", tag::error(), text.strip_prefix("error: ").unwrap_or(&text));
            ExitCode::FAILURE
        }
    }
}
