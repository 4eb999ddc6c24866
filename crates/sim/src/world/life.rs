//! A life: one process with a drive and a client, from its start to its end, on one machine.

use super::crash::{draw_after, draw_loss};
use crate::check::{Verdict, broken};
use crate::clock::SimClock;
use crate::fault::{After, Heir, Lane, Late, Machine, Owning, Plant, Planted, Sessions, Syncing};
use crate::random::Random;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenure_client::Branch;
use tenure_model::{BranchName, DriveName, Refusal};
use tenure_server::{Beginning, Drive, JournalSizes, PackSizes};
use tenure_store::MemoryBucket;
use tenure_store::faulty::{Call, FaultyBucket, Plan};
use tenure_wire::{Access, Error, Owner, Who};

/// How long a change may wait when nobody syncs.
pub(super) const LAG_MAX: Duration = Duration::from_secs(1);

/// What a world's drive and client are like.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    fold_bytes: u64,
    page_bytes_max: usize,
    journal_sizes: JournalSizes,
    pack_sizes: PackSizes,
    stage_settle: u64,
    /// Whether the client shares pages with the drive.
    is_hosted: bool,
    pub(super) plant: Option<Plant>,
}

impl Settings {
    pub(super) fn draw(random: &mut Random, plant: Option<Plant>) -> Self {
        let first = *random.pick(&[64 << 10, 2 << 20]);
        Self {
            fold_bytes: *random.pick(&[30 << 10, 300 << 10, 32 << 20]),
            page_bytes_max: *random.pick(&[200 << 10, 256 << 20]),
            journal_sizes: JournalSizes {
                first,
                next: first * 2,
                reserve: first / 2,
            },
            // Three buffers hold the largest chunk.
            pack_sizes: PackSizes {
                buffer_len: *random.pick(&[384 << 10, 1 << 20]),
                pack_len: *random.pick(&[512 << 10, 4 << 20, 64 << 20]),
            },
            stage_settle: *random.pick(&[16 << 10, 256 << 10, 4 << 20]),
            // An owner that is told each op finds by itself what is put in wrongly.
            is_hosted: !random.one_in(3) && !plant.is_some_and(Plant::needs_a_client_elsewhere)
                || plant.is_some_and(|plant| !plant.needs_a_client_elsewhere()),
            plant,
        }
    }
}

/// A process on its machine.
pub(super) struct Life {
    pub(super) memory: MemoryBucket,
    pub(super) machine: Machine,
    pub(super) faulty: Arc<FaultyBucket>,
    pub(super) drive: Arc<Drive>,
    pub(super) owner: Arc<Lane>,
    inherited: Inherited,
    branch: Option<Branch>,
    pub(super) syncing: Syncing,
    /// Whether calls may fail now.
    pub(super) in_trouble: bool,
    /// Whether calls could fail at some time in this life.
    pub(super) was_in_trouble: bool,
    /// Whether the process has nothing more to do here.
    pub(super) must_end: bool,
}

/// The owner that has inherited the drive since somebody looked, or why none could.
type Inherited = Arc<Mutex<Option<Result<(Started, Arc<Drive>), Error>>>>;

/// A machine that has started, with the bucket that its process sees.
pub(super) struct Started {
    pub(super) memory: MemoryBucket,
    pub(super) machine: Machine,
    pub(super) faulty: Arc<FaultyBucket>,
}

impl Started {
    pub(super) fn new(memory: MemoryBucket, plant: Option<Plant>, trace: &Trace) -> Self {
        let machine = Machine::new(Arc::new(memory.clone()), plant);
        let trace = trace.clone();
        let on_call = move |call: &Call| trace.note_call(format_args!("{:?} {}", call.kind, call.key));
        let inner = Arc::new(machine.clone());
        let faulty = FaultyBucket::watched(inner, Plan::none(), Some(Box::new(on_call)));
        Self {
            memory,
            machine,
            faulty: Arc::new(faulty),
        }
    }
}

pub(super) fn drive_name() -> DriveName {
    DriveName::parse("work").expect("a literal name")
}

fn branch_name(name: &str) -> BranchName {
    BranchName::parse(name).expect("the world makes valid names")
}

/// What a life is made with, beside chance.
pub(super) type Around<'a> = (&'a Settings, &'a Arc<SimClock>, &'a Trace);

fn owning(started: &Started, drive: &Arc<Drive>, settings: &Settings, syncing: &Syncing) -> Owning {
    let owner: Arc<dyn Owner<tenure_core::Branch>> = match settings.plant.filter(|plant| plant.is_of_owners())
    {
        None => drive.clone(),
        Some(plant) => Arc::new(Planted::new(drive.clone(), plant, syncing.clone())),
    };
    let machine = started.machine.clone();
    Owning { owner, machine }
}

/// Finds the next owner after one has ended: mostly only the process has ended, else the client ends as well.
fn heir(
    mut memory: MemoryBucket,
    (settings, clock, trace): Around<'_>,
    (syncing, inherited): (Syncing, Inherited),
    mut random: Random,
) -> Heir {
    let (settings, clock, trace) = (settings.clone(), clock.clone(), trace.clone());
    Box::new(move || {
        if random.one_in(3) {
            return None;
        }
        memory = memory.copy();
        memory.limit_space(None);
        let started = Started::new(memory.clone(), settings.plant, &trace);
        let options = drive_options(&settings, &clock, &mut random);
        trace.note(format_args!("  the owner has ended; the next one"));
        match Drive::open(started.faulty.clone(), &drive_name(), options) {
            Err(error) => {
                *inherited.lock() = Some(Err(error));
                None
            }
            Ok(drive) => {
                if random.one_in(2) {
                    let (after, loss) = (draw_after(&mut random), draw_loss(&mut random));
                    started.machine.lose_power(after, loss);
                }
                let owning = owning(&started, &drive, &settings, &syncing);
                *inherited.lock() = Some(Ok((started, drive)));
                Some(owning)
            }
        }
    })
}

fn drive_options(settings: &Settings, clock: &Arc<SimClock>, random: &mut Random) -> tenure_server::Options {
    tenure_server::Options {
        threads: tenure_server::Threads::None,
        fold_bytes: settings.fold_bytes,
        page_bytes_max: settings.page_bytes_max,
        journal_sizes: settings.journal_sizes,
        pack_sizes: settings.pack_sizes,
        ..tenure_server::Options::new(clock.clone(), random.draw(), "box", 1)
    }
}

impl Life {
    /// Makes the drive, though the machine may lose its power meanwhile.
    pub(super) fn create(
        settings: &Settings,
        clock: &Arc<SimClock>,
        trace: &Trace,
        random: &mut Random,
    ) -> Verdict<Self> {
        let beginning = Beginning {
            hash_key: [7; 16],
            branch: branch_name("main"),
            uid: 0,
            gid: 0,
        };
        let mut memory = MemoryBucket::new();
        let mut tries = 0;
        loop {
            let started = Started::new(memory.clone(), settings.plant, trace);
            if settings.plant.is_none() && tries < 3 && random.one_in(2) {
                started
                    .machine
                    .lose_power(After::Calls(random.below(40)), draw_loss(random));
            }
            tries += 1;
            let options = drive_options(settings, clock, random);
            let made = Drive::create(started.faulty.clone(), &drive_name(), &beginning, options);
            let is_off = started.machine.is_off();
            trace.note(format_args!("create: {:?}", made.as_ref().map(|_| ())));
            match made {
                Ok(drive) if !is_off => {
                    return Ok(Self::new(started, drive, (settings, clock, trace), random));
                }
                Ok(_) | Err(_) if is_off => {}
                // It was made before, as far as it had to.
                Err(Error::Refused(_)) if tries > 1 => {
                    started.machine.keep_power();
                    return Self::open(started, (settings, clock, trace), random).map_err(|error| {
                        crate::check::Broken(format!("a drive that is there cannot be opened: {error}"))
                    });
                }
                Ok(_) => unreachable!("a machine is on or off"),
                Err(error) => return broken(format!("a drive cannot be made: {error}")),
            }
            memory = memory.after_power_loss(random.next());
        }
    }

    /// Opens the drive.
    pub(super) fn open(started: Started, around: Around<'_>, random: &mut Random) -> Result<Self, Error> {
        let options = drive_options(around.0, around.1, random);
        let drive = Drive::open(started.faulty.clone(), &drive_name(), options)?;
        Ok(Self::new(started, drive, around, random))
    }

    fn new(started: Started, drive: Arc<Drive>, around: Around<'_>, random: &mut Random) -> Self {
        let (settings, _, _) = around;
        let (syncing, inherited) = (Syncing::default(), Inherited::default());
        let mut random = Random::new(random.next(), "lane");
        let heir = (!settings.is_hosted).then(|| {
            let memory = started.memory.clone();
            heir(
                memory,
                around,
                (syncing.clone(), inherited.clone()),
                random.clone(),
            )
        });
        let owning = owning(&started, &drive, settings, &syncing);
        random.next();
        let owner = Arc::new(Lane::new(owning, heir, random));
        let Started {
            memory,
            machine,
            faulty,
        } = started;
        Self {
            memory,
            machine,
            faulty,
            drive,
            owner,
            inherited,
            branch: None,
            syncing,
            in_trouble: false,
            was_in_trouble: false,
            must_end: false,
        }
    }

    /// Goes on with the owner that has inherited the drive, if one has, and returns the write that the last one may have
    /// left underway; or why none could inherit it.
    pub(super) fn adopt(&mut self) -> Result<Option<Option<Late>>, Error> {
        let Some(inherited) = self.inherited.lock().take() else {
            return Ok(None);
        };
        let (started, drive) = inherited?;
        let late = self.machine.late();
        (self.memory, self.machine, self.faulty) = (started.memory, started.machine, started.faulty);
        self.drive = drive;
        Ok(Some(late))
    }

    /// Ends the owner and lets the client go on with the next one; tells whether the client has outlived it.
    pub(super) fn end_owner(&mut self, sessions: Sessions) -> bool {
        self.machine.turn_off();
        !self.must_end && self.broken().is_none() && self.owner.inherit(sessions)
    }

    /// Returns the branch that is held.
    pub(super) fn branch(&self) -> &Branch {
        self.branch.as_ref().expect("a branch is held between two steps")
    }

    /// Holds a branch, or looks at what a branch or checkpoint is.
    pub(super) fn client(
        &self,
        settings: &Settings,
        clock: &Arc<SimClock>,
        (name, access): (&str, Access),
    ) -> Result<Branch, Error> {
        let who = Who {
            agent: "ada".to_owned(),
            host: "box".to_owned(),
            pid: 1,
            purpose: "the simulator".to_owned(),
            hosted: settings.is_hosted,
        };
        let options = tenure_client::Options {
            lag_max: LAG_MAX,
            stage_settle: settings.stage_settle,
            stage_max: settings.stage_settle * 4,
            threads: tenure_client::Threads::None,
            ..Default::default()
        };
        let opened = self.owner.open(&who)?;
        let session = opened.session;
        let held = Branch::hold(
            self.owner.clone(),
            (clock.clone(), Arc::new(())),
            opened,
            (name, access),
            options,
        );
        if held.is_err() {
            // The session is of no use; the next owner ends it if this fails as well.
            let _ = self.owner.close(session);
        }
        held
    }

    /// Holds a branch; waits for a session of the life before, which has not ended with its process, to be over.
    pub(super) fn hold(
        &mut self,
        settings: &Settings,
        clock: &Arc<SimClock>,
        name: &str,
    ) -> Result<(), Error> {
        self.branch = None;
        let mut held = self.client(settings, clock, (name, Access::Exclusive));
        if let Err(Error::Refused(Refusal::Held { .. })) = &held {
            clock.pass(Duration::from_secs(6));
            held = self.client(settings, clock, (name, Access::Exclusive));
        }
        self.branch = Some(held?);
        Ok(())
    }

    /// Looks at a branch or checkpoint.
    pub(super) fn look_at(
        &self,
        settings: &Settings,
        clock: &Arc<SimClock>,
        name: &str,
    ) -> Result<Branch, Error> {
        self.client(settings, clock, (name, Access::Read))
    }

    /// Deletes a stray that was looked at.
    pub(super) fn delete_stray(&self, name: &str) -> Result<(), Error> {
        Owner::delete_branch(&*self.drive, &branch_name(name))
    }

    /// Sets the branch aside, with the client that holds it.
    pub(super) fn set_aside(&mut self) -> Option<Branch> {
        self.branch.take()
    }

    /// Takes a client that was set aside.
    pub(super) fn take_up(&mut self, branch: Option<Branch>) {
        self.branch = branch;
    }

    /// Tells whether the client can outlive the owner.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.owner.has_heirs()
    }

    /// Lets the branch go without a word.
    pub(super) fn let_go(&mut self) {
        self.branch = None;
    }

    /// Tells whether the drive says that it has stopped.
    pub(super) fn has_stopped(&self) -> bool {
        Owner::room(&*self.drive).is_err()
    }

    /// Runs a sync, so that planted faults know of it.
    pub(super) fn sync<R>(&self, sync: impl FnOnce(&Branch) -> R) -> R {
        self.sync_of(self.branch(), sync)
    }

    /// Runs a sync of any client.
    pub(super) fn sync_of<R>(&self, branch: &Branch, sync: impl FnOnce(&Branch) -> R) -> R {
        self.syncing.store(true, Ordering::Relaxed);
        let synced = sync(branch);
        self.syncing.store(false, Ordering::Relaxed);
        synced
    }

    /// Returns why the client accepts nothing more, if so.
    pub(super) fn broken(&self) -> Option<Error> {
        self.branch.as_ref().and_then(Branch::broken)
    }

    /// Tells whether the client says that everything is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.branch().unsynced() == tenure_client::Unsynced::default()
    }
}
