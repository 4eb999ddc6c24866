//! Tenure on the folder tier, driven as a person drives it: by its command, with its bucket on a disk of its own that is
//! made exactly as the baseline's.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::{Counters, Side, empty};
use crate::bench::command::{command, run};
use crate::bench::disk::Disk;
use crate::bench::measure;
use crate::bench::named;

/// The drive that the bench makes.
const DRIVE: &str = "bench";

/// The `tenure` program together with the home that it finds its bucket, cache and sockets in.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    executable: PathBuf,
    /// The command, with its arguments, that runs it where it belongs; nothing where that is here.
    entry: Vec<OsString>,
    /// What is kept: bucket, cache, state.
    home: PathBuf,
    /// Where its sockets are; a short path, since a socket's address holds about a hundred bytes.
    run: PathBuf,
    mount_arguments: Vec<OsString>,
}

/// A drive on a disk of its own, mounted.
#[derive(Debug)]
pub(crate) struct Tenure {
    program: Program,
    mount_point: PathBuf,
    is_mounted: bool,
    /// The processes that served the mount when it was last asked, to be ended even when it no longer answers.
    pids: RefCell<Vec<Pid>>,
    disk: Disk,
}

/// What `tenure status --json` says, as far as the bench reads it.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// The processes that serve the mount: its own and, if another, the owner's of the drive.
    pub(crate) pids: Vec<Pid>,
    /// What they have counted.
    pub(crate) counters: Counters,
}

impl Program {
    /// Names the program and where it lives; makes the folders.
    pub(crate) fn at_home(
        executable: &Path,
        home: &Path,
        run: &Path,
        mount_arguments: &[OsString],
    ) -> Result<Program> {
        let program = Program {
            executable: executable.to_owned(),
            entry: Vec::new(),
            home: home.to_owned(),
            run: run.to_owned(),
            mount_arguments: mount_arguments.to_owned(),
        };
        program.make_folders()?;
        Ok(program)
    }

    /// Returns the program as it runs elsewhere: by a command, with its arguments, that runs another one there.
    pub(crate) fn entered_by(self, entry: Vec<OsString>) -> Program {
        Program { entry, ..self }
    }

    /// Returns a `tenure` command that lives in this home.
    pub(crate) fn command(&self) -> Command {
        let mut words = self
            .entry
            .iter()
            .map(OsString::as_os_str)
            .chain([self.executable.as_os_str()]);
        let mut command = command(words.next().expect("there is the program at least"));
        command.args(words);
        command
            .env("XDG_DATA_HOME", self.home.join("data"))
            .env("XDG_CACHE_HOME", self.home.join("cache"))
            .env("XDG_STATE_HOME", self.home.join("state"))
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("XDG_RUNTIME_DIR", &self.run);
        command
    }

    /// Returns the folder that holds the bucket.
    pub(crate) fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Mounts `drive` at `directory` and returns when it is usable.
    pub(crate) fn mount(&self, drive: &str, directory: &Path, arguments: &[&str]) -> Result<()> {
        let mut mount = self.command();
        mount
            .arg("mount")
            .arg(drive)
            .arg(directory)
            .args(arguments)
            .args(&self.mount_arguments);
        // The daemon that it leaves behind inherits its outputs, so a pipe would stay open: a file it is.
        let log = self.run.join("mount.log");
        let file = named::create(&log)?;
        let status = mount
            .stdin(std::process::Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()
            .with_context(|| format!("cannot start {}", self.executable.display()))?;
        if !status.success() {
            bail!(
                "`tenure mount` failed ({status}): {}",
                fs::read_to_string(&log).unwrap_or_default().trim()
            );
        }
        Ok(())
    }

    /// Unmounts `directory` when all of it is durable.
    pub(crate) fn unmount(&self, directory: &Path) -> Result<()> {
        run(self.command().arg("unmount").arg(directory)).map(drop)
    }

    /// Asks the mount at `directory` what it has counted.
    pub(crate) fn status(&self, directory: &Path) -> Result<Status> {
        let printed = run(self.command().arg("status").arg(directory).arg("--json"))?;
        let said: serde_json::Value =
            serde_json::from_slice(&printed).context("`tenure status --json` did not print JSON")?;
        let mut status = Status::default();
        status.counters.requests = numbers(&said["requests"]);
        status.counters.bucket_requests = total(&said["bucket_requests"]);
        for pid in ["pid", "owner_pid"].iter().filter_map(|key| said[key].as_i64()) {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|pid| !status.pids.contains(pid)) {
                let process = measure::process(&pid.as_raw_nonzero().to_string())?;
                let counters = &mut status.counters;
                counters.user_seconds += process.user_seconds;
                counters.system_seconds += process.system_seconds;
                counters.peak_rss_bytes += process.peak_rss_bytes;
                // An owner in a process of its own answers no kernel.
                counters.serving_seconds = counters.serving_seconds.or(measure::serving_seconds(pid));
                status.pids.push(pid);
            }
        }
        Ok(status)
    }

    fn make_folders(&self) -> Result<()> {
        for directory in [&self.home, &self.run] {
            named::create_dir_all(directory)?;
        }
        named::set_permissions(&self.run, Permissions::from_mode(0o700))?;
        Ok(())
    }
}

impl Tenure {
    /// Makes a drive on `disk` and mounts it at `scratch/tenure`.
    pub(crate) fn on(
        disk: Disk,
        executable: &Path,
        scratch: &Path,
        mount_arguments: &[OsString],
    ) -> Result<Tenure> {
        let mount_point = scratch.join("tenure");
        named::create_dir(&mount_point)?;
        let program = Program::at_home(
            executable,
            &disk.path().join("home"),
            &scratch.join("run"),
            mount_arguments,
        )?;
        let mut side = Tenure {
            program,
            mount_point,
            is_mounted: false,
            pids: RefCell::default(),
            disk,
        };
        side.mount_with(&["--create"])?;
        Ok(side)
    }

    fn mount_with(&mut self, arguments: &[&str]) -> Result<()> {
        self.program.mount(DRIVE, &self.mount_point, arguments)?;
        self.is_mounted = true;
        Ok(())
    }
}

impl Side for Tenure {
    fn name(&self) -> &str {
        "Tenure"
    }

    fn path(&self) -> &Path {
        &self.mount_point
    }

    fn fresh(&mut self) -> Result<()> {
        if self.is_mounted {
            self.unmount()?;
        }
        empty(self.disk.path())?;
        self.program.make_folders()?;
        rustix::fs::syncfs(named::open(self.disk.path())?)?;
        self.mount_with(&["--create"])
    }

    fn make_durable(&self) -> Result<()> {
        // An fsync of any file or directory covers all that its session has done.
        named::open(&self.mount_point)?
            .sync_all()
            .context("the drive could not be synced")
    }

    fn unmount(&mut self) -> Result<()> {
        self.program.unmount(&self.mount_point)?;
        self.is_mounted = false;
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        self.mount_with(&[])
    }

    fn counters(&self) -> Result<Counters> {
        let Status { pids, counters } = self.program.status(&self.mount_point)?;
        *self.pids.borrow_mut() = pids;
        Ok(Counters {
            traffic: self.disk.traffic()?,
            ..counters
        })
    }

    fn program(&self) -> Option<&Path> {
        Some(&self.program.executable)
    }

    fn answers_from_within(&self) -> Option<PathBuf> {
        Some(self.mount_point.join(".tenure"))
    }

    fn device_number(&self) -> Result<Option<String>> {
        self.disk.device_number().map(Some)
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if !self.is_mounted {
            return;
        }
        // After an interruption no command runs any more, and what the drive holds is of no use to anyone.
        if self.program.unmount(&self.mount_point).is_err() {
            for pid in self.pids.borrow().iter() {
                let _ = kill_process(*pid, Signal::KILL);
            }
            let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
        }
    }
}

/// Returns the numbers of a JSON object.
fn numbers(object: &serde_json::Value) -> std::collections::BTreeMap<String, u64> {
    let pairs = object.as_object().into_iter().flatten();
    pairs
        .filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)))
        .collect()
}

/// Returns a JSON number, or the sum of the numbers of a JSON object.
fn total(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| numbers(value).values().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bucket_requests_are_a_number_or_numbers_by_kind() {
        assert_eq!(total(&json!(7)), 7);
        assert_eq!(total(&json!({"put": 3, "get": 4})), 7);
        assert_eq!(total(&json!(null)), 0);
    }
}
