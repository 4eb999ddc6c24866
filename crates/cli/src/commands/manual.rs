//! `tenure manual`: man pages, made from the help.

use crate::error::Told;
use crate::output;
use anyhow::Result;
use clap_mangen::Man;
use std::fmt::Write;
use std::path::{Path, PathBuf};

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
pub(crate) fn run(args: &Args, command: clap::Command) -> Result<()> {
    // Without a page for `help`; each command is then called by its whole name.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    match &args.into {
        Some(folder) => write(&command, folder),
        None => output::raw(&page(&command)?),
    }
}

fn write(command: &clap::Command, folder: &Path) -> Result<()> {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| write(command, folder))?;
    let path = folder.join(Man::new(command.clone()).get_filename());
    let page = page(command)?;
    std::fs::write(&path, page).map_err(|error| {
        Told::failed(
            format!("cannot write {}: {error}", path.display()),
            format!("mkdir -p {}", output::quoted(folder)),
        )
    })
}

/// Returns a command's page; what stands behind its help becomes sections, examples as they were typed.
fn page(command: &clap::Command) -> Result<Vec<u8>> {
    let behind = command.get_after_help().map(ToString::to_string);
    let mut page = Vec::new();
    Man::new(command.clone().after_help(None::<&str>)).render(&mut page)?;
    for part in behind.iter().flat_map(|text| text.split("\n\n")) {
        page.extend_from_slice(section(part).as_bytes());
    }
    Ok(page)
}

fn section(part: &str) -> String {
    let (heading, text) = if let Some(codes) = part.strip_prefix("Exit codes: ") {
        ("EXIT STATUS", codes)
    } else if let Some((_, examples)) = part.split_once(":\n").filter(|(first, _)| !first.contains('\n')) {
        ("EXAMPLES", examples)
    } else if part.starts_with(' ') {
        ("EXAMPLES", part)
    } else {
        ("NOTES", part)
    };
    // Lines stay as they are; `\&` keeps a dot at the beginning from being a command.
    let mut section = format!(".SH {heading}\n.nf\n");
    for line in text.lines() {
        let line = line.replace('\\', "\\\\").replace('-', "\\-");
        writeln!(section, "\\&{line}").expect("a text takes all");
    }
    section + ".fi\n"
}
