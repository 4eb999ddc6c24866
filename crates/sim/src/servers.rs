//! Servers of one bucket without a lock: they end, stand still, are cut off from each other and lose replies, while clients
//! sync, others read at whichever server they came to, and some share a branch.
//!
//! It chooses, and holds what is seen against what was promised: what was synced is there, and no answer is older than the
//! question. Of all threads one runs at a time, and everything follows from one seed. Invariant: every server waits by its own clock, and no two of
//! these differ by more than three in a hundred.

mod client;
mod post;
mod sharers;
mod town;

use crate::check::{Broken, Verdict, broken};
pub use crate::fault::Flaw;
use crate::random::Random;
use crate::trace::Trace;
use client::{Client, Reader};
use sharers::{MACHINES, Sharers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::Digest;
use tenure_wire::Owner;
use town::Town;

/// Servers of a world.
const SERVERS: usize = 3;
/// Clients of a world, each with a branch of its own.
const CLIENTS: usize = 2;
/// Steps of a world.
const STEPS: u64 = 150;

/// How a world is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is wrong with it on purpose.
    pub flaw: Option<Flaw>,
    /// Whether every event is printed.
    pub is_printed: bool,
}

/// What became of a world.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// A hash of everything that happened.
    pub trace: Digest,
    /// Syncs that were acknowledged.
    pub syncs: u64,
    /// Answers that were read and held against what was acknowledged before.
    pub reads: u64,
    /// Looks of those who share a branch.
    pub looks: u64,
    /// Epochs that were claimed.
    pub epochs: u64,
    /// The promise that was not kept, if so.
    pub broken: Option<Broken>,
    /// The last events, in words.
    pub last: Vec<String>,
}

struct World {
    town: Arc<Town>,
    clients: Vec<Client>,
    readers: Vec<Reader>,
    sharers: Sharers,
    random: Random,
    trace: Trace,
    reads: u64,
}

/// Lets a world happen.
pub fn run(seed: u64, options: Options) -> Report {
    let trace = Trace::new(options.is_printed);
    let mut report = Report {
        seed,
        trace: trace.digest(),
        syncs: 0,
        reads: 0,
        looks: 0,
        epochs: 0,
        broken: None,
        last: Vec::new(),
    };
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::begin(seed, options.flaw, trace.clone())?;
        let lived = world.live();
        let (looks, syncs) = world.sharers.counts();
        report.syncs = world.clients.iter().map(|client| client.synced()).sum::<u64>() + syncs;
        report.reads = world.reads;
        report.looks = looks;
        report.epochs = world.town.epochs();
        lived
    }));
    report.broken = match lived {
        Ok(lived) => lived.err(),
        Err(_) => Some(Broken("a panic".to_owned())),
    };
    report.trace = trace.digest();
    report.last = trace.last();
    report
}

impl World {
    fn begin(seed: u64, flaw: Option<Flaw>, trace: Trace) -> Verdict<Self> {
        let mut random = Random::new(seed, "servers");
        let town = Town::new((SERVERS, MACHINES), flaw, &mut random, trace.clone())?;
        let town = Arc::new(town);
        let sharers = Sharers::new(&town, Random::new(seed, "commons"))?;
        let clients = (0..CLIENTS).map(Client::new).collect();
        Ok(Self {
            town,
            clients,
            readers: Vec::new(),
            sharers,
            random,
            trace,
            reads: 0,
        })
    }

    fn live(&mut self) -> Verdict<()> {
        for step in 0..STEPS {
            self.trace.note(format_args!("step {step}"));
            self.step()?;
            self.sharers.step()?;
        }
        self.end()
    }

    fn step(&mut self) -> Verdict<()> {
        let random = &mut self.random;
        match random.below(22) {
            0..7 => {
                let at = random.below(CLIENTS as u64) as usize;
                self.clients[at].work(&self.town, random)?;
            }
            7..11 => self.read()?,
            11 | 12 => {
                let server = random.below(SERVERS as u64) as usize;
                if self.readers.len() == 4 {
                    self.readers.remove(0);
                }
                self.readers.extend(self.town.find_at(server).map(Reader));
            }
            13 | 14 => self.town.pass(Duration::from_millis(random.below(900))),
            15 => self.town.pass(Duration::from_millis(random.below(8000))),
            16 => self.town.cut_off(random),
            17 => self.town.end_one(random),
            18 => self.town.trouble(random),
            20 => {
                let at = random.below(CLIENTS as u64) as usize;
                self.clients[at].stand_still(&self.town);
            }
            21 => {
                let at = random.below(CLIENTS as u64) as usize;
                self.clients[at].go_on(&self.town)?;
            }
            _ => self.town.close_unused(random),
        }
        Ok(())
    }

    /// Somebody asks the server that he once came to.
    fn read(&mut self) -> Verdict<()> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let reader = self.random.below(self.readers.len() as u64) as usize;
        let Some(found) = self.readers[reader].read() else {
            return Ok(());
        };
        self.reads += 1;
        self.trace.note(format_args!("  reads {found:?}"));
        self.clients
            .iter()
            .try_for_each(|client| client.judge_read(&found))
    }

    /// Everything is well again: what was synced is there.
    fn end(&mut self) -> Verdict<()> {
        self.town.heal();
        self.readers.clear();
        self.sharers.close()?;
        let drive = self.town.take()?;
        for client in &mut self.clients {
            client.judge(&drive, &self.town)?;
        }
        self.sharers.judge(&drive)?;
        match drive.check(true) {
            Ok(faults) if faults.is_empty() => Ok(()),
            checked => broken(format!("the drive is not whole: {checked:?}")),
        }
    }
}
