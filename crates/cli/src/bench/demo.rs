//! `tenure bench demo`: the agent's day as a story that a person can watch. Work on a drive, lose the machine, go on from
//! the bucket alone, fork three attempts, leave it idle; then the same work's times beside the local disk.
//!
//! It proves what it shows: every step that could quietly be wrong (files missing, an unclean checkout, an attempt that
//! shows in another) is checked and ends the demo if it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::command::{command, git, run};
use super::disk::{Disk, Format, Scratch};
use super::input::{Inputs, warm};
use super::measure::Stopwatch;
use super::progress::Progress;
use super::side::Program;
use super::workload::agent;
use super::{Places, interrupt};
use crate::bench::named;
use crate::output;

const DRIVE: &str = "demo";
const ATTEMPTS: [&str; 3] = ["attempt-1", "attempt-2", "attempt-3"];
const IDLE: Duration = Duration::from_secs(10);
/// How often, and how long apart, it is asked whether the drive has come to rest.
const SETTLE_TRIES: u32 = 20;
const SETTLE: Duration = Duration::from_secs(2);
const GIB: u64 = 1 << 30;

/// Show the agent's day: work, crash, a new machine, forks
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    places: Places,
    /// Print the times as JSON at the end
    #[arg(long)]
    json: bool,
}

/// One step's seconds on the drive and on the local disk; a side that has no such step has none.
#[derive(Debug)]
struct Row {
    step: &'static str,
    drive: Option<f64>,
    disk: Option<f64>,
}

/// Tells the story.
pub(crate) fn run_story(args: &DemoArgs) -> Result<()> {
    let progress = Progress::on_stderr();
    let inputs = args.places.inputs(progress)?;
    inputs.repository()?;
    inputs.app()?;
    let scratch = Scratch::make(&args.places.scratch)?;
    let mut story = Story {
        progress,
        inputs: &inputs,
        rows: Vec::new(),
    };
    let disks = story.disks(&scratch)?;
    let executable = args.places.tenure()?;
    story.on_local_disk(&disks.local)?;
    let first = Machine::start(
        &executable,
        &disks.drive.join("machine-1"),
        scratch.path(),
        &["--create"],
    )?;
    let work = story.on_drive(&first)?;
    let second =
        story.lose_the_machine(first, &disks.drive.join("machine-2"), &executable, scratch.path())?;
    story.find_the_work(&second, &work)?;
    story.fork(&second)?;
    story.stay_idle(&second)?;
    second.unmount_all()?;
    story.finish(args.json)?;
    Ok(())
}

/// Where both sides work: on a fair disk each where that can be had, else on the scratch's own file system.
struct Disks {
    local: PathBuf,
    drive: PathBuf,
    _made: Vec<Disk>,
}

/// What the drive must still hold after the crash.
struct Work {
    commit: Vec<u8>,
    installed: u64,
}

struct Story<'a> {
    progress: Progress,
    inputs: &'a Inputs,
    rows: Vec<Row>,
}

/// A home directory and what is mounted from it: as far as the program can tell, a machine.
struct Machine {
    program: Program,
    mount_point: PathBuf,
    attempts: Vec<PathBuf>,
    /// The processes that serve it.
    pids: Vec<Pid>,
}

impl Story<'_> {
    fn disks(&self, scratch: &Scratch) -> Result<Disks> {
        let made =
            ["local", "drive"].map(|name| Disk::make(scratch, (name, Format::Ext4), 4 * GIB, self.progress));
        match made {
            [Ok(local), Ok(drive)] => Ok(Disks {
                local: local.path().to_owned(),
                drive: drive.path().to_owned(),
                _made: vec![local, drive],
            }),
            [local, drive] => {
                let why = local
                    .and(drive)
                    .map_or_else(|error| format!("{error:#}"), |_| String::new());
                self.progress.say(&format!(
                    "Both sides use {} as it is: {why}",
                    scratch.path().display()
                ));
                let (local, drive) = (
                    scratch.path().join("local-plain"),
                    scratch.path().join("drive-plain"),
                );
                named::create_dir(&local)?;
                named::create_dir(&drive)?;
                Ok(Disks {
                    local,
                    drive,
                    _made: Vec::new(),
                })
            }
        }
    }

    fn on_local_disk(&mut self, directory: &Path) -> Result<()> {
        self.progress
            .say("\n1. A morning's work on the local disk, for comparison");
        let sync = || Ok(rustix::fs::syncfs(named::open(directory)?)?);
        self.morning(directory, &sync, |row, seconds| row.disk = Some(seconds))
    }

    fn on_drive(&mut self, machine: &Machine) -> Result<Work> {
        self.progress
            .say("\n2. The same on a drive: `tenure mount demo DIR --create`, nothing configured");
        let at = &machine.mount_point;
        let sync = || Ok(named::open(at)?.sync_all()?);
        self.morning(at, &sync, |row, seconds| row.drive = Some(seconds))?;
        let project = at.join("project");
        Ok(Work {
            commit: head(&project)?,
            installed: agent::installed_files(&project.join("web"))?,
        })
    }

    /// Clones, installs, edits and commits in `at`; each step ends when `sync` says that it is durable.
    fn morning(
        &mut self,
        at: &Path,
        sync: &dyn Fn() -> Result<()>,
        put: impl Fn(&mut Row, f64) + Copy,
    ) -> Result<()> {
        let (repository, app) = (self.inputs.repository()?, self.inputs.app()?);
        warm(&repository.path)?;
        warm(&app.cache())?;
        let project = at.join("project");
        let web = project.join("web");
        let then_sync = |work: Result<()>| work.and_then(|()| sync());
        self.step("git clone", put, || then_sync(repository.clone_into(&project)))?;
        app.put_manifest(&web)?;
        self.step("npm ci", put, || then_sync(run(&mut app.install(&web)).map(drop)))?;
        agent::edit(&project, &agent::files_to_edit(&project)?)?;
        self.step("git commit", put, || then_sync(agent::commit(&project)))?;
        self.step("git status", put, || agent::status(&project))
    }

    fn lose_the_machine(
        &mut self,
        first: Machine,
        home: &Path,
        executable: &Path,
        scratch: &Path,
    ) -> Result<Machine> {
        self.progress
            .say("\n3. The machine is lost: kill -9, and all that is copied is the bucket folder");
        let old = first.program.data();
        first.kill()?;
        named::create_dir_all(home)?;
        run(command("cp").arg("-a").arg(&old).arg(home.join("data")))?;
        named::remove_dir_all(old.parent().context("a data folder has a parent")?)?;
        self.progress
            .say("   a new machine, an empty home, the copy; `tenure mount demo DIR`");
        let mut second = None;
        self.step(
            "mount on a new machine",
            |row, seconds| row.drive = Some(seconds),
            || {
                second = Some(Machine::start(executable, home, scratch, &[])?);
                Ok(())
            },
        )?;
        second.context("the machine was started")
    }

    fn find_the_work(&mut self, machine: &Machine, work: &Work) -> Result<()> {
        let project = machine.mount_point.join("project");
        ensure!(head(&project)? == work.commit, "the commit is not there");
        self.step(
            "first git status there",
            |row, seconds| row.drive = Some(seconds),
            || agent::status(&project),
        )?;
        let installed = agent::installed_files(&project.join("web"))?;
        ensure!(
            installed == work.installed,
            "{installed} of {} installed files are there",
            work.installed
        );
        run(git(&project).args(["fsck", "--connectivity-only"]))?;
        self.progress.say(&format!(
            "   all {installed} installed files, the commit, git fsck: as they were"
        ));
        Ok(())
    }

    fn fork(&mut self, machine: &Machine) -> Result<()> {
        self.progress
            .say("\n4. Three attempts from one state: `tenure checkpoint`, `tenure fork`");
        let base = machine.mount_point.join("project/README.attempt");
        let tell = |row: &mut Row, seconds| row.drive = Some(seconds);
        self.step("checkpoint", tell, || {
            machine.tenure(&["checkpoint", DRIVE, "before"])
        })?;
        self.step("fork, three times", tell, || {
            ATTEMPTS
                .iter()
                .try_for_each(|attempt| machine.tenure(&["fork", DRIVE, attempt]))
        })?;
        for (attempt, at) in ATTEMPTS.iter().zip(&machine.attempts) {
            machine.program.mount(&format!("{DRIVE}@{attempt}"), at, &[])?;
            let project = at.join("project");
            agent::status(&project)
                .with_context(|| format!("{attempt} does not begin where the base was"))?;
            named::write(project.join("README.attempt"), attempt)?;
        }
        for (attempt, at) in ATTEMPTS.iter().zip(&machine.attempts) {
            let own = named::read_to_string(at.join("project/README.attempt"))?;
            ensure!(own == *attempt, "{attempt} shows {own}'s work");
        }
        ensure!(!base.exists(), "an attempt shows in the base");
        self.progress
            .say("   each attempt has its own file, the base has none of them");
        Ok(())
    }

    fn stay_idle(&mut self, machine: &Machine) -> Result<()> {
        self.progress
            .say(&format!("\n5. Nobody does anything for {} s", IDLE.as_secs()));
        // What the attempts have written would become durable by itself, within the lag: that is no idle drive yet.
        for directory in machine.attempts.iter().chain([&machine.mount_point]) {
            named::open(directory)?.sync_all()?;
        }
        let asked = || -> Result<u64> {
            Ok(machine
                .program
                .status(&machine.mount_point)?
                .counters
                .bucket_requests)
        };
        let mut before = asked()?;
        // The journal may still be making room for what comes next.
        for _ in 0..SETTLE_TRIES {
            std::thread::sleep(SETTLE);
            let now = asked()?;
            if std::mem::replace(&mut before, now) == now {
                break;
            }
        }
        std::thread::sleep(IDLE);
        interrupt::check()?;
        let requests = asked()? - before;
        ensure!(
            requests == 0,
            "an idle drive made {requests} requests to its bucket"
        );
        self.progress.say("   requests to the bucket: 0");
        Ok(())
    }

    /// Does one step, tells how long it took, and puts the seconds into its row of the table.
    fn step(
        &mut self,
        step: &'static str,
        put: impl Fn(&mut Row, f64),
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let shown = self.progress.step(step);
        let watch = Stopwatch::start();
        work().with_context(|| step.to_owned())?;
        let seconds = watch.seconds();
        drop(shown);
        self.progress.say(&format!("   {step}: {seconds:.3} s"));
        let place = self.rows.iter().position(|row| row.step == step);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row {
                step,
                drive: None,
                disk: None,
            });
            self.rows.len() - 1
        });
        put(&mut self.rows[place], seconds);
        Ok(())
    }

    fn finish(&self, json: bool) -> Result<()> {
        if json {
            let rows = self.rows.iter().map(
                |row| serde_json::json!({ "step": row.step, "tenure_s": row.drive, "baseline_s": row.disk }),
            );
            return output::line(format_args!(
                "{:#}",
                serde_json::json!({ "steps": rows.collect::<Vec<_>>() })
            ));
        }
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header(["until durable", "Tenure", "local disk", "ratio"]);
        let told =
            |seconds: Option<f64>| seconds.map_or_else(String::new, |seconds| format!("{seconds:.3} s"));
        for row in &self.rows {
            let ratio = row
                .drive
                .zip(row.disk)
                .map_or_else(String::new, |(a, b)| format!("{:.2}", a / b));
            table.add_row([row.step.to_owned(), told(row.drive), told(row.disk), ratio]);
        }
        output::line(format_args!(
            "\n{table}\nOne run of each; `tenure bench day` repeats and bounds them."
        ))
    }
}

impl Machine {
    /// Mounts the drive from `home`.
    fn start(executable: &Path, home: &Path, scratch: &Path, arguments: &[&str]) -> Result<Machine> {
        let name = home
            .file_name()
            .context("a home has a name")?
            .to_string_lossy()
            .into_owned();
        let program = Program::at_home(executable, home, &scratch.join(format!("run-{name}")), &[])?;
        let place = |what: &str| scratch.join(format!("{name}-{what}"));
        let mount_point = place("main");
        let attempts: Vec<PathBuf> = ATTEMPTS.iter().map(|attempt| place(attempt)).collect();
        for directory in attempts.iter().chain([&mount_point]) {
            named::create_dir(directory)?;
        }
        program.mount(DRIVE, &mount_point, arguments)?;
        let pids = program.status(&mount_point)?.pids;
        Ok(Machine {
            program,
            mount_point,
            attempts,
            pids,
        })
    }

    /// Runs a `tenure` command.
    fn tenure(&self, arguments: &[&str]) -> Result<()> {
        run(self.program.command().args(arguments)).map(drop)
    }

    /// Ends it as a power cut would.
    fn kill(mut self) -> Result<()> {
        ensure!(!self.pids.is_empty(), "`tenure status` names no process");
        for pid in self.pids.drain(..) {
            kill_process(pid, Signal::KILL)?;
        }
        unmount(&self.mount_point, UnmountFlags::DETACH)
            .with_context(|| format!("cannot unmount {}", self.mount_point.display()))
    }

    /// Unmounts everything, durably.
    fn unmount_all(mut self) -> Result<()> {
        for directory in self.attempts.iter().chain([&self.mount_point]) {
            self.program.unmount(directory)?;
        }
        self.pids.clear();
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Only a story that went wrong comes here with a process; its scratch folder's sweep unmounts.
        for pid in &self.pids {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

fn head(project: &Path) -> Result<Vec<u8>> {
    run(git(project).args(["rev-parse", "HEAD"]))
}
