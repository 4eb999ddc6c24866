//! A company: sessions that share a branch, each with a program and with the threads of a mount, while their drive folds.
//!
//! One order must explain what all of them have seen. Invariant: nobody dies and nothing fails, so nothing may be missing.

use super::{Report, create};
use crate::check::{Broken, Verdict, broken};
use crate::clock::SimClock;
use crate::fault::Machine;
use crate::random::Random;
use crate::shared::{Comer, Ground, Phase, Seat, Way};
use crate::trace::Trace;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tenure_model::{Clock, Epoch};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::Owner;

/// Sessions in a company.
const SESSIONS: usize = 3;
/// Steps of each.
const STEPS: u64 = 400;
/// How long it takes until the clock is moved again, and by how much.
const TICK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));

/// An owner in this process, which hears everybody.
struct Near(Epoch);

impl Way for Near {
    fn answered(&self) -> Epoch {
        self.0
    }

    /// Nothing is lost here, wherever it was done.
    fn answers(&self) -> u64 {
        0
    }

    fn was_silent(&self) -> bool {
        false
    }
}

/// Lets a company work, and judges what it has seen.
pub fn meet(seed: u64) -> Report {
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
    let mut random = Random::new(seed, "company");
    let memory = if random.one_in(2) {
        MemoryBucket::new()
    } else {
        MemoryBucket::new().without_disk()
    };
    let clock = Arc::new(SimClock::default());
    let machine = Machine::new(Arc::new(memory), None);
    let drive = create(&machine, &clock, &mut random)?;
    let (owner, shown): (Arc<dyn Owner<_>>, Arc<dyn Clock>) = (drive.clone(), clock.clone());
    let ground = Arc::new(Ground::new(&owner, &shown)?);
    let comers = (0..SESSIONS).map(|number| comer(&drive, &ground, &clock, (number, &mut random)));
    let comers: Vec<_> = comers.collect();
    work(comers, &clock)?;
    ground.known.lock().phase = Phase::Last;
    work(vec![comer(&drive, &ground, &clock, (0, &mut random))], &clock)?;
    report.syncs = ground.counts().1;
    ground.judge(&owner, &shown)?;
    match drive.check(true) {
        Ok(faults) if faults.is_empty() => Ok(()),
        checked => broken(format!("the drive is not whole: {checked:?}")),
    }
}

fn comer(
    drive: &Arc<Drive>,
    ground: &Arc<Ground>,
    clock: &Arc<SimClock>,
    (machine, random): (usize, &mut Random),
) -> Comer {
    let party = ground.known.lock().past.comes();
    Comer {
        ground: ground.clone(),
        owner: drive.clone(),
        way: Arc::new(Near(drive.epoch())),
        clock: clock.clone(),
        threads: tenure_client::Threads::Started,
        trace: Trace::new(false),
        party,
        machine,
        random: Random::new(random.next(), "sharer"),
        seat: Seat::default(),
    }
}

/// Lets all of them do their steps, while time passes.
fn work(comers: Vec<Comer>, clock: &SimClock) -> Verdict<()> {
    let (ends, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let visit = |comer: Comer| {
            let working = ends.clone();
            scope.spawn(move || {
                comer.visit(STEPS);
                drop(working);
            })
        };
        let threads: Vec<_> = comers.into_iter().map(visit).collect();
        drop(ends);
        while end.recv_timeout(TICK.0) == Err(RecvTimeoutError::Timeout) {
            clock.pass(TICK.1);
        }
        let ended = threads.into_iter().map(|thread| thread.join());
        match ended.collect::<Result<Vec<_>, _>>() {
            Ok(_) => Ok(()),
            Err(_) => Err(Broken("a thread of the company panicked".to_owned())),
        }
    })
}
