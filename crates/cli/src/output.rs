//! What is printed: JSON for programs, tables and sentences for people, and logs.
//!
//! Invariant: nothing that is printed can panic. Who has stopped reading is told no more, in silence; a device that takes
//! no more is an error.

use crate::error::Told;
use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use tenure_model::shown;

/// Prints a value as JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    raw(&text)
}

/// Prints a line on standard output.
pub(crate) fn line(text: impl Display) -> Result<()> {
    raw(format!("{text}\n").as_bytes())
}

/// Prints bytes on standard output, to the last one.
pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            return Unread.into();
        }
        Told::failed(
            format!("what was to be said could not be written to standard output: {error}"),
            "df -h names the disks that are full; what the command does is done",
        )
    })
}

/// Returns a path or a word as a shell takes it, so that a command in a hint can be pasted.
pub(crate) fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@+,=%~".contains(c);
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a path as it may stand in a line that a person reads.
pub(crate) fn path(path: &Path) -> String {
    shown(path.as_os_str().as_encoded_bytes())
}

/// Says something on standard error, where anybody listens.
pub(crate) fn note(text: impl Display) {
    // There is nobody left who could be told that nobody listens.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Nobody reads standard output any more; the command ends without a word.
#[derive(Debug)]
pub(crate) struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads what is printed")
    }
}

impl std::error::Error for Unread {}

/// Prints a table, without the blanks that would fill up its lines.
pub(crate) fn rows(table: &Table) -> Result<()> {
    line(table.trim_fmt())
}

/// Prints names with what they have, a line each: the names as wide as the widest, the rest as long as it is.
pub(crate) fn facts(facts: &[(String, String)]) -> Result<()> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<_> = facts
        .iter()
        .map(|(name, value)| format!(" {name:width$}  {value}"))
        .collect();
    line(lines.join("\n"))
}

/// Returns an empty table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings);
    table
}

/// Tells whether what is printed is seen on a terminal, and whether in colours.
pub(crate) fn seen() -> (bool, bool) {
    let is_terminal = std::io::stdout().is_terminal();
    (is_terminal, is_terminal && std::env::var_os("NO_COLOR").is_none())
}

/// Returns bytes in the unit that people read.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_take_apart_is_quoted() {
        for (word, shown) in [
            ("/a/b-1.c", "/a/b-1.c"),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
            ("", "''"),
            ("a b", "'a b'"),
            ("~ada", "'~ada'"),
            ("it's", r"'it'\''s'"),
            ("$(rm -rf x)\n", "'$(rm -rf x)\n'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
