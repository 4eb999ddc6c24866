//! A life: one process with a drive and a client, from its start to its end, on one machine.

use crate::check::{Verdict, broken};
use crate::clock::SimClock;
use crate::fault::{Machine, Plant, Planted, Syncing};
use crate::random::Random;
use crate::trace::Trace;
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
            is_hosted: !random.one_in(4) || plant.is_some(),
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
    pub(super) owner: Arc<dyn Owner<tenure_core::Branch>>,
    branch: Option<Branch>,
    pub(super) syncing: Syncing,
    /// Whether calls may fail now.
    pub(super) in_trouble: bool,
    /// Whether calls could fail at some time in this life.
    pub(super) was_in_trouble: bool,
    /// Whether the process has nothing more to do here.
    pub(super) must_end: bool,
}

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

fn drive_options(settings: &Settings, clock: &Arc<SimClock>, random: &mut Random) -> tenure_server::Options {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&random.next().to_le_bytes());
    tenure_server::Options {
        threads: tenure_server::Threads::None,
        fold_bytes: settings.fold_bytes,
        page_bytes_max: settings.page_bytes_max,
        journal_sizes: settings.journal_sizes,
        pack_sizes: settings.pack_sizes,
        ..tenure_server::Options::new(clock.clone(), nonce, "box", 1)
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
                    .lose_power(random.below(40), super::crash::draw_loss(random));
            }
            tries += 1;
            let options = drive_options(settings, clock, random);
            let made = Drive::create(started.faulty.clone(), &drive_name(), &beginning, options);
            let is_off = started.machine.is_off();
            trace.note(format_args!("create: {:?}", made.as_ref().map(|_| ())));
            match made {
                Ok(drive) if !is_off => return Ok(Self::new(started, drive, settings)),
                Ok(_) | Err(_) if is_off => {}
                // It was made before, as far as it had to.
                Err(Error::Refused(_)) if tries > 1 => {
                    started.machine.keep_power();
                    return Self::open(started, settings, clock, random).map_err(|error| {
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
    pub(super) fn open(
        started: Started,
        settings: &Settings,
        clock: &Arc<SimClock>,
        random: &mut Random,
    ) -> Result<Self, Error> {
        let options = drive_options(settings, clock, random);
        let drive = Drive::open(started.faulty.clone(), &drive_name(), options)?;
        Ok(Self::new(started, drive, settings))
    }

    fn new(started: Started, drive: Arc<Drive>, settings: &Settings) -> Self {
        let syncing = Syncing::default();
        let owner: Arc<dyn Owner<tenure_core::Branch>> = match settings.plant {
            None | Some(Plant::SkipsSyncs) => drive.clone(),
            Some(plant) => Arc::new(Planted::new(drive.clone(), plant, syncing.clone())),
        };
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
            branch: None,
            syncing,
            in_trouble: false,
            was_in_trouble: false,
            must_end: false,
        }
    }

    /// Returns the branch that is held.
    pub(super) fn branch(&self) -> &Branch {
        self.branch.as_ref().expect("a branch is held between two steps")
    }

    /// Holds a branch, or looks at what a branch or checkpoint is.
    fn client(
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

    /// Lets the branch go without a word.
    pub(super) fn let_go(&mut self) {
        self.branch = None;
    }

    /// Tells whether the drive says that it has stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.owner.room().is_err()
    }

    /// Runs a sync, so that planted faults know of it.
    pub(super) fn sync<R>(&self, sync: impl FnOnce(&Branch) -> R) -> R {
        self.syncing.store(true, Ordering::Relaxed);
        let synced = sync(self.branch());
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
