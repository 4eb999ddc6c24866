//! `tenure completions`: completions for a shell.

use crate::output;
use anyhow::Result;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tenure completions bash > /etc/bash_completion.d/tenure")]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints them.
pub(crate) fn run(args: &Args, command: &mut clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "tenure", &mut script);
    output::raw(&script)
}
