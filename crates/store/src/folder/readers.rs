//! Who shares a lock to read: nothing is written for that, so the system is asked.

use rustix::fs::{fstat, major, minor};
use std::os::fd::AsFd;

/// Where Linux tells which locks there are, proc_locks(5).
const LOCKS: &str = "/proc/locks";

/// Says which processes share the lock of a file, if any do; none where the system does not tell.
pub(super) fn of(file: impl AsFd) -> Option<String> {
    let stat = fstat(file).ok()?;
    let place = format!(
        "{:02x}:{:02x}:{}",
        major(stat.st_dev),
        minor(stat.st_dev),
        stat.st_ino
    );
    let locks = std::fs::read_to_string(LOCKS).ok()?;
    let pids: Vec<_> = locks.lines().filter_map(|line| reader(line, &place)).collect();
    match &pids[..] {
        [] => None,
        [pid] => Some(format!(
            "process {pid}, which only looks at it and keeps it as it is,"
        )),
        [first, more @ ..] => Some(format!(
            "process {first}, which only looks at it and keeps it as it is (and so do {}),",
            more.join(", ")
        )),
    }
}

/// Returns the process that shares the lock of a file, if a line tells that.
fn reader<'l>(line: &'l str, place: &str) -> Option<&'l str> {
    let mut fields = line.split_whitespace().skip(1);
    let (kind, _, access) = (fields.next()?, fields.next()?, fields.next()?);
    let pid = fields.next()?;
    (kind == "FLOCK" && access == "READ" && fields.next()? == place).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_is_told_by_a_line_of_the_system() {
        let line = "3: FLOCK  ADVISORY  READ 4711 fd:01:262 0 EOF";
        assert_eq!(reader(line, "fd:01:262"), Some("4711"));
        for (line, place) in [
            (line, "fd:01:26"),
            ("3: FLOCK  ADVISORY  WRITE 4711 fd:01:262 0 EOF", "fd:01:262"),
            ("3: -> FLOCK  ADVISORY  READ 4711 fd:01:262 0 EOF", "fd:01:262"),
            ("3: POSIX  ADVISORY  READ 4711 fd:01:262 0 EOF", "fd:01:262"),
            ("", "fd:01:262"),
        ] {
            assert_eq!(reader(line, place), None, "{line}");
        }
    }
}
