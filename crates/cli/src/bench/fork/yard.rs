//! Where forks are made: a disk for the drives, and one of btrfs for what they are compared with.

use crate::bench::Places;
use crate::bench::command::{command, run};
use crate::bench::disk::{Disk, Format, Scratch};
use crate::bench::input::Inputs;
use crate::bench::interrupt;
use crate::bench::measure::Stopwatch;
use crate::bench::named;
use crate::bench::progress::Progress;
use crate::bench::side::Program;
use crate::place::Place;
use crate::reach::{self, AnyOwner};
use anyhow::{Context, Result};
use clap::Parser;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure_model::DriveName;
use tenure_store::Cache;

/// Files of one directory of a tree.
const FILES_A_DIRECTORY: u64 = 1_000;
/// Disks: some GiB, and what a million small files take on btrfs, twice.
const DISK_MIN: u64 = 4 << 30;
const BYTES_A_FILE: u64 = 8 << 10;

/// Two disks, and the program.
pub(super) struct Yard<'a> {
    pub(super) progress: Progress,
    pub(super) inputs: Inputs,
    executable: PathBuf,
    places: &'a Places,
    // Dropped in this order: what is mounted before what it lies in.
    drives: Disk,
    rivals: Disk,
    scratch: Scratch,
}

/// A drive of the yard, mounted; gone when dropped.
pub(super) struct Drive<'a> {
    yard: &'a Yard<'a>,
    pub(super) program: Program,
    /// Where its branch `main` is mounted.
    pub(super) main: PathBuf,
    name: &'static str,
}

/// How the process that serves a drive is reached.
pub(super) struct Way {
    bucket: PathBuf,
    name: &'static str,
}

/// The options by which a command finds a bucket.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    place: Place,
}

impl<'a> Yard<'a> {
    /// Makes the disks, large enough for a tree of `files`.
    pub(super) fn make(places: &'a Places, files: u64, progress: Progress) -> Result<Self> {
        let scratch = Scratch::make(&places.scratch)?;
        let size = DISK_MIN.max(files * BYTES_A_FILE);
        Ok(Self {
            progress,
            inputs: places.inputs(progress)?,
            executable: places.tenure()?,
            places,
            drives: Disk::make(&scratch, ("drives", Format::Ext4), size, progress)?,
            rivals: Disk::make(&scratch, ("rivals", Format::Btrfs), size, progress)?,
            scratch,
        })
    }

    /// Makes a drive and mounts its branch `main`.
    pub(super) fn drive(&'a self, name: &'static str) -> Result<Drive<'a>> {
        let program = Program::at_home(
            &self.executable,
            &self.drives.path().join(name),
            &self.scratch.path().join("run"),
            &self.places.mount_arg,
        )?;
        let main = self.place(name)?;
        program.mount(name, &main, &["--create"])?;
        let yard = self;
        Ok(Drive {
            yard,
            program,
            main,
            name,
        })
    }

    /// Returns an empty directory to mount something at.
    pub(super) fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.scratch.path().join(format!("at-{name}"));
        named::create_dir_all(&place)?;
        Ok(place)
    }

    /// Returns where something can be made on a local disk as the one that the drives are on.
    pub(super) fn local(&self, name: &str) -> Result<PathBuf> {
        let at = self.drives.path().join("local");
        named::create_dir_all(&at)?;
        Ok(at.join(name))
    }

    /// Returns the root of the file system that has snapshots.
    pub(super) fn rivals(&self) -> &Path {
        self.rivals.path()
    }

    /// Returns the seconds that a small write to the drives' disk takes until it is durable.
    pub(super) fn sync_seconds(&self) -> Result<f64> {
        let path = self.drives.path().join("synced");
        let mut file = named::create(&path)?;
        // Written before, as a journal is.
        file.write_all(&[1; 4096])?;
        file.sync_all()?;
        let mut seconds = Vec::new();
        for _ in 0..21 {
            let watch = Stopwatch::start();
            std::os::unix::fs::FileExt::write_all_at(&file, &[2; 4096], 0)?;
            file.sync_data()?;
            seconds.push(watch.seconds());
        }
        named::remove_file(path)?;
        Ok(crate::bench::statistics::median(&seconds))
    }
}

impl Drive<'_> {
    /// Returns a branch or checkpoint of the drive, as commands name it.
    pub(super) fn at(&self, branch: &str) -> String {
        format!("{}@{branch}", self.name)
    }

    /// Returns the seconds that a command takes.
    pub(super) fn timed(&self, words: &[&str]) -> Result<f64> {
        let mut command = self.program.command();
        command.args(words);
        let watch = Stopwatch::start();
        run(&mut command)?;
        Ok(watch.seconds())
    }

    /// Returns how the process that serves the drive is reached.
    pub(super) fn way(&self) -> Way {
        Way {
            bucket: self.bucket(),
            name: self.name,
        }
    }

    /// Returns the folder that is the drive's bucket.
    fn bucket(&self) -> PathBuf {
        self.program.data().join("tenure/bucket")
    }

    /// Returns the bytes that the drive's bucket takes on its disk.
    pub(super) fn stored(&self) -> Result<u64> {
        taken(&self.bucket())
    }

    /// Returns the bytes that the drive's packs take on their disk.
    pub(super) fn packed(&self) -> Result<u64> {
        taken(&self.bucket().join("drives").join(self.name).join("packs"))
    }

    /// Returns the largest resident set of the process that serves the drive so far.
    pub(super) fn peak_rss_bytes(&self) -> Result<u64> {
        Ok(self.program.status(&self.main)?.counters.peak_rss_bytes)
    }
}

/// Returns the bytes that a folder takes on its disk.
fn taken(folder: &Path) -> Result<u64> {
    let printed = run(command("du").args(["-s", "-B1"]).arg(folder))?;
    let text = String::from_utf8_lossy(&printed);
    let number = text.split_whitespace().next().unwrap_or_default();
    number.parse().with_context(|| format!("`du` printed {text}"))
}

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        // After an interruption no command runs any more; then the scratch folder is swept with all that is mounted in it.
        if self.program.unmount(&self.main).is_ok() {
            let _ = fs::remove_dir_all(self.yard.drives.path().join(self.name));
        }
    }
}

impl Way {
    /// Calls `ask` with the owner, over a connection of its own.
    pub(super) fn connected<R>(&self, ask: impl FnOnce(&AnyOwner) -> Result<R>) -> Result<R> {
        let words = ["tenure".as_ref(), "--bucket".as_ref(), self.bucket.as_os_str()];
        let place = Options::try_parse_from(words)?.place;
        let name = DriveName::parse(self.name).expect("a literal name");
        let who = reach::who("tenure bench".to_owned(), false);
        let reached = reach::drive(
            &place,
            &name,
            (who, reach::Purpose::Change),
            &Arc::new(Cache::in_memory()),
        )?;
        let answer = ask(&reached.owner());
        reached.close()?;
        answer
    }
}

/// Makes a tree of so many small files, durable when it returns.
pub(super) fn make_tree(at: &Path, files: u64) -> Result<()> {
    for file in 0..files {
        let directory = directory(at, file);
        if file % FILES_A_DIRECTORY == 0 {
            interrupt::check()?;
            named::create_dir(&directory)?;
        }
        named::write(
            directory.join(format!("file-{file}")),
            format!("this is file {file}\n"),
        )?;
    }
    sync(at)
}

/// Changes so many of a tree's files, all over it, from one of its first on.
pub(super) fn change_tree(at: &Path, files: u64, (first, count): (u64, u64), by: &str) -> Result<()> {
    let step = files.checked_div(count).unwrap_or(0);
    for file in (0..count).map(|change| first + change * step) {
        named::write(
            directory(at, file).join(format!("file-{file}")),
            format!("{by} has changed file {file}\n"),
        )?;
    }
    sync(at)
}

/// Makes durable all that was changed below a directory of a mount.
pub(super) fn sync(at: &Path) -> Result<()> {
    Ok(named::open(at)?.sync_all()?)
}

fn directory(at: &Path, file: u64) -> PathBuf {
    at.join(format!("directory-{}", file / FILES_A_DIRECTORY))
}
