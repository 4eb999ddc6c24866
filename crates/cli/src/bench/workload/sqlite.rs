//! SQLite, one transaction at a time, each synced: in WAL mode and with a rollback journal.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Metric, Workload, metric};
use crate::bench::command::{command, require, run};
use crate::bench::input::Inputs;
use crate::bench::measure::{Content, Round};
use crate::bench::named;

/// Commits one row after the other.
#[derive(Debug)]
pub(super) struct Sqlite {
    pub(super) commits: u64,
}

impl Workload for Sqlite {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric("sqlite_wal", "SQLite, 1,000 synced commits, journal_mode=WAL"),
                metric(
                    "sqlite_delete",
                    "SQLite, 1,000 synced commits, journal_mode=DELETE",
                ),
            ]
        }
    }

    fn prepare(&self, _inputs: &Inputs) -> Result<()> {
        require("sqlite3", "sqlite3")
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        for (metric, mode) in [("sqlite_wal", "wal"), ("sqlite_delete", "delete")] {
            let script = round.side.path().join(format!("{mode}.sql"));
            named::write(&script, self.script(mode))?;
            let database = round.side.path().join(format!("{mode}.db"));
            round.until_done(metric, Content::default(), |_| {
                commit(&database, &script, self.commits)
            })?;
        }
        Ok(())
    }
}

impl Sqlite {
    fn script(&self, mode: &str) -> String {
        let mut script = format!(
            "PRAGMA journal_mode={mode};\nPRAGMA synchronous=FULL;\nCREATE TABLE event(id INTEGER PRIMARY KEY, at TEXT, what TEXT);\n"
        );
        for commit in 0..self.commits {
            let _ = writeln!(
                script,
                "BEGIN; INSERT INTO event(at, what) VALUES ('{commit:020}', 'what happened at {commit}, and to whom'); COMMIT;"
            );
        }
        script.push_str("SELECT count(*) FROM event;\n");
        script
    }
}

fn commit(database: &Path, script: &Path, commits: u64) -> Result<()> {
    let printed = run(command("sqlite3")
        .arg("-bail")
        .arg(database)
        .arg(format!(".read {}", script.display())))?;
    let printed = String::from_utf8_lossy(&printed);
    let counted = printed.lines().last().and_then(|line| line.parse::<u64>().ok());
    ensure!(
        counted == Some(commits),
        "SQLite counts {counted:?} of {commits} rows"
    );
    Ok(())
}
