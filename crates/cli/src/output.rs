//! What is printed: JSON for programs, tables and sentences for people, and logs.

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::io::Write;
use tracing_subscriber::EnvFilter;

/// Prints a value as JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Returns an empty table with these headings.
pub(crate) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings);
    table
}

/// Sends what the rooms log to standard error; `TENURE_LOG` says how much (`info`, `tenure_server=debug`).
pub(crate) fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("TENURE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // A second call finds the first one's subscriber, which is the same.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

/// Returns bytes in the unit that people read.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}
