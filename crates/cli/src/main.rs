//! The `tenure` command: what a person or an agent types. One file a command; only here are a terminal, a home
//! directory and the environment known.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod bucket;
mod cache;
mod child;
mod clock;
mod commands;
mod drives;
mod duration;
mod ending;
mod error;
mod hint;
mod history;
mod holders;
mod home;
mod identity;
mod life;
mod log;
mod mounts;
mod neighbours;
mod output;
mod pins;
mod place;
mod reach;
mod secret;
mod servers;
mod status;
mod tokens;
mod waiting;

use clap::{CommandFactory, Parser, Subcommand};
use log::Reader;
use signal_hook::consts::SIGXFSZ;
use std::process::ExitCode;
use std::sync::Arc;

/// Memory comes from an allocator that gives small pieces to several threads at once without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A drive that agents work on: real files, branches, and nothing lost when a machine is
#[derive(Debug, Parser)]
#[command(
    name = "tenure",
    version,
    after_help = "Start:\n  tenure mount work ~/work --create     make the drive `work` and mount it\n  tenure status ~/work                 what is durable, what is not yet\n  tenure unmount ~/work                 make all of it durable and take the mount away\n\nExit codes: 0 done, 1 refused, 2 usage, 3 failed, 4 unknown whether it happened"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(commands::mount::Args),
    Unmount(commands::unmount::Args),
    Status(commands::status::Args),
    Sync(commands::sync::Args),
    Checkpoint(commands::checkpoint::Args),
    Fork(commands::fork::Args),
    Diff(commands::diff::Args),
    Merge(commands::merge::Args),
    Conflicts(commands::conflicts::Args),
    Resolve(commands::resolve::Args),
    Du(commands::du::Args),
    Reclaim(commands::reclaim::Args),
    Log(commands::log::Args),
    Restore(commands::restore::Args),
    Undo(commands::undo::Args),
    #[command(subcommand)]
    Branch(commands::branch::Command),
    Delegations(commands::delegations::Args),
    #[command(subcommand)]
    Drive(commands::drive::Command),
    Run(commands::run::Args),
    #[command(subcommand)]
    Review(commands::review::Command),
    Check(commands::check::Args),
    Serve(commands::serve::Args),
    #[command(subcommand)]
    Token(commands::token::Command),
    Trust(commands::trust::Args),
    Bench(bench::BenchArgs),
    Completions(commands::completions::Args),
    Manual(commands::manual::Args),
}

impl Command {
    /// Returns who reads what is logged.
    fn reader(&self) -> Reader {
        if let Command::Mount(_) | Command::Serve(_) | Command::Bench(_) = self {
            return Reader::Keeper;
        }
        Reader::Asker
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A file that may not grow any more is an error of the write, and not the end of the process. Where it cannot be had, it
    // is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    log::to_stderr(cli.command.reader());
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::report(&error),
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Mount(args) => commands::mount::run(args),
        Command::Unmount(args) => commands::unmount::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Sync(args) => commands::sync::run(&args),
        Command::Checkpoint(args) => commands::checkpoint::run(&args),
        Command::Fork(args) => commands::fork::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Conflicts(args) => commands::conflicts::run(&args),
        Command::Resolve(args) => commands::resolve::run(&args),
        Command::Du(args) => commands::du::run(&args),
        Command::Reclaim(args) => commands::reclaim::run(&args),
        Command::Log(args) => commands::log::run(&args),
        Command::Restore(args) => commands::restore::run(&args),
        Command::Undo(args) => commands::undo::run(&args),
        Command::Branch(command) => commands::branch::run(&command),
        Command::Delegations(args) => commands::delegations::run(&args),
        Command::Drive(command) => commands::drive::run(&command),
        Command::Review(command) => commands::review::run(&command),
        Command::Run(args) => commands::run::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Token(command) => commands::token::run(&command),
        Command::Trust(args) => commands::trust::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args, &mut Cli::command()),
        Command::Manual(args) => commands::manual::run(&args, Cli::command()),
    }
}
