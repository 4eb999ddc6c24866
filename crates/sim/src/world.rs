//! A world: everything that one seed makes happen, until its end or until a promise is broken.
//!
//! Invariant: nothing in it reads a clock, a thread's luck or an address; the same seed gives the same trace.

mod crash;
mod life;
mod lines;
mod parked;
mod perform;
mod rival;

use crate::check::{Broken, History, Snapshot, Verdict};
use crate::clock::SimClock;
use crate::fault::Late;
use crate::fault::Plant;
use crate::random::Random;
use crate::trace::Trace;
use crate::workload::{self, Profile};
use life::{Life, Settings};
use parked::Parked;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tenure_model::{Clock, Digest, Ino, Timestamp};

/// How a world is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The kind of its programs; the seed chooses one if it is not said.
    pub profile: Option<Profile>,
    /// A fault of ours that is in it.
    pub plant: Option<Plant>,
    /// Whether every event is printed.
    pub is_printed: bool,
}

/// What became of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The kind of its programs.
    pub profile: Profile,
    /// The hash of everything that happened.
    pub trace: Digest,
    /// What happened how often.
    pub counts: Counts,
    /// The promise that was not kept, if so.
    pub broken: Option<Broken>,
    /// The last events.
    pub last: Vec<String>,
}

/// What happened in a world how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Syncs that were acknowledged.
    pub syncs: u64,
    /// Crashes, those during a recovery included.
    pub crashes: u64,
    /// Calls that failed because of a fault.
    pub failures: u64,
}

impl Counts {
    /// Adds what happened in another world.
    pub fn add(&mut self, other: Counts) {
        self.steps += other.steps;
        self.syncs += other.syncs;
        self.crashes += other.crashes;
        self.failures += other.failures;
    }
}

/// A branch that nobody holds, or a checkpoint.
struct Line {
    is_branch: bool,
    state: Snapshot,
}

/// A line that was made, or may have been because the answer was lost, and that was not looked at yet.
struct Unknown {
    name: String,
    is_branch: bool,
    is_certain: bool,
    /// What it was made from.
    history: History,
}

pub(crate) struct World {
    profile: Profile,
    settings: Settings,
    clock: Arc<SimClock>,
    trace: Trace,
    /// Chooses what happens.
    workload: Random,
    /// Chooses what goes wrong.
    faults: Random,
    /// Chooses what owners do before anybody asks them for something.
    owners: Random,
    life: Life,
    /// The branch that is held.
    held: String,
    history: History,
    /// When files were changed last, as far as that is known: a crash may forget it.
    touched: BTreeMap<Ino, Timestamp>,
    lines: BTreeMap<String, Line>,
    /// Checkpoints of the beginning that only make the drive's own rows many.
    rows: u32,
    /// The client that stands while the other acts.
    parked: Option<Parked>,
    unknown: Option<Unknown>,
    /// Lines that were to be deleted, and may be.
    gone: BTreeMap<String, Line>,
    /// Names of branches and checkpoints that were used.
    names_used: u64,
    /// Batches that were shipped when somebody looked last, and changes of names before that.
    shipped: (u64, usize),
    /// Whether the last failure was of a call that may have been done, because its answer was lost.
    told_of_loss: bool,
    /// Whether another owner has inherited the drive in this step.
    has_new_owner: bool,
    /// A write of an owner that has ended, which arrives some time.
    late: Option<Late>,
    counts: Counts,
}

/// Lets a world happen.
pub fn run(seed: u64, options: &Options) -> Report {
    let trace = Trace::new(options.is_printed);
    let mut random = Random::new(seed, "world");
    let drawn = *random.pick(&Profile::ALL);
    let profile = options.profile.unwrap_or(drawn);
    trace.note(format_args!("seed {seed}, {profile:?}"));
    let mut counts = Counts::default();
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::begin(seed, profile, options, &mut random, trace.clone())?;
        let lived = world.live();
        counts = world.counts;
        lived
    }));
    let broken = match lived {
        Ok(lived) => lived.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Some(Broken(format!("a panic: {}", text.unwrap_or_default())))
        }
    };
    Report {
        seed,
        profile,
        trace: trace.digest(),
        counts,
        broken,
        last: trace.last(),
    }
}

impl World {
    fn begin(
        seed: u64,
        profile: Profile,
        options: &Options,
        random: &mut Random,
        trace: Trace,
    ) -> Verdict<Self> {
        let settings = Settings::draw(random, options.plant);
        trace.note(format_args!("{settings:?}"));
        let clock = Arc::new(SimClock::default());
        let mut faults = Random::new(seed, "faults");
        let life = Life::create(&settings, &clock, &trace, &mut faults)?;
        let mut world = Self {
            profile,
            settings,
            clock,
            trace,
            workload: Random::new(seed, "workload"),
            faults,
            owners: Random::new(seed, "owners"),
            life,
            held: "main".to_owned(),
            history: History::default(),
            touched: BTreeMap::new(),
            lines: BTreeMap::new(),
            rows: 0,
            parked: None,
            late: None,
            has_new_owner: false,
            unknown: None,
            gone: BTreeMap::new(),
            names_used: 0,
            shipped: (0, 0),
            told_of_loss: false,
            counts: Counts::default(),
        };
        world.begin_history()?;
        world.make_many_rows()?;
        world.plan_loss();
        Ok(world)
    }

    /// Notes that a file was changed now.
    fn touch(&mut self, ino: Ino) {
        self.touched.insert(ino, self.clock.now());
    }

    /// Notes where batches ended, if any were shipped by the last step: before what it has changed or behind it.
    fn note_batches(&mut self) {
        let (ships, before) = self.shipped;
        let (now, changes) = (self.life.owner.ships(), self.history.changes());
        if now != ships {
            self.history.batch_ends(before.min(changes));
            self.history.batch_ends(changes);
        }
        self.shipped = (now, changes);
    }

    fn live(&mut self) -> Verdict<()> {
        let end = self.profile.steps();
        while self.counts.steps < end {
            self.counts.steps += 1;
            let history = &self.history;
            let step = workload::choose(
                self.profile,
                history.names(),
                |ino| history.content(ino),
                &mut self.workload,
            );
            if let Some(step) = step {
                self.perform(&step)?;
                self.look_after()?;
            }
        }
        self.end()
    }
}
