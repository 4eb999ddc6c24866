//! `tenure manual`: man pages, made from the help.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::PathBuf;

/// Print the man page, or write one for each command
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure manual | man -l -\n  tenure manual --into /usr/local/share/man/man1"
)]
pub(crate) struct Args {
    /// Write a page for every command into this folder
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// Prints or writes them.
pub(crate) fn run(args: &Args, command: &clap::Command) -> Result<()> {
    match &args.into {
        Some(folder) => clap_mangen::generate_to(command.clone(), folder)
            .with_context(|| format!("cannot write man pages into {}", folder.display())),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command.clone()).render(&mut page)?;
            std::io::stdout()
                .write_all(&page)
                .context("cannot print the man page")
        }
    }
}
