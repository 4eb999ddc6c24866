//! A crowd: threads that all work through one client, each in a directory of its own, over a drive with all its threads,
//! until the power fails under them. Then each finds what it was promised.
//!
//! Which thread comes first is chance, so a seed chooses what is done and not what happens. Invariant: what one thread does
//! shows in no other's directory, so each can be held against a reference of its own.

mod company;

pub use company::meet;

use crate::check::{Broken, Change, History, Snapshot, Verdict, broken, survey};
use crate::clock::SimClock;
use crate::fault::{After, Loss, Machine};
use crate::program;
use crate::random::{self, Random};
use crate::workload::{self, ContentStep, EntryStep, InodeStep, Profile, Step};
use bytes::Bytes;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_client::Branch;
use tenure_model::{AttrChange, BranchName, DriveName, Ino, Kind, Name, NewNode};
use tenure_server::{Beginning, Drive, Options};
use tenure_store::MemoryBucket;
use tenure_wire::{Access, Error, Owner, Who};

/// Threads in a crowd.
const THREADS: u64 = 4;
/// Steps of one thread, if the power lasts.
const STEPS: u64 = 400;
/// Calls of the bucket among which the power fails; most crowds that live to their end make more.
const CALLS: u64 = 600;

/// What became of a crowd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Syncs that were acknowledged.
    pub syncs: u64,
    /// Whether the power failed while it worked.
    pub was_cut_off: bool,
    /// The promise that was not kept, if so.
    pub broken: Option<Broken>,
}

/// One thread's work, and what it knows of its directory.
struct Worker {
    home: Ino,
    history: History,
    random: Random,
    profile: Profile,
    syncs: u64,
}

/// Lets a crowd work until the power fails, and judges what is left.
pub fn run(seed: u64) -> Report {
    let mut report = Report {
        seed,
        syncs: 0,
        was_cut_off: false,
        broken: None,
    };
    report.broken = live(seed, &mut report).err();
    report
}

fn live(seed: u64, report: &mut Report) -> Verdict<()> {
    let mut random = Random::new(seed, "crowd");
    let memory = MemoryBucket::new();
    let machine = Machine::new(Arc::new(memory.clone()), None);
    let is_hosted = random.one_in(2);
    let workers = {
        let clock = Arc::new(SimClock::default());
        let drive = create(&machine, &clock, &mut random)?;
        let threads = tenure_client::Threads::Started;
        let branch = take(&drive, &clock, (is_hosted, Access::Exclusive), threads)?;
        let mut workers = homes(&branch, &mut random)?;
        let loss = *random.pick(&[Loss::Before, Loss::Midway, Loss::Behind]);
        machine.lose_power(After::Calls(random.below(CALLS)), loss);
        let worked = work(&mut workers, &branch, (&machine, &clock));
        report.was_cut_off = machine.is_off();
        report.syncs = workers.iter().map(|worker| worker.syncs).sum();
        machine.turn_off();
        worked?;
        workers
    };
    let left = if random.one_in(3) {
        memory.copy()
    } else {
        memory.after_power_loss(random.next())
    };
    judge(&workers, left, &mut random)
}

fn work(workers: &mut [Worker], branch: &Branch, around: (&Machine, &SimClock)) -> Verdict<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| scope.spawn(move || worker.run(branch, around)))
            .collect();
        let ends = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| broken("a thread of the crowd panicked"))
        });
        ends.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Opens what the power loss has left, and holds each home against what its thread was promised.
fn judge(workers: &[Worker], left: MemoryBucket, random: &mut Random) -> Verdict<()> {
    let machine = Machine::new(Arc::new(left), None);
    let options = options(&Arc::default(), random, tenure_server::Threads::None);
    let drive = Drive::open(Arc::new(machine), &drive_name(), options);
    let drive = drive.map_err(|error| Broken(format!("the drive cannot be opened: {error}")))?;
    if let Some(lost) = drive.notices().iter().find(|notice| notice.contains("lost")) {
        return broken(format!("the drive says that it has lost something: {lost}"));
    }
    let reading = (true, Access::Read);
    let branch = take(&drive, &Arc::default(), reading, tenure_client::Threads::None)?;
    let found = survey(&branch).map_err(|error| Broken(format!("the branch cannot be read: {error}")))?;
    for worker in workers {
        let home = below(&found, worker.home);
        let judged = worker.history.judge(&home);
        judged.map_err(|Broken(why)| Broken(format!("home {}: {why}", worker.home)))?;
    }
    match drive.check(true) {
        Ok(faults) if faults.is_empty() => Ok(()),
        checked => broken(format!("the drive is not whole: {checked:?}")),
    }
}

/// Returns what can be reached from a directory.
fn below(found: &Snapshot, home: Ino) -> Snapshot {
    let mut below = Snapshot::default();
    let mut waiting = vec![home];
    while let Some(ino) = waiting.pop() {
        let Some(inode) = found.names.inodes.get(&ino) else {
            continue;
        };
        if below.names.inodes.insert(ino, inode.clone()).is_none() {
            waiting.extend(inode.entries.values());
        }
        let content = found.contents.get(&ino);
        below
            .contents
            .extend(content.map(|content| (ino, content.clone())));
    }
    below
}

impl Worker {
    fn run(&mut self, branch: &Branch, (machine, clock): (&Machine, &SimClock)) -> Verdict<()> {
        for _ in 0..STEPS {
            clock.pass(Duration::from_micros(self.random.below(500)));
            let history = &self.history;
            let names = history.names();
            let step = workload::choose(self.profile, names, |ino| history.content(ino), &mut self.random);
            let done = match step {
                Some(Step::Entry(step)) => self.change_entries(branch, &step),
                Some(Step::Inode(ino, InodeStep::Sync)) => self.sync(branch, ino),
                Some(Step::Inode(ino, step)) => match program::change_inode(branch, ino, &step) {
                    Some((outcome, change)) => self.changed(outcome, change),
                    None => Ok(Ok(())),
                },
                Some(Step::Content(ino, step)) => self.change_content(branch, ino, &step),
                // The rest is about the whole drive.
                Some(_) | None => Ok(Ok(())),
            };
            match done? {
                Ok(()) => {}
                Err(_) if machine.is_off() => return Ok(()),
                Err(error) => return broken(format!("a call failed, and there was no fault: {error}")),
            }
        }
        Ok(())
    }

    fn change_entries(&mut self, branch: &Branch, step: &EntryStep) -> Verdict<Result<(), Error>> {
        let (outcome, change) = program::change_entries(branch, step);
        let orphan = outcome.as_ref().ok().and_then(|outcome| outcome.orphan);
        let changed = self.changed(outcome.map(drop), change)?;
        match orphan {
            Some(ino) => self.changed(branch.drop_orphan(ino), Change::Drop { ino }),
            None => Ok(changed),
        }
    }

    /// Holds the answer to a change of names against the reference.
    fn changed(&mut self, outcome: Result<(), Error>, change: Change) -> Verdict<Result<(), Error>> {
        match (outcome, self.history.names().decide(&change)) {
            (Ok(()), Ok(())) => {
                let noted = self.history.change(change);
                noted.expect("it was just decided");
                self.end_batch();
                Ok(Ok(()))
            }
            (Err(Error::Refused(refusal)), Err(expected)) if refusal == expected => Ok(Ok(())),
            (Err(error @ Error::Failed(_)), _) => Ok(Err(error)),
            (outcome, expected) => broken(format!("{change:?} gave {outcome:?} instead of {expected:?}")),
        }
    }

    /// Others ship as well, at any time.
    fn end_batch(&mut self) {
        self.history.batch_ends(self.history.changes());
    }

    fn change_content(
        &mut self,
        branch: &Branch,
        ino: Ino,
        step: &ContentStep,
    ) -> Verdict<Result<(), Error>> {
        match *step {
            ContentStep::Write { offset, len, seed } => Ok(self.write(branch, ino, offset, (len, seed))),
            ContentStep::Append { len, seed } => {
                let end = self.history.content(ino).map_or(0, |content| content.size());
                Ok(self.write(branch, ino, end, (len, seed)))
            }
            ContentStep::Resize(size) => {
                let wanted = AttrChange {
                    size: Some(size),
                    ..AttrChange::default()
                };
                let resized = branch.set_attr(ino, &wanted).map(drop);
                if resized.is_ok() {
                    let cut = self.history.cut(ino, |content| content.resize(size));
                    cut.expect("the workload cuts only files");
                    self.end_batch();
                }
                Ok(resized)
            }
            ContentStep::Read { offset, len } => self.read(branch, ino, offset, len),
            ContentStep::Punch { .. }
            | ContentStep::Collapse { .. }
            | ContentStep::Insert { .. }
            | ContentStep::Copy { .. } => Ok(Ok(())),
        }
    }

    fn write(
        &mut self,
        branch: &Branch,
        ino: Ino,
        offset: u64,
        (len, seed): (usize, u64),
    ) -> Result<(), Error> {
        let bytes = random::bytes(seed, len);
        branch.write(ino, offset, Bytes::from(bytes.clone()))?;
        self.history.write(ino, |content| content.write(offset, &bytes));
        Ok(())
    }

    fn read(&mut self, branch: &Branch, ino: Ino, offset: u64, len: usize) -> Verdict<Result<(), Error>> {
        let mut bytes = Vec::new();
        let read = branch.read(ino, offset, len, &mut bytes);
        let expected = self
            .history
            .content(ino)
            .map(|content| content.read(offset, len as u64));
        if read.is_ok() && Some(bytes) != expected {
            return broken(format!("what is read from inode {ino} is not what was written"));
        }
        Ok(read)
    }

    fn sync(&mut self, branch: &Branch, ino: Ino) -> Verdict<Result<(), Error>> {
        let (send, receive) = mpsc::channel();
        branch.sync(ino, Box::new(move |synced| drop(send.send(synced))));
        let Ok(synced) = receive.recv() else {
            return broken("a sync was never answered");
        };
        if synced.is_ok() {
            self.syncs += 1;
            self.history.synced(ino);
        }
        Ok(synced)
    }
}

/// Makes a directory for each thread, durable before any of them begins.
fn homes(branch: &Branch, random: &mut Random) -> Verdict<Vec<Worker>> {
    let made: Result<Vec<Ino>, Error> = (0..THREADS).map(|thread| make_home(branch, thread)).collect();
    let made = made.and_then(|made| branch.sync_all().map(|()| made));
    let made = made.map_err(|error| Broken(format!("a new branch cannot be changed: {error}")))?;
    let found = survey(branch).map_err(|error| Broken(format!("a new branch cannot be read: {error}")))?;
    let worker = |home| Worker {
        home,
        history: History::from(&below(&found, home)),
        random: Random::new(random.next(), "thread"),
        profile: *random.pick(&Profile::ALL),
        syncs: 0,
    };
    Ok(made.into_iter().map(worker).collect())
}

fn make_home(branch: &Branch, thread: u64) -> Result<Ino, Error> {
    let name = Name::parse(format!("home-{thread}").as_bytes()).expect("it is a name");
    let node = NewNode {
        kind: Kind::Directory,
        mode: 0o755,
        ..NewNode::file()
    };
    Ok(branch.create(Ino::ROOT, &name, &node)?.0)
}

fn drive_name() -> DriveName {
    DriveName::parse("work").expect("a literal name")
}

fn options(clock: &Arc<SimClock>, random: &mut Random, threads: tenure_server::Threads) -> Options {
    Options {
        threads,
        fold_bytes: *random.pick(&[30 << 10, 32 << 20]),
        // Whose threads say each second that they are there is not silent, however quick the clock is.
        session_ttl: Duration::from_secs(3600),
        ..Options::new(clock.clone(), random.draw(), "box", 1)
    }
}

fn create(machine: &Machine, clock: &Arc<SimClock>, random: &mut Random) -> Verdict<Arc<Drive>> {
    let beginning = Beginning {
        hash_key: [7; 16],
        branch: BranchName::parse("main").expect("a literal name"),
        uid: 0,
        gid: 0,
    };
    let options = options(clock, random, tenure_server::Threads::Started);
    let made = Drive::create(Arc::new(machine.clone()), &drive_name(), &beginning, options);
    made.map_err(|error| Broken(format!("a drive cannot be made: {error}")))
}

fn take(
    drive: &Arc<Drive>,
    clock: &Arc<SimClock>,
    (is_hosted, access): (bool, Access),
    threads: tenure_client::Threads,
) -> Verdict<Branch> {
    let who = Who {
        agent: "ada".to_owned(),
        host: "box".to_owned(),
        pid: 1,
        purpose: "a crowd".to_owned(),
        hosted: is_hosted,
    };
    let options = tenure_client::Options {
        lag_max: Duration::from_millis(20),
        stage_settle: 256 << 10,
        stage_max: 1 << 20,
        // The power that fails never comes back.
        sync_patience: Duration::ZERO,
        threads,
    };
    let taken = Owner::open(&**drive, &who).and_then(|opened| {
        let (clock, witness) = (clock.clone(), Arc::new(()));
        Branch::hold(drive.clone(), (clock, witness), opened, ("main", access), options)
    });
    taken.map_err(|error| Broken(format!("the branch cannot be held: {error}")))
}
