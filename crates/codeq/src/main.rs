//! The `codeq` binary.

mod audit;
mod auth;
mod backup;
mod batch;
mod bench;
mod client;
mod command;
mod completions;
mod dlq;
mod doctor;
mod events;
mod filter;
mod health;
mod init;
mod install;
mod issuer;
mod migrate_shards;
mod operation;
mod queue;
mod reference;
mod schedule;
mod serve;
mod store;
mod table;
mod tag;
mod task;
mod terminal;
mod token;
mod top;
mod transfer;
mod verify;
mod webhook;
mod worker;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// codeQ: a durable task queue in one binary.
#[derive(Parser)]
#[command(
    name = "codeq",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq dev\n  codeq task create --command demo --payload '{\"n\":1}'\n  \
    codeq worker run --command demo --exec 'cat'\n  codeq queue watch"
)]
struct Cli {
    #[command(flatten)]
    connection: client::Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Dev(serve::Dev),
    Serve(serve::Serve),
    Init(init::Init),
    Auth(auth::Auth),
    Task(task::Task),
    Queue(queue::Queue),
    Schedule(Box<schedule::Schedule>),
    Batch(batch::Batch),
    Dlq(dlq::Dlq),
    Failed(dlq::Failed),
    Top(top::Top),
    Worker(worker::Worker),
    Events(events::Listen),
    Operation(operation::Operations),
    Audit(audit::Audit),
    Webhook(webhook::Webhook),
    Export(Box<transfer::Export>),
    Import(transfer::Import),
    Token(token::Token),
    Doctor(doctor::Doctor),
    Health(health::Health),
    Install(Box<install::Install>),
    #[command(alias = "completion")]
    Completions(completions::Completions),
    /// Measure this machine.
    #[command(subcommand, after_help = "Examples:\n  codeq bench http\n  codeq bench grpc --json")]
    Bench(bench::Bench),
    Backup(backup::Backup),
    Restore(backup::Restore),
    /// Move the tasks of a command from one Kvrocks shard to another.
    MigrateShards(migrate_shards::MigrateShards),
    Store(store::Store),
    Verify(verify::Verify),
    #[command(hide = true)]
    Reference(reference::Reference),
    #[command(hide = true)]
    Connection(client::ConnectionPage),
}

fn main() -> ExitCode {
    bench::end_with_parent();
    let cli = match command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(asked) => return usage(&asked),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} {error:#}", tag::error());
            for line in client::advice(&error).into_iter().chain(doctor::advice(&error)) {
                eprintln!("  {line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Commands whose business the connection is; they show its flags in their help.
const ABOUT_CONNECTION: [&str; 2] = ["init", "auth"];

/// The flags of a connection may stand in front of any command. The client commands have them as well; those
/// of a server do not know them, so they are not handed down from here. Help shows them once, at the top.
fn command() -> clap::Command {
    let command = client::FLAGS
        .iter()
        .fold(Cli::command(), |command, flag| command.mut_arg(flag, |arg| arg.global(false)));
    command.mut_subcommands(|sub| match ABOUT_CONNECTION.contains(&sub.get_name()) {
        true => sub,
        false => sub.mut_args(|arg| match client::FLAGS.contains(&arg.get_id().as_str()) {
            true => arg.hide(true),
            false => arg,
        }),
    })
}

fn run(Cli { connection, command }: Cli) -> anyhow::Result<()> {
    match command {
        Command::Dev(dev) => dev.run(),
        Command::Serve(serve) => serve.run(),
        Command::Init(init) => init.run(&connection),
        Command::Auth(auth) => auth.run(&connection),
        Command::Task(task) => task.run(&connection),
        Command::Queue(queue) => queue.run(&connection),
        Command::Schedule(schedule) => schedule.run(&connection),
        Command::Batch(batch) => batch.run(&connection),
        Command::Dlq(dlq) => dlq.run(&connection),
        Command::Failed(failed) => failed.run(&connection),
        Command::Worker(worker) => worker.run(&connection),
        Command::Top(top) => top.run(&connection),
        Command::Events(listen) => listen.run(&connection),
        Command::Operation(operations) => operations.run(&connection),
        Command::Webhook(webhook) => webhook.run(&connection),
        Command::Audit(audit) => audit.run(&connection),
        Command::Export(export) => export.run(&connection),
        Command::Import(import) => import.run(&connection),
        Command::Token(token) => token.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Health(health) => health.run(),
        Command::Install(install) => install.run(),
        Command::Completions(completions) => completions.run(self::command()),
        Command::Bench(bench) => bench.run(),
        Command::Backup(backup) => backup.run(&connection),
        Command::Restore(restore) => restore.run(),
        Command::MigrateShards(migrate) => migrate.run(),
        Command::Store(store) => store.run(),
        Command::Verify(verify) => verify.run(),
        Command::Reference(reference) => reference.run(self::command()),
        Command::Connection(_) => client::page(self::command()),
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
