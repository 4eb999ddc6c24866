//! Locks of files: taken at the owner, and known here as well, so that closing a file asks it only where there are any.
//!
//! Who waits has a ticket; by that is heard what has become a lock (`super::hear`). Invariant: a wait is
//! answered once, and a lock that came too late is given back.

use super::{Callers, Inner, SharedBranch};
use crate::wait;
use std::collections::BTreeMap;
use tenure_model::{Ino, Lock, LockFamily, LockOwner, LockRange, Locked};
use tenure_wire::shared::LockAsk;
use tenure_wire::{Error, Owner};

/// Is told what came of a lock, once; returns false when nobody waits for it any more.
pub type Told = Box<dyn FnOnce(Result<Locked, Error>) -> bool + Send>;

/// What is waited for.
#[derive(Default)]
pub(super) struct Wishes {
    last: u64,
    all: BTreeMap<u64, Wish>,
}

impl Wishes {
    /// Tells whether anybody waits.
    pub(super) fn is_any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Returns who is to be told that nothing comes of it.
    pub(super) fn take_all(&mut self) -> Vec<Told> {
        let all = std::mem::take(&mut self.all);
        all.into_values().map(|wish| wish.told).collect()
    }
}

struct Wish {
    lock: Lock,
    told: Told,
    /// Whether the owner has answered that it is to be waited for: from then on one thread alone speaks of it.
    is_queued: bool,
}

/// A lock that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wished(u64);

impl SharedBranch {
    /// Returns who has a lock of this session.
    pub fn lock_owner(&self, number: u64) -> LockOwner {
        LockOwner {
            session: self.inner.who.session,
            number,
        }
    }

    /// Takes a lock, if nothing stands in the way.
    pub fn lock(&self, lock: Lock) -> Result<Locked, Error> {
        wait::before_waiting()?;
        wait::before_acting()?;
        let ask = LockAsk::Take { lock, ticket: None };
        self.inner.ask_locks(Callers::Stay, ask)
    }

    /// Returns what stands in the way of a lock.
    pub fn test_lock(&self, lock: Lock) -> Result<Option<Lock>, Error> {
        wait::before_waiting()?;
        match self.inner.ask_locks(Callers::MayLeave, LockAsk::Test(lock))? {
            Locked::Blocked(blocker) => Ok(Some(blocker)),
            Locked::Taken | Locked::Queued | Locked::Deadlock => Ok(None),
        }
    }

    /// Gives back what an owner has in a range of a file.
    pub fn unlock(
        &self,
        ino: Ino,
        family: LockFamily,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), Error> {
        if !self.has_locks(ino, family, owner) {
            return Ok(());
        }
        wait::before_waiting()?;
        let ask = LockAsk::GiveBack {
            ino,
            family,
            owner,
            range,
        };
        self.inner.ask_locks(Callers::Stay, ask).map(drop)
    }

    /// Tells whether an owner has locks of a file.
    pub fn has_locks(&self, ino: Ino, family: LockFamily, owner: LockOwner) -> bool {
        let state = self.inner.state.lock();
        let mut locks = state.locks.all();
        locks.any(|lock| lock.ino == ino && lock.family == family && lock.owner == owner)
    }

    /// Takes a lock as soon as nothing stands in the way; `told` hears so, or why not. What it is waited for by is passed to `begun`
    /// before anything is asked.
    pub fn lock_later(&self, lock: Lock, begun: impl FnOnce(Wished), told: Told) {
        let inner = &self.inner;
        let ticket = {
            let mut state = inner.state.lock();
            state.wishes.last += 1;
            let ticket = state.wishes.last;
            let is_queued = false;
            state.wishes.all.insert(
                ticket,
                Wish {
                    lock,
                    told,
                    is_queued,
                },
            );
            ticket
        };
        begun(Wished(ticket));
        match inner.ask_for(ticket, lock) {
            Ok(Locked::Queued) => {
                if let Some(wish) = inner.state.lock().wishes.all.get_mut(&ticket) {
                    wish.is_queued = true;
                }
                inner.listen();
            }
            answered => inner.end_wish(ticket, answered),
        }
    }

    /// Waits for a lock no longer: who waited was told so.
    pub fn forget_lock(&self, Wished(ticket): Wished) {
        let inner = &self.inner;
        let wish = inner.state.lock().wishes.all.remove(&ticket);
        if let Some(Wish { lock, .. }) = wish {
            inner.forget_wish(ticket, lock);
        }
    }
}

impl Inner {
    fn forget_wish(&self, ticket: u64, lock: Lock) {
        match self.ask_locks(Callers::Stay, LockAsk::Forget { ticket }) {
            // It was one already.
            Ok(Locked::Taken) => self.undo(lock, &self.had_before(lock)),
            Ok(Locked::Queued | Locked::Blocked(_) | Locked::Deadlock) => {}
            Err(error) => tracing::debug!(%error, "a lock that nobody waits for may be taken"),
        }
    }

    /// Asks the owner about locks; what nobody waits for by a ticket is noted.
    fn ask_locks(&self, callers: Callers, ask: LockAsk) -> Result<Locked, Error> {
        let who = self.who;
        let asking = |owner: &dyn Owner<_>| owner.lock(who, &ask);
        self.ask_then(callers, asking, |state, locked| match (ask, locked) {
            (LockAsk::Take { lock, ticket: None }, Ok(Locked::Taken)) => state.locks.put(lock),
            (
                LockAsk::GiveBack {
                    ino,
                    family,
                    owner,
                    range,
                },
                Ok(_),
            ) => state.locks.give_back(ino, family, owner, range),
            _ => {}
        })
    }

    fn ask_for(&self, ticket: u64, lock: Lock) -> Result<Locked, Error> {
        let ticket = Some(ticket);
        self.ask_locks(Callers::Stay, LockAsk::Take { lock, ticket })
    }

    /// Tells who waits what came of it. What nobody waits for any more is as it was before.
    pub(super) fn end_wish(&self, ticket: u64, outcome: Result<Locked, Error>) {
        let mut state = self.state.lock();
        let Some(Wish { lock, told, .. }) = state.wishes.all.remove(&ticket) else {
            return;
        };
        drop(state);
        let before = self.had_before(lock);
        let is_had = matches!(outcome, Ok(Locked::Taken));
        if is_had {
            // Before who waited goes on, who may close the file at once. That the one before has given it back may not be noted yet.
            self.state.lock().locks.put(lock);
        }
        if !told(outcome) && is_had {
            let Lock {
                ino,
                family,
                owner,
                range,
                ..
            } = lock;
            state = self.state.lock();
            state.locks.give_back(ino, family, owner, range);
            for one in &before {
                state.locks.put(*one);
            }
            drop(state);
            self.undo(lock, &before);
        }
    }

    /// Returns what the owner of a lock has in its range.
    fn had_before(&self, lock: Lock) -> Vec<Lock> {
        let state = self.state.lock();
        let is_there = |other: &&Lock| {
            other.ino == lock.ino
                && other.family == lock.family
                && other.owner == lock.owner
                && other.range.meets(&lock.range)
        };
        let mut had: Vec<_> = state.locks.all().filter(is_there).copied().collect();
        had.sort_by_key(|other| other.range.first);
        had
    }

    /// Makes the owner's idea of a range what it was before a lock of it came too late.
    fn undo(&self, lock: Lock, had: &[Lock]) {
        let mut free = Some(lock.range.first);
        let mut asks = Vec::new();
        for other in had.iter().copied() {
            if let Some(first) = free.filter(|first| *first < other.range.first) {
                asks.push(give_back(&lock, first, other.range.first - 1));
            }
            free = other.range.last.checked_add(1);
            asks.push(LockAsk::Take {
                lock: other,
                ticket: None,
            });
        }
        if let Some(first) = free.filter(|first| *first <= lock.range.last) {
            asks.push(give_back(&lock, first, lock.range.last));
        }
        for ask in asks {
            if let Err(error) = self.ask_locks(Callers::Stay, ask) {
                tracing::debug!(%error, "a lock that came too late is had until the session ends");
            }
        }
    }

    pub(super) fn ask_again(&self) {
        let queued: Vec<_> = {
            let state = self.state.lock();
            let queued = state.wishes.all.iter().filter(|(_, wish)| wish.is_queued);
            queued.map(|(ticket, wish)| (*ticket, wish.lock)).collect()
        };
        for (ticket, lock) in queued {
            let answered = self.ask_for(ticket, lock);
            if !self.state.lock().wishes.all.contains_key(&ticket) {
                // Meanwhile nobody waits for it.
                self.forget_wish(ticket, lock);
            } else if answered != Ok(Locked::Queued) {
                self.end_wish(ticket, answered);
            }
        }
    }
}

fn give_back(lock: &Lock, first: u64, last: u64) -> LockAsk {
    LockAsk::GiveBack {
        ino: lock.ino,
        family: lock.family,
        owner: lock.owner,
        range: LockRange { first, last },
    }
}
