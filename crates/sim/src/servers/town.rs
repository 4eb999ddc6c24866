//! The servers, what lies between them, and their clocks.

use super::client::LIFE;
use crate::check::{Broken, Verdict};
use crate::clock::SimClock;
use crate::fault::{After, Flaw, Loss, Machine, Store};
use crate::random::Random;
use crate::trace::Trace;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{BranchName, DriveName, Epoch};
use tenure_server::{Beginning, Draw, Drive, Drives, Options, Peers, Threads};
use tenure_store::faulty::{Call, Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Owner, ServerAddress, Whereabouts};

/// How long a new owner waits, and a little more for the slowest clock.
const OWNER_WAIT: Duration = Duration::from_millis(1700);
/// How long a new owner waits for those who share a branch, and a little more.
const GATHERING: Duration = Duration::from_secs(6);
/// How often those who are there say so.
const RENEWAL: Duration = Duration::from_secs(1);

/// What somebody does now and then who is there.
type Saying = Arc<dyn Fn() + Send + Sync>;

/// Who answers whom.
#[derive(Default)]
struct Streets {
    servers: Vec<Option<Arc<Drives>>>,
    cut_off: Vec<bool>,
}

/// What a server may ask the others.
struct Asking {
    from: usize,
    streets: Arc<Mutex<Streets>>,
}

impl Peers for Asking {
    fn owns(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> bool {
        let asked = {
            let streets = self.streets.lock();
            let to = (0..streets.servers.len()).find(|to| self::address(*to) == *address);
            let reached = to.filter(|to| !streets.cut_off[*to] && !streets.cut_off[self.from]);
            reached.and_then(|to| streets.servers[to].clone())
        };
        asked.is_some_and(|asked| asked.owns(drive, epoch))
    }
}

fn address(server: usize) -> ServerAddress {
    format!("https://server-{server}:7000")
        .parse()
        .expect("a literal address")
}

pub(super) fn drive_name() -> DriveName {
    DriveName::parse("work").expect("a literal name")
}

/// One server, from the start of its process to its end.
struct Server {
    drives: Arc<Drives>,
    machine: Machine,
    faulty: Arc<FaultyBucket>,
    store: Arc<Store>,
}

/// An owner, and the machine that it runs on.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) owner: Arc<dyn Owner<Branch>>,
    pub(super) machine: Machine,
    pub(super) server: usize,
    pub(super) epoch: Epoch,
}

fn found(owner: Arc<dyn Owner<Branch>>, machine: Machine, server: usize) -> Option<Found> {
    let epoch = owner.status().ok()?.epoch;
    Some(Found {
        owner,
        machine,
        server,
        epoch,
    })
}

/// All servers.
pub(super) struct Town {
    memory: MemoryBucket,
    flaw: Option<Flaw>,
    trace: Trace,
    draws: Draw,
    streets: Arc<Mutex<Streets>>,
    servers: Mutex<Vec<Server>>,
    /// First those of the servers, then those of everybody else.
    clocks: Vec<Arc<SimClock>>,
    /// How many in a hundred parts each clock is fast.
    fast: Vec<u32>,
    there: Mutex<BTreeMap<u64, Saying>>,
}

impl Town {
    /// Builds so many servers, and clocks for so many others.
    pub(super) fn new(
        (count, others): (usize, usize),
        flaw: Option<Flaw>,
        random: &mut Random,
        trace: Trace,
    ) -> Verdict<Self> {
        let town = Self {
            memory: MemoryBucket::new().without_disk(),
            flaw,
            trace,
            draws: random.draw(),
            streets: Arc::default(),
            servers: Mutex::default(),
            clocks: (0..count + others).map(|_| Arc::default()).collect(),
            fast: (0..count + others).map(|_| random.below(3) as u32).collect(),
            there: Mutex::default(),
        };
        {
            let mut streets = town.streets.lock();
            streets.servers = vec![None; count];
            streets.cut_off = vec![false; count];
        }
        let started: Vec<_> = (0..count).map(|server| town.start(server)).collect();
        *town.servers.lock() = started;
        let beginning = Beginning {
            hash_key: [7; 16],
            branch: BranchName::parse("branch-0").expect("a literal name"),
            uid: 0,
            gid: 0,
        };
        let first = town.servers.lock()[0].drives.clone();
        let made = first.create(&drive_name(), &beginning);
        made.map_err(|error| Broken(format!("a drive cannot be made: {error}")))?;
        Ok(town)
    }

    fn start(&self, server: usize) -> Server {
        let store = Arc::new(Store::new(Arc::new(self.memory.clone()), self.flaw));
        let machine = Machine::new(store.clone(), None);
        let trace = self.trace.clone();
        let on_call =
            move |call: &Call| trace.note_call(format_args!("{server} {:?} {}", call.kind, call.key));
        let faulty = FaultyBucket::watched(Arc::new(machine.clone()), Plan::none(), Some(Box::new(on_call)));
        let faulty = Arc::new(faulty);
        let options = Options {
            threads: Threads::None,
            address: Some(address(server)),
            fold_bytes: 20_000,
            ..Options::new(
                self.clocks[server].clone(),
                self.draws.clone(),
                format!("server-{server}"),
                1,
            )
        };
        let asking = Asking {
            from: server,
            streets: self.streets.clone(),
        };
        let drives = Arc::new(Drives::new(faulty.clone(), options, Arc::new(asking)));
        self.streets.lock().servers[server] = Some(drives.clone());
        Server {
            drives,
            machine,
            faulty,
            store,
        }
    }

    fn count(&self) -> usize {
        self.streets.lock().servers.len()
    }

    /// Lets time pass for everybody, as each clock shows it; who is there says so meanwhile.
    pub(super) fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let now = left.min(RENEWAL);
            left -= now;
            for (clock, fast) in self.clocks.iter().zip(&self.fast) {
                clock.pass(now + now / 100 * *fast);
            }
            let there: Vec<_> = self.there.lock().values().cloned().collect();
            there.iter().for_each(|say| say());
        }
    }

    /// From now on somebody is there, and says so now and then.
    pub(super) fn come(&self, number: u64, saying: Saying) {
        self.there.lock().insert(number, saying);
    }

    /// Somebody has gone without a word.
    pub(super) fn go(&self, number: u64) {
        self.there.lock().remove(&number);
    }

    /// Lets the time of day of one clock jump by an hour.
    pub(super) fn jump(&self, random: &mut Random) {
        let clock = random.pick(&self.clocks);
        clock.jump(*random.pick(&[-3600, 3600]));
    }

    /// Tells whether a server is cut off from its clients.
    pub(super) fn is_cut_off(&self, server: usize) -> bool {
        self.streets.lock().cut_off[server]
    }

    /// Returns the newest owner, whoever can reach it. Nobody becomes one because of that.
    pub(super) fn newest(&self) -> Option<Found> {
        let owners = (0..self.count()).filter_map(|server| self.owner_at(server));
        owners.max_by_key(|found| found.epoch)
    }

    fn owner_at(&self, server: usize) -> Option<Found> {
        let (drives, machine) = {
            let servers = self.servers.lock();
            (servers[server].drives.clone(), servers[server].machine.clone())
        };
        if machine.is_off() || !drives.owns(&drive_name(), Epoch(0)) {
            return None;
        }
        match drives.find(&drive_name()).ok()? {
            Whereabouts::Here(owner) => found(owner, machine, server),
            Whereabouts::Elsewhere(_) => None,
        }
    }

    /// Comes to a server and goes where it sends; none where nobody answers for the drive.
    pub(super) fn find_at(&self, server: usize) -> Option<Found> {
        let mut at = server;
        for _ in 0..self.count() + 1 {
            let (drives, machine, store) = {
                let servers = self.servers.lock();
                let server = &servers[at];
                (
                    server.drives.clone(),
                    server.machine.clone(),
                    server.store.clone(),
                )
            };
            let was_owner = drives.owns(&drive_name(), Epoch(0));
            store.own(was_owner);
            let found = drives.find(&drive_name());
            let said = match &found {
                Ok(Whereabouts::Here(_)) => "here".to_owned(),
                Ok(Whereabouts::Elsewhere(address)) => address.to_string(),
                Err(error) => error.to_string(),
            };
            self.trace.note(format_args!("  {at} is asked: {said}"));
            match found.ok()? {
                Whereabouts::Here(owner) => {
                    if machine.is_off() {
                        return None;
                    }
                    store.own(true);
                    if !was_owner && self.flaw == Some(Flaw::WaitsForNobody) {
                        self.clocks[at].pass(OWNER_WAIT);
                    }
                    if !was_owner && self.flaw == Some(Flaw::GathersNobody) {
                        self.clocks[at].pass(GATHERING);
                    }
                    return self::found(owner, machine, at);
                }
                Whereabouts::Elsewhere(to) => {
                    let reached = (0..self.count()).find(|server| address(*server) == to);
                    at = reached.filter(|to| !self.is_cut_off(*to))?;
                }
            }
        }
        None
    }

    /// Comes to one server after the other until one answers.
    pub(super) fn find(&self, random: &mut Random) -> Option<Found> {
        for _ in 0..LIFE {
            let server = random.below(self.count() as u64) as usize;
            if let Some(found) = self.find_at(server) {
                // Where threads run, opening takes so long.
                if self.flaw != Some(Flaw::WaitsForNobody) && found.owner.branches().is_err() {
                    self.pass(OWNER_WAIT);
                }
                return Some(found);
            }
        }
        None
    }

    /// Cuts a server off from the others and from its clients, or lets it come back.
    pub(super) fn cut_off(&self, random: &mut Random) {
        let server = random.below(self.count() as u64) as usize;
        let mut streets = self.streets.lock();
        streets.cut_off[server] = !streets.cut_off[server];
        let is_cut_off = streets.cut_off[server];
        self.trace
            .note(format_args!("  {server} is cut off: {is_cut_off}"));
    }

    /// Has the process of one server end soon or now, in the middle of what it does; another one starts.
    pub(super) fn end_one(&self, random: &mut Random) {
        let server = random.below(self.count() as u64) as usize;
        let machine = self.servers.lock()[server].machine.clone();
        if !machine.is_off() && random.one_in(2) {
            let loss = *random.pick(&[Loss::Before, Loss::Behind]);
            machine.lose_power(After::Calls(random.below(30)), loss);
        } else {
            self.trace.note(format_args!("  the process of {server} ends"));
            self.replace(server);
        }
    }

    /// Ends a process, and starts another.
    fn replace(&self, server: usize) {
        self.servers.lock()[server].machine.turn_off();
        let started = self.start(server);
        let ended = std::mem::replace(&mut self.servers.lock()[server], started);
        drop(ended);
    }

    /// Lets a server's calls of the bucket fail now and then, all of them, or none.
    pub(super) fn trouble(&self, random: &mut Random) {
        let server = random.below(self.count() as u64) as usize;
        let servers = self.servers.lock();
        let faulty = &servers[server].faulty;
        let kinds = [
            Fault::LoseReply,
            Fault::LoseRequest,
            Fault::ClaimExists,
            Fault::Refuse,
            Fault::WrongBody,
        ];
        let seed = random.next();
        let (plan, outage) = match random.below(4) {
            0 => (Plan::none(), true),
            1 => (Plan::none().at_random(seed, 15, &kinds), false),
            _ => (Plan::none(), false),
        };
        faulty.set_plan(plan);
        faulty.set_outage(outage);
        self.trace.note(format_args!("  trouble at {server}"));
    }

    pub(super) fn close_unused(&self, random: &mut Random) {
        let server = random.below(self.count() as u64) as usize;
        let drives = self.servers.lock()[server].drives.clone();
        drives.close_unused();
    }

    /// Ends everything that goes wrong.
    pub(super) fn heal(&self) {
        let count = self.count();
        self.streets.lock().cut_off = vec![false; count];
        (0..count).for_each(|server| self.replace(server));
    }

    /// Takes the drive over as somebody who knows nothing but the bucket.
    pub(super) fn take(&self) -> Verdict<Arc<Drive>> {
        let options = Options {
            threads: Threads::None,
            ..Options::new(self.clocks[0].clone(), self.draws.clone(), "judge", 1)
        };
        let drive = Drive::open(Arc::new(self.memory.clone()), &drive_name(), options);
        let drive = drive.map_err(|error| Broken(format!("the drive cannot be opened: {error}")))?;
        self.pass(OWNER_WAIT);
        if let Some(lost) = drive.notices().iter().find(|notice| notice.contains("lost")) {
            return Err(Broken(format!(
                "the drive says that it has lost something: {lost}"
            )));
        }
        Ok(drive)
    }

    /// Returns how many epochs there were.
    pub(super) fn epochs(&self) -> u64 {
        let under = format!("drives/{}/epochs/", drive_name());
        self.memory.children(&under).map_or(0, |names| names.len() as u64)
    }

    pub(super) fn clock(&self) -> Arc<SimClock> {
        self.clocks[0].clone()
    }

    /// Returns the clock of one of those who are no server.
    pub(super) fn clock_of(&self, other: usize) -> Arc<SimClock> {
        self.clocks[self.count() + other].clone()
    }

    pub(super) fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }
}
