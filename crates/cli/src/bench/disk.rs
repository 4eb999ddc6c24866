//! A fair local file system to measure on: a file written to its end, a loop device with direct I/O over it, ext4 as
//! `mkfs.ext4` makes it, mounted without `discard`.
//!
//! Both sides of a comparison stand on one each, so that neither profits from what the machine's own root file system
//! does or does not do (some discard at unlink, some have no journal). Fully written, because an unwritten or sparse file
//! pays for its first writes; direct I/O, so that nothing is cached twice and a flush is a flush.
//!
//! Invariant: nothing outlives the value. The loop device is detached right after the mount, so the kernel frees it with
//! the last unmount; `Drop` unmounts; what a killed run left is swept away by the next one ([`Scratch::make`]).

use std::ffi::CStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::FlockOperation;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::command::{command, require, run};
use super::interrupt;
use super::progress::Progress;
use crate::bench::named;
use crate::error::Told;

/// The folder that holds a run's disks and mounts; swept clean when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// The folder, locked: a run of another process namespace may have the same number, and cannot see this process.
    _held: fs::File,
}

/// A mounted file system on a loop device.
#[derive(Debug)]
pub(crate) struct Disk {
    format: Format,
    backing: PathBuf,
    mount_point: PathBuf,
    device: PathBuf,
    is_mounted: bool,
}

/// Which file system is made on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// ext4 by default, but that what the kernel would go on initialising in the background is written at once.
    Ext4,
    /// btrfs as `mkfs.btrfs` makes it, which has snapshots.
    Btrfs,
}

/// What was done to a block device so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) written_bytes: u64,
    /// Times that it was told to make durable what it has, and the seconds that this took.
    pub(crate) flushes: u64,
    pub(crate) flush_seconds: f64,
    /// Seconds in which it had something to do.
    pub(crate) busy_seconds: f64,
}

const PREFIX: &str = "tenure-bench.";
/// Runs of one number that go on at once, each in a process namespace of its own.
const TWINS_MAX: u32 = 100;
const SECTOR: u64 = 512;

impl Scratch {
    /// Makes a scratch folder for this process inside `parent`, and removes those of runs that were killed.
    pub(crate) fn make(parent: &Path) -> Result<Scratch> {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        for entry in fs::read_dir(parent).with_context(|| format!("cannot list {}", parent.display()))? {
            let path = entry?.path();
            if let Some(owner) = owner(&path)
                && !Path::new("/proc").join(owner.to_string()).exists()
                && held(&path).is_ok()
            {
                sweep(&path);
            }
        }
        let (path, held) = own_folder(parent)?;
        // Suites run as other users inside the mounts below.
        named::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Scratch { path, _held: held })
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        sweep(&self.path);
    }
}

impl Disk {
    /// Makes a disk of `size` bytes in `scratch` and mounts it at `scratch/name`.
    pub(crate) fn make(
        scratch: &Scratch,
        (name, format): (&str, Format),
        size: u64,
        progress: Progress,
    ) -> Result<Disk> {
        refuse_unless_possible(scratch.path(), format, size)?;
        let backing = scratch.path().join(format!("{name}.img"));
        let mount_point = scratch.path().join(name);
        named::create_dir(&mount_point)?;
        write_zeros(&backing, size, progress)?;
        // Sectors of the loop device are 512 bytes unless the file below cannot do direct I/O in those.
        let printed = run(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&backing))
            .context("no loop device could be set up: it takes root, and /dev/loop-control (two directories can be compared without: --side-a, --side-b)")?;
        let device = PathBuf::from(String::from_utf8_lossy(&printed).trim());
        let mut disk = Disk {
            format,
            backing,
            mount_point,
            device,
            is_mounted: false,
        };
        let prepared = disk.format().and_then(|()| disk.mount());
        // Detached while mounted, the device lives exactly as long as the mount does.
        let detached = run(command("losetup").arg("--detach").arg(&disk.device));
        prepared?;
        detached?;
        Ok(disk)
    }

    /// Returns where the file system is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the device's numbers as cgroups name it, `major:minor`.
    pub(crate) fn device_number(&self) -> Result<String> {
        Ok(named::read_to_string(self.sys().join("dev"))?.trim().to_owned())
    }

    /// Returns what was done to the device so far.
    pub(crate) fn traffic(&self) -> Result<Traffic> {
        let path = self.sys().join("stat");
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        traffic(&stat).with_context(|| format!("{} does not hold 17 numbers", path.display()))
    }

    fn format(&self) -> Result<()> {
        let direct = fs::read_to_string(self.sys().join("loop/dio")).unwrap_or_default();
        if direct.trim() != "1" {
            let what = format!(
                "{} cannot do direct I/O, so a loop device over it would be cached twice",
                self.backing.display()
            );
            return Err(Told::refused(
                what,
                "choose a place on ext4, XFS or btrfs with --scratch",
            ));
        }
        run(self.format.command().arg(&self.device))?;
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        mount(
            &self.device,
            &self.mount_point,
            self.format.kernel_name(),
            MountFlags::empty(),
            None,
        )
        .with_context(|| {
            format!(
                "cannot mount {} on {}",
                self.device.display(),
                self.mount_point.display()
            )
        })?;
        self.is_mounted = true;
        named::set_permissions(&self.mount_point, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device.file_name().unwrap_or_default())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted && unmount(&self.mount_point, UnmountFlags::empty()).is_err() {
            // Something still holds it; lazily, it goes when that does.
            let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
        }
        let _ = fs::remove_file(&self.backing);
        let _ = fs::remove_dir(&self.mount_point);
    }
}

/// Writes back and drops the kernel's page, dentry and inode caches (needs root).
pub(crate) fn drop_kernel_caches() -> Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop the kernel's caches (only root can)")
}

/// Reads a block device's `stat` (Documentation/block/stat.rst): the 7th number is sectors written, the 10th milliseconds
/// with a request, the 16th flushes, the 17th their milliseconds.
fn traffic(stat: &str) -> Option<Traffic> {
    let numbers: Vec<u64> = stat
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    let milliseconds = |place: usize| Some(*numbers.get(place)? as f64 / 1e3);
    Some(Traffic {
        written_bytes: numbers.get(6)? * SECTOR,
        flushes: *numbers.get(15)?,
        flush_seconds: milliseconds(16)?,
        busy_seconds: milliseconds(9)?,
    })
}

impl Format {
    /// Returns the command that makes it, but for the device.
    fn command(self) -> Command {
        let (program, arguments): (_, &[&str]) = match self {
            Format::Ext4 => (
                "mkfs.ext4",
                &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            ),
            Format::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        };
        let mut made = command(program);
        made.args(arguments);
        made
    }

    /// Returns its name in mount(2).
    fn kernel_name(self) -> &'static CStr {
        match self {
            Format::Ext4 => c"ext4",
            Format::Btrfs => c"btrfs",
        }
    }

    fn require(self) -> Result<()> {
        match self {
            Format::Ext4 => require("mkfs.ext4", "e2fsprogs"),
            Format::Btrfs => require("mkfs.btrfs", "btrfs-progs"),
        }
    }
}

fn refuse_unless_possible(scratch: &Path, format: Format, size: u64) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Told::refused(
            "the local disk's file system is made on a loop device, which only root can set up",
            "sudo tenure bench ..., or two directories as they are: --side-a DIR --side-b DIR",
        ));
    }
    require("losetup", "util-linux mount")?;
    format.require()?;
    let file_system = rustix::fs::statvfs(scratch)?;
    let free = file_system.f_bavail * file_system.f_frsize;
    if free < size + size / 8 {
        let (at, free, size) = (scratch.display(), free >> 20, size >> 20);
        let what = format!("{at} has {free} MiB free, a disk of {size} MiB does not fit");
        return Err(Told::refused(
            what,
            "choose another place with --scratch, or a smaller --disk-size",
        ));
    }
    Ok(())
}

fn write_zeros(path: &Path, size: u64, progress: Progress) -> Result<()> {
    let zeros = vec![0; 4 << 20];
    let mut file = fs::File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let bar = progress.bytes(
        &format!("writing {}", path.file_name().unwrap_or_default().display()),
        size,
    );
    let mut left = size;
    while left > 0 {
        interrupt::check()?;
        let part = left.min(zeros.len() as u64);
        file.write_all(&zeros[..part as usize])
            .with_context(|| format!("cannot write {}", path.display()))?;
        left -= part;
        bar.advance(part);
    }
    file.sync_all()?;
    Ok(())
}

/// Makes a folder that is nobody else's: one of a process that had this one's number is swept away, and one of a run that has it still, in
/// another namespace, is left alone.
fn own_folder(parent: &Path) -> Result<(PathBuf, fs::File)> {
    for number in 0..TWINS_MAX {
        let path = match number {
            0 => parent.join(format!("{PREFIX}{}", std::process::id())),
            number => parent.join(format!("{PREFIX}{}.{number}", std::process::id())),
        };
        if path.exists() && held(&path).is_ok() {
            sweep(&path);
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made.with_context(|| format!("cannot make {}", path.display()))?;
                let held = held(&path).with_context(|| format!("cannot lock {}", path.display()))?;
                return Ok((path, held));
            }
        }
    }
    Err(Told::refused(
        format!(
            "{} holds a folder of each name that this run could have",
            parent.display()
        ),
        "choose another place with --scratch",
    ))
}

/// Locks a scratch folder, where no run that goes on has it.
fn held(path: &Path) -> std::io::Result<fs::File> {
    let folder = fs::File::open(path)?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Returns the process that a scratch folder belongs to, or nothing if `path` is not one of this user's.
fn owner(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let process = name.split('.').next()?.parse().ok()?;
    let is_ours = fs::symlink_metadata(path).ok()?.uid() == rustix::process::geteuid().as_raw();
    is_ours.then_some(process)
}

/// Unmounts all that is mounted below `path` and removes it.
fn sweep(path: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|at| Path::new(at).starts_with(path));
    let mut below: Vec<&str> = below.collect();
    below.reverse();
    for at in &below {
        let _ = unmount(Path::new(at), UnmountFlags::DETACH);
    }
    let still_mounted = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if still_mounted
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .any(|at| Path::new(at).starts_with(path))
    {
        // Removing below a mount that stays would remove what is not ours.
        return;
    }
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_numbers_are_read_from_their_places() {
        let stat = "1 2 3 4 5 6 7 8 9 10000 11 12 13 14 15 16 17000\n";
        let expected = Traffic {
            written_bytes: 7 * 512,
            flushes: 16,
            flush_seconds: 17.0,
            busy_seconds: 10.0,
        };
        assert_eq!(traffic(stat), Some(expected));
        assert_eq!(traffic("1 2 3 4 5 6 7 8 9 10 11"), None);
    }

    #[test]
    fn only_a_scratch_folder_has_an_owner() {
        let parent = tempfile::tempdir().expect("a folder");
        let ours = parent.path().join("tenure-bench.42");
        fs::create_dir(&ours).expect("a folder inside");
        assert_eq!(owner(&ours), Some(42));
        assert_eq!(owner(parent.path()), None);
        assert_eq!(owner(&parent.path().join("tenure-bench.x")), None);
    }

    #[test]
    fn a_killed_runs_scratch_is_swept_away_and_a_living_ones_stays() {
        let parent = tempfile::tempdir().expect("a folder");
        // No process has this number: it is above the kernel's largest.
        let dead = parent.path().join("tenure-bench.4194305");
        let living = parent.path().join("tenure-bench.1");
        fs::create_dir_all(dead.join("inside")).expect("a folder");
        fs::create_dir(&living).expect("a folder");
        let held_elsewhere = parent.path().join("tenure-bench.4194306");
        fs::create_dir(&held_elsewhere).expect("a folder");
        let _held = held(&held_elsewhere).expect("it is free");
        let scratch = Scratch::make(parent.path()).expect("a scratch folder");
        assert!(!dead.exists() && living.exists() && held_elsewhere.exists());
        let twin = Scratch::make(parent.path()).expect("another one of this number");
        assert!(twin.path() != scratch.path() && scratch.path().exists());
        drop(twin);
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
