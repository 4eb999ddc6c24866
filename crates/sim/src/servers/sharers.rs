//! The branch that several sessions share, and what becomes of them: they come and go, die, stand still and are cut off.

use super::post::Post;
use super::town::Town;
use crate::check::{Party, Verdict, broken};
use crate::random::Random;
use crate::shared::{Comer, Ground, Phase, Seat, Way};
use crate::turns::{Program, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_server::Drive;

/// Machines from which the branch is shared.
pub(super) const MACHINES: usize = 3;
/// Turns in each step of a world.
const TURNS: u64 = 12;
/// Turns of each within which everybody has gone, once all is well.
const TURNS_MAX: u64 = 400;
/// What passes meanwhile from turn to turn.
const ROUND: Duration = Duration::from_millis(400);
/// Longer than a session may be silent.
const SILENCE: Duration = Duration::from_secs(7);

/// Somebody who shares the branch.
struct Member {
    party: Party,
    post: Arc<Post>,
    program: Program,
    /// Whether its machine runs.
    runs: Arc<AtomicBool>,
}

pub(super) struct Sharers {
    town: Arc<Town>,
    ground: Arc<Ground>,
    members: Vec<Option<Member>>,
    random: Random,
}

impl Sharers {
    /// Makes the branch, on a drive that somebody owns.
    pub(super) fn new(town: &Arc<Town>, random: Random) -> Verdict<Self> {
        let Some(found) = town.newest() else {
            return broken("nobody owns the drive");
        };
        let clock = town.clock() as _;
        Ok(Self {
            town: town.clone(),
            ground: Arc::new(Ground::new(&found.owner, &clock)?),
            members: (0..MACHINES).map(|_| None).collect(),
            random,
        })
    }

    /// Returns how many looks were answered, and how many syncs.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.ground.counts()
    }

    /// Lets some of those who share the branch go on, and something happen to one of them.
    pub(super) fn step(&mut self) -> Verdict<()> {
        for _ in 0..TURNS {
            let at = self.random.below(MACHINES as u64) as usize;
            match &self.members[at] {
                Some(member) if member.runs.load(Ordering::Relaxed) => self.go_on(at)?,
                Some(_) => {}
                None => {
                    if self.random.one_in(4) {
                        self.come(at);
                    }
                }
            }
        }
        self.note_who_is_away();
        if self.random.one_in(4) {
            self.happen();
        }
        Ok(())
    }

    /// Notes who is not heard, before anybody is judged who was told meanwhile that it is over.
    fn note_who_is_away(&self) {
        let mut known = self.ground.known.lock();
        for member in self.members.iter().flatten().filter(|member| member.is_away()) {
            known.past.was_away(member.party);
        }
        known.past.all_are_known();
    }

    /// Lets somebody come, from a machine where nobody is.
    fn come(&mut self, machine: usize) {
        let party = self.ground.known.lock().past.comes();
        let (seat, runs) = (Seat::default(), Arc::new(AtomicBool::new(true)));
        let random = Random::new(self.random.next(), "sharer");
        let way = Random::new(self.random.next(), "post");
        let (town, ground) = (&self.town, self.ground.clone());
        let (post, program) = Program::new(|turn| {
            let post = Arc::new(Post::new(town, turn.clone(), way));
            let comer = Comer {
                ground,
                owner: post.clone(),
                way: post.clone(),
                clock: town.clock_of(machine),
                threads: tenure_client::Threads::None,
                trace: town.trace().clone(),
                party,
                machine,
                random,
                seat: seat.clone(),
            };
            (post, move |turn: &_| comer.live(turn))
        });
        let is_running = runs.clone();
        let renew = move || {
            let shared = seat.lock().clone().filter(|_| is_running.load(Ordering::Relaxed));
            if let Some(shared) = shared {
                shared.renew();
            }
        };
        self.town.come(party.0, Arc::new(renew));
        self.members[machine] = Some(Member {
            party,
            post,
            program,
            runs,
        });
    }

    fn go_on(&mut self, machine: usize) -> Verdict<()> {
        let Some(member) = &self.members[machine] else {
            return Ok(());
        };
        match member.program.go_on() {
            Progress::Underway => Ok(()),
            Progress::Ended => {
                self.town.go(member.party.0);
                self.members[machine] = None;
                Ok(())
            }
            Progress::Panicked => broken(format!("{} panicked", member.party)),
        }
    }

    fn happen(&mut self) {
        let at = self.random.below(MACHINES as u64) as usize;
        let Some(member) = &self.members[at] else { return };
        let what = self.random.below(12);
        match what {
            0..2 => member.runs.store(false, Ordering::Relaxed),
            2..5 => member.runs.store(true, Ordering::Relaxed),
            5 => member.post.cut_off(true),
            6..9 => member.post.cut_off(false),
            9 => {
                self.town.trace().note(format_args!("  {} dies", member.party));
                self.town.go(member.party.0);
                member.program.kill();
                self.ground.known.lock().past.dies(member.party);
                self.members[at] = None;
            }
            10 => member.post.deliver_late(),
            _ => self.town.jump(&mut self.random),
        }
    }

    /// Once all is well: everybody looks at everything and goes, and then somebody comes who finds no lock held.
    pub(super) fn close(&mut self) -> Verdict<()> {
        if self.town.find(&mut self.random).is_none() {
            return broken("nobody can own the drive though all is well");
        }
        self.ground.known.lock().phase = Phase::Closing;
        for member in self.members.iter().flatten() {
            member.runs.store(true, Ordering::Relaxed);
            member.post.cut_off(false);
        }
        self.until_all_have_gone()?;
        self.town.pass(SILENCE);
        self.ground.known.lock().phase = Phase::Last;
        self.come(0);
        self.until_all_have_gone()
    }

    fn until_all_have_gone(&mut self) -> Verdict<()> {
        for _ in 0..TURNS_MAX {
            if self.members.iter().all(Option::is_none) {
                return Ok(());
            }
            (0..MACHINES).try_for_each(|machine| self.go_on(machine))?;
            self.note_who_is_away();
            self.town.pass(ROUND);
        }
        broken("who shares a branch waits for ever though all is well")
    }

    /// Holds what is left in the end, and all that was asked and told, against what was promised.
    pub(super) fn judge(&self, drive: &Arc<Drive>) -> Verdict<()> {
        let (owner, clock) = (drive.clone() as _, self.town.clock() as _);
        self.ground.judge(&owner, &clock)
    }
}

impl Member {
    /// Tells whether nobody hears of it, or has heard for too long.
    fn is_away(&self) -> bool {
        !self.runs.load(Ordering::Relaxed) || self.post.was_silent()
    }
}
