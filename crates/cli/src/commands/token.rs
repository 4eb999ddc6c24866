//! `tenure token`: makes the words by which clients prove to a server who they are.

use crate::error::Told;
use crate::output;
use crate::tokens::Line;
use anyhow::{Context, Result, anyhow};
use rustix::fs::{FileType, fstat};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tenure_model::DriveName;

/// Make tokens, by which a server knows who comes by the network
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token for an agent, and print its line for a server's --tokens file
    #[command(
        after_help = "Examples:\n  tenure token new ada --add-to tokens --out ada.token\n  tenure serve --bucket s3://drives --listen 0.0.0.0:7430 --tokens tokens &\n  tenure mount work ~/work --server box:7430 --token-file ada.token --create\n\nA token that is taken out of the file is refused from then on, and who is there with it\nloses the connection. For a while an agent may have two lines, to change from one token to\nthe other."
    )]
    New {
        /// The agent: every session that is opened with the token is known by this name
        agent: String,
        /// Open these drives alone; else all, and make, list and delete drives
        #[arg(long, value_name = "DRIVE", value_delimiter = ',', value_parser = DriveName::parse)]
        drives: Vec<DriveName>,
        /// Write the line to the end of this file, and print the token alone
        #[arg(long, value_name = "FILE")]
        add_to: Option<PathBuf>,
        /// Write what would be printed into this new file, which nobody else can read
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Does what the command says.
pub(crate) fn run(command: &Command) -> Result<()> {
    let Command::New {
        agent,
        drives,
        add_to,
        out,
    } = command;
    let drives = (!drives.is_empty()).then(|| drives.clone());
    let line = Line::new(agent, drives).map_err(|why| Told::refused(why, "tenure token new ada"))?;
    // Nothing is added where the word for the client would be lost.
    let mut file = match out {
        Some(path) => Some((path, new(path)?)),
        None => None,
    };
    if let Some(path) = add_to {
        add(path, &line.written()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let told = if add_to.is_some() {
        line.token().to_owned()
    } else {
        line.written()
    };
    match &mut file {
        Some((path, file)) => {
            file.write_all(format!("{told}\n").as_bytes())
                .and_then(|()| file.sync_all())
                .with_context(|| format!("cannot write {}", path.display()))?;
            output::line(format_args!("--token-file {} shows it", output::quoted(path)))
        }
        None => {
            output::line(told)?;
            warn_of_readers();
            Ok(())
        }
    }
}

/// Makes a file that nobody else can read.
fn new(path: &Path) -> Result<File> {
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    made.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let why = format!(
                "{} is there already, and holds what may still be needed",
                path.display()
            );
            return Told::refused(why, "--out names a file that is not there");
        }
        anyhow!(error).context(format!("cannot make {}", path.display()))
    })
}

/// Says so where standard output is a file that others can read.
fn warn_of_readers() {
    const OTHERS: u32 = 0o044;
    let is_open = fstat(std::io::stdout())
        .is_ok_and(|file| FileType::from_raw_mode(file.st_mode).is_file() && file.st_mode & OTHERS > 0);
    if is_open {
        output::note(
            "note: others can read the file that this was written to; chmod 600 it, or use --out FILE",
        );
    }
}

/// Writes a line to the end of a file, in one write; a file that is made is readable by nobody else.
fn add(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = File::options()
        .append(true)
        .create(true)
        .read(true)
        .mode(0o600)
        .open(path)?;
    let text = std::fs::read(path)?;
    // Behind a last line that was not ended.
    let gap = if text.last().is_some_and(|last| *last != b'\n') {
        "\n"
    } else {
        ""
    };
    file.write_all(format!("{gap}{line}\n").as_bytes())?;
    file.sync_all()
}
