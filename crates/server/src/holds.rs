//! What may still be named though the state names it nowhere: chunks that were placed for a session and that no batch has brought
//! yet, states that somebody reads, and calls at work on states that may be gone by now.
//!
//! A pack that is claimed is not given up, and what is given up is claimed by nobody from then on: both are decided under one lock.
//! Invariant: a pack in which a session was given a place is claimed until the session says that it will name nothing more of that, or it
//! ends. No time ends a claim.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{BranchId, ChunkPlace, Epoch, PackNumber, SessionId};
use tenure_wire::Placings;

/// What is held.
pub(crate) struct Holds {
    epoch: Epoch,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    sessions: BTreeMap<SessionId, OfSession>,
    /// How many calls that will have named what they place when they end hold each pack.
    for_now: BTreeMap<PackNumber, u64>,
    /// Calls at work on states of the drive.
    works: u64,
    /// The packs that were claimed since it is looked for what nothing needs.
    touched: Option<BTreeSet<PackNumber>>,
    /// The packs in which nothing is found again: nobody gets a place there any more.
    shut: BTreeSet<PackNumber>,
}

/// What one session holds.
#[derive(Default)]
struct OfSession {
    /// The packs in which it was given places that it may still name, and when last: the how manieth time.
    placed: BTreeMap<PackNumber, u64>,
    /// How often anything was placed.
    count: u64,
    /// Whether it has said that nothing is left of what owners before have placed for it.
    is_settled: bool,
    /// What lines were when it began to read them.
    lines: BTreeMap<BranchId, Branch>,
    /// Copies that it may have of a branch of which parts are lent to it, by number.
    copies: BTreeMap<u64, Branch>,
}

/// What is held at the beginning of a search for what nothing needs.
pub(crate) struct Begun {
    /// The packs that are claimed.
    pub(crate) claimed: BTreeSet<PackNumber>,
    /// The states that are read.
    pub(crate) reads: Vec<Branch>,
}

/// A claim that ends when it is dropped: whatever was to name it has done so, or never will.
pub(crate) struct Claim {
    holds: Arc<Holds>,
    packs: Vec<PackNumber>,
}

/// A call at work; until it is dropped nothing is looked for that may be given up.
pub(crate) struct Working(Arc<Holds>);

impl Holds {
    /// Returns what an owner of `epoch` begins with: the packs of which something was given up before.
    pub(crate) fn new(epoch: Epoch, shut: BTreeSet<PackNumber>) -> Arc<Self> {
        let held = Held {
            shut,
            ..Held::default()
        };
        Arc::new(Self {
            epoch,
            held: Mutex::new(held),
        })
    }

    /// Tells whether something of a pack was given up: nothing is put back there.
    pub(crate) fn is_shut(&self, pack: PackNumber) -> bool {
        self.held.lock().shut.contains(&pack)
    }

    /// Claims places that a session is given. Returns the packs of those that it cannot have, because those packs are given up; then
    /// nothing is claimed.
    pub(crate) fn claim(
        &self,
        session: SessionId,
        places: &[ChunkPlace],
    ) -> Result<(), BTreeSet<PackNumber>> {
        let mut held = self.held.lock();
        held.may_have(places)?;
        let of = held.sessions.entry(session).or_default();
        of.count += 1;
        let count = of.count;
        of.placed
            .extend(places.iter().map(|place| (place.at.pack, count)));
        held.touch(places);
        Ok(())
    }

    /// As `claim`, for a call that names the places before it drops what is returned, or never.
    pub(crate) fn claim_for_now(
        self: &Arc<Self>,
        places: &[ChunkPlace],
    ) -> Result<Claim, BTreeSet<PackNumber>> {
        let mut held = self.held.lock();
        held.may_have(places)?;
        let packs: Vec<_> = places.iter().map(|place| place.at.pack).collect();
        for pack in &packs {
            *held.for_now.entry(*pack).or_default() += 1;
        }
        held.touch(places);
        Ok(Claim {
            holds: self.clone(),
            packs,
        })
    }

    /// Notes that a call at work has places: it is not looked for what nothing needs before it has ended, or was begun before.
    pub(crate) fn touch(&self, places: &[ChunkPlace]) -> Result<(), BTreeSet<PackNumber>> {
        let mut held = self.held.lock();
        held.may_have(places)?;
        held.touch(places);
        Ok(())
    }

    /// Lets a record name packs, in the step that puts it in order; refuses with one that is given up.
    pub(crate) fn name(&self, packs: &BTreeSet<PackNumber>) -> Result<(), PackNumber> {
        let mut held = self.held.lock();
        if let Some(shut) = packs.iter().find(|pack| held.shut.contains(pack)) {
            return Err(*shut);
        }
        if let Some(touched) = &mut held.touched {
            touched.extend(packs);
        }
        Ok(())
    }

    /// Lets a session read what a line is now, until it ends.
    pub(crate) fn read_line(&self, session: SessionId, line: BranchId, branch: &Branch) {
        let mut held = self.held.lock();
        let of = held.sessions.entry(session).or_default();
        of.lines.insert(line, branch.clone());
    }

    /// Lets a session have a copy of a number, instead of those before the one that it says it has.
    pub(crate) fn read_copy(&self, session: SessionId, (number, has): (u64, Option<u64>), branch: &Branch) {
        let mut held = self.held.lock();
        let of = held.sessions.entry(session).or_default();
        of.copies.retain(|known, _| has.is_none_or(|has| *known >= has));
        of.copies.insert(number, branch.clone());
    }

    /// Lets a session name nothing any more of what was placed for it the first so many times; returns how often something was.
    pub(crate) fn forgo(&self, session: SessionId, said: Placings, borrows: bool) -> Placings {
        let mut held = self.held.lock();
        let of = held.sessions.entry(session).or_default();
        let now = Placings {
            epoch: self.epoch,
            count: of.count,
        };
        if said.epoch == self.epoch {
            of.placed.retain(|_, last| *last > said.count);
            // What is lent may be changed on a copy that an owner before has given.
            of.is_settled |= !borrows;
        }
        now
    }

    /// Ends what a session holds.
    pub(crate) fn end(&self, session: SessionId) {
        self.held.lock().sessions.remove(&session);
    }

    /// Begins a call on states of the drive.
    pub(crate) fn work(self: &Arc<Self>) -> Working {
        self.held.lock().works += 1;
        Working(self.clone())
    }

    /// Tells whether a call on states of the drive is under way.
    pub(crate) fn are_at_work(&self) -> bool {
        self.held.lock().works > 0
    }

    /// Tells whether a session may still name what owners before have placed for it.
    pub(crate) fn is_unsettled(&self, session: SessionId) -> bool {
        let held = self.held.lock();
        held.sessions.get(&session).is_none_or(|of| !of.is_settled)
    }

    /// Begins to note what is claimed; none while a call is at work. To be called in the step that takes the state.
    pub(crate) fn begin_search(&self) -> Option<Begun> {
        let mut held = self.held.lock();
        if held.works > 0 {
            return None;
        }
        held.touched = Some(BTreeSet::new());
        let claimed = held.sessions.values().flat_map(|of| of.placed.keys());
        let claimed = claimed.chain(held.for_now.keys()).copied();
        let reads = held.sessions.values();
        let reads = reads.flat_map(|of| of.lines.values().chain(of.copies.values()).cloned());
        Some(Begun {
            claimed: claimed.collect(),
            reads: reads.collect(),
        })
    }

    /// Takes those of some packs that nobody has claimed since the search began: nobody will from now on.
    pub(crate) fn shut(&self, packs: &BTreeSet<PackNumber>) -> BTreeSet<PackNumber> {
        let mut held = self.held.lock();
        let Some(touched) = &held.touched else {
            return BTreeSet::new();
        };
        let shut: BTreeSet<_> = packs.difference(touched).copied().collect();
        held.shut.extend(shut.iter().copied());
        shut
    }

    /// Ends a search.
    pub(crate) fn end_search(&self) {
        self.held.lock().touched = None;
    }
}

impl Held {
    fn may_have(&self, places: &[ChunkPlace]) -> Result<(), BTreeSet<PackNumber>> {
        let packs = places.iter().map(|place| place.at.pack);
        let shut: BTreeSet<_> = packs.filter(|pack| self.shut.contains(pack)).collect();
        if shut.is_empty() { Ok(()) } else { Err(shut) }
    }

    fn touch(&mut self, places: &[ChunkPlace]) {
        if let Some(touched) = &mut self.touched {
            touched.extend(places.iter().map(|place| place.at.pack));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.holds.held.lock();
        for pack in &self.packs {
            if let Some(count) = held.for_now.get_mut(pack) {
                *count -= 1;
                if *count == 0 {
                    held.for_now.remove(pack);
                }
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.held.lock().works -= 1;
    }
}
