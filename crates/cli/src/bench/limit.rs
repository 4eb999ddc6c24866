//! Holds the disks of both sides to what a cloud volume does: 3,000 requests and 125 MB a second, each way.
//!
//! The kernel does it: cgroup v2's `io.max`, or v1's `blkio.throttle`, on the loop devices. Under v1 a buffered write is
//! the root group's, so root's limits are set for the devices; under v2 the bench moves into a group of its own, and a
//! file system's journal thread, which stays in the root group, escapes the limit.
//! Invariant: what was set is unset when the value is dropped; the limits name only the bench's own devices.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bench::named;
use crate::error::Told;

const BYTES_A_SECOND: u64 = 125_000_000;
const REQUESTS_A_SECOND: u64 = 3_000;

/// Limits in force on some devices.
#[derive(Debug)]
pub(crate) enum Limit {
    /// cgroup v2: a group that this process was moved into.
    Group { group: PathBuf, home: PathBuf },
    /// cgroup v1: lines to write so that nothing is limited any more.
    Throttle { undo: Vec<(PathBuf, String)> },
}

impl Limit {
    /// Limits `devices`, each `major:minor`.
    pub(crate) fn set(devices: &[String]) -> Result<Limit> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
        if let Some(root) = v2_root_with_io(&mounts) {
            return Limit::by_group(&root, devices);
        }
        if let Some(root) = v1_root(&mounts) {
            return Limit::by_throttle(&root, devices);
        }
        Err(Told::refused(
            "this machine's kernel lets nobody limit a disk: neither cgroup v2's io controller nor v1's blkio is there",
            "run it without --limit-cloud",
        ))
    }

    /// Says how the limit works here, for the report.
    pub(crate) fn note(&self) -> &'static str {
        match self {
            Limit::Group { .. } => {
                "Both disks held to 3,000 requests and 125 MB a second each way, by cgroup v2 (ext4's journal thread escapes)"
            }
            Limit::Throttle { .. } => {
                "Both disks held to 3,000 requests and 125 MB a second each way, by cgroup v1"
            }
        }
    }

    fn by_group(root: &Path, devices: &[String]) -> Result<Limit> {
        let home = named::read_to_string("/proc/self/cgroup")?;
        let home = home
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .unwrap_or_default();
        let group = root.join(format!("tenure-bench.{}", std::process::id()));
        let why = || format!("cannot limit disks by {}", group.display());
        fs::write(root.join("cgroup.subtree_control"), "+io").with_context(why)?;
        fs::create_dir(&group).with_context(why)?;
        let limit = Limit::Group {
            group: group.clone(),
            home: root.join(home),
        };
        for device in devices {
            let line = format!(
                "{device} rbps={BYTES_A_SECOND} wbps={BYTES_A_SECOND} riops={REQUESTS_A_SECOND} wiops={REQUESTS_A_SECOND}"
            );
            fs::write(group.join("io.max"), line).with_context(why)?;
        }
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).with_context(why)?;
        Ok(limit)
    }

    fn by_throttle(root: &Path, devices: &[String]) -> Result<Limit> {
        let kinds = ["read", "write"].map(|direction| {
            [("bps", BYTES_A_SECOND), ("iops", REQUESTS_A_SECOND)].map(|(unit, most)| {
                (
                    root.join(format!("blkio.throttle.{direction}_{unit}_device")),
                    most,
                )
            })
        });
        let kinds = kinds.as_flattened();
        let pairs = devices
            .iter()
            .flat_map(|device| kinds.iter().map(move |(file, _)| (file, device)));
        // Made before the first limit is set, so that a failure halfway unsets the rest.
        let limit = Limit::Throttle {
            undo: pairs
                .map(|(file, device)| (file.clone(), format!("{device} 0")))
                .collect(),
        };
        for device in devices {
            for (file, most) in kinds {
                fs::write(file, format!("{device} {most}"))
                    .with_context(|| format!("cannot limit disks by {}", file.display()))?;
            }
        }
        Ok(limit)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        match self {
            Limit::Group { group, home } => {
                let _ = fs::write(home.join("cgroup.procs"), std::process::id().to_string());
                let _ = fs::remove_dir(group);
            }
            Limit::Throttle { undo } => {
                for (file, line) in undo {
                    let _ = fs::write(file, line);
                }
            }
        }
    }
}

fn v2_root_with_io(mounts: &str) -> Option<PathBuf> {
    let root = mount_point(mounts, |kind, _| kind == "cgroup2")?;
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    controllers
        .split_whitespace()
        .any(|controller| controller == "io")
        .then_some(root)
}

fn v1_root(mounts: &str) -> Option<PathBuf> {
    mount_point(mounts, |kind, options| {
        kind == "cgroup" && options.split(',').any(|option| option == "blkio")
    })
}

/// Returns where the first mount is whose type and options `is_wanted`.
fn mount_point(mounts: &str, is_wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        is_wanted(kind, options).then(|| PathBuf::from(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_controller_of_cgroup_v1_is_found_among_the_mounts() {
        let mounts = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/blkio cgroup rw,relatime,blkio 0 0\ncgroup2 /c/u cgroup2 rw 0 0\n";
        assert_eq!(v1_root(mounts), Some("/c/blkio".into()));
        assert_eq!(
            mount_point(mounts, |kind, _| kind == "cgroup2"),
            Some("/c/u".into())
        );
        assert_eq!(v1_root("proc /proc proc rw 0 0"), None);
    }
}
