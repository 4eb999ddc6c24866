//! Locks of the files of a branch that several sessions share: who has which, and who waits.
//!
//! POSIX's rules: an owner's locks never stand in its own way, a lock takes the place of what its owner had there, and giving
//! back a part leaves the rest. Invariant: no two locks of one family meet where one of them is exclusive and their owners differ;
//! the locks of one owner in a file never meet, and neighbours of one kind are one lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_model::{Ino, Lock, LockFamily, LockKind, LockOwner, LockRange, Locked, SessionId};

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    ticket: u64,
    lock: Lock,
}

/// The locks of a branch.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    files: BTreeMap<Ino, Vec<Lock>>,
    /// In the order of their coming.
    wishes: VecDeque<Wish>,
}

impl Locks {
    /// Returns a lock that stands in the way.
    pub fn blocker(&self, wanted: &Lock) -> Option<Lock> {
        self.blockers(wanted).next().copied()
    }

    fn blockers<'a>(&'a self, wanted: &'a Lock) -> impl Iterator<Item = &'a Lock> {
        let of_file = self.files.get(&wanted.ino).into_iter().flatten();
        of_file.filter(move |lock| {
            lock.family == wanted.family
                && lock.owner != wanted.owner
                && lock.range.meets(&wanted.range)
                && (lock.kind == LockKind::Exclusive || wanted.kind == LockKind::Exclusive)
        })
    }

    /// Takes a lock, if nothing stands in the way.
    pub fn take(&mut self, lock: Lock) -> Locked {
        match self.blocker(&lock) {
            Some(blocker) => Locked::Blocked(blocker),
            None => {
                self.put(lock);
                Locked::Taken
            }
        }
    }

    /// Takes a lock, or waits for it. A ticket that waits already goes on waiting where it is.
    pub fn take_or_wait(&mut self, ticket: u64, lock: Lock) -> Locked {
        let wish = Wish { ticket, lock };
        if self.wishes.contains(&wish) {
            return Locked::Queued;
        }
        match self.take(lock) {
            Locked::Blocked(_) if lock.family == LockFamily::Posix && self.would_circle(&lock) => {
                Locked::Deadlock
            }
            Locked::Blocked(_) => {
                self.wishes.push_back(wish);
                Locked::Queued
            }
            taken @ (Locked::Taken | Locked::Queued | Locked::Deadlock) => taken,
        }
    }

    /// Tells whether somebody who has what is wanted waits, over however many others, for who wants it.
    fn would_circle(&self, wanted: &Lock) -> bool {
        let mut asked = BTreeSet::new();
        let mut next: Vec<_> = self.blockers(wanted).map(|lock| lock.owner).collect();
        while let Some(owner) = next.pop() {
            if owner == wanted.owner {
                return true;
            }
            if asked.insert(owner) {
                let wishes = self.wishes.iter().filter(|wish| wish.lock.owner == owner);
                let posix = wishes.filter(|wish| wish.lock.family == LockFamily::Posix);
                next.extend(posix.flat_map(|wish| self.blockers(&wish.lock).map(|lock| lock.owner)));
            }
        }
        false
    }

    /// Stops waiting; tells whether it was waited for still.
    pub fn forget(&mut self, session: SessionId, ticket: u64) -> bool {
        let before = self.wishes.len();
        self.wishes
            .retain(|wish| wish.ticket != ticket || wish.lock.owner.session != session);
        self.wishes.len() < before
    }

    /// Gives back what an owner has in a range of a file.
    pub fn give_back(&mut self, ino: Ino, family: LockFamily, owner: LockOwner, range: LockRange) {
        let Some(locks) = self.files.get_mut(&ino) else {
            return;
        };
        cut_out(locks, family, owner, range);
        if locks.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Ends everything of a session.
    pub fn end_session(&mut self, session: SessionId) {
        self.wishes.retain(|wish| wish.lock.owner.session != session);
        self.files.retain(|_, locks| {
            locks.retain(|lock| lock.owner.session != session);
            !locks.is_empty()
        });
    }

    /// Lets those have their locks who waited and whom nothing stands in the way of any more; returns whose, with their tickets.
    pub fn grant(&mut self) -> Vec<(SessionId, u64)> {
        let mut granted = Vec::new();
        for wish in std::mem::take(&mut self.wishes) {
            match self.take(wish.lock) {
                Locked::Taken => granted.push((wish.lock.owner.session, wish.ticket)),
                Locked::Blocked(_) | Locked::Queued | Locked::Deadlock => self.wishes.push_back(wish),
            }
        }
        granted
    }

    /// Returns every lock.
    pub fn all(&self) -> impl Iterator<Item = &Lock> {
        self.files.values().flatten()
    }

    /// Notes a lock that another table has let somebody have.
    pub fn put(&mut self, lock: Lock) {
        let locks = self.files.entry(lock.ino).or_default();
        cut_out(locks, lock.family, lock.owner, lock.range);
        let mut lock = lock;
        locks.retain(|other| {
            let is_same = other.family == lock.family && other.owner == lock.owner && other.kind == lock.kind;
            let touches = other.range.last.checked_add(1) == Some(lock.range.first)
                || lock.range.last.checked_add(1) == Some(other.range.first);
            if is_same && touches {
                lock.range.first = lock.range.first.min(other.range.first);
                lock.range.last = lock.range.last.max(other.range.last);
            }
            !(is_same && touches)
        });
        locks.push(lock);
    }
}

/// Takes a range out of an owner's locks.
fn cut_out(locks: &mut Vec<Lock>, family: LockFamily, owner: LockOwner, range: LockRange) {
    let mut rest = Vec::new();
    locks.retain(|lock| {
        if lock.family != family || lock.owner != owner || !lock.range.meets(&range) {
            return true;
        }
        let LockRange { first, last } = lock.range;
        if first < range.first {
            let range = LockRange {
                first,
                last: range.first - 1,
            };
            rest.push(Lock { range, ..*lock });
        }
        if last > range.last {
            let range = LockRange {
                first: range.last + 1,
                last,
            };
            rest.push(Lock { range, ..*lock });
        }
        false
    });
    locks.append(&mut rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(session: u64, (first, last): (u64, u64), kind: LockKind) -> Lock {
        Lock {
            ino: Ino(20),
            family: LockFamily::Posix,
            owner: LockOwner {
                session: SessionId(session),
                number: 7,
            },
            range: LockRange { first, last },
            kind,
            pid: 1,
        }
    }

    fn ranges(locks: &Locks, session: u64) -> Vec<(u64, u64, LockKind)> {
        let mine = locks.all().filter(|lock| lock.owner.session.0 == session);
        let mut ranges: Vec<_> = mine
            .map(|lock| (lock.range.first, lock.range.last, lock.kind))
            .collect();
        ranges.sort_unstable();
        ranges
    }

    use LockKind::{Exclusive, Shared};

    #[test]
    fn a_lock_takes_the_place_of_what_its_owner_had_there_and_neighbours_are_one() {
        let mut locks = Locks::default();
        assert_eq!(locks.take(lock(1, (0, 9), Exclusive)), Locked::Taken);
        assert_eq!(locks.take(lock(1, (4, 5), Shared)), Locked::Taken);
        assert_eq!(
            ranges(&locks, 1),
            [(0, 3, Exclusive), (4, 5, Shared), (6, 9, Exclusive)]
        );
        assert_eq!(locks.take(lock(1, (4, 5), Exclusive)), Locked::Taken);
        assert_eq!(ranges(&locks, 1), [(0, 9, Exclusive)]);
        let one = lock(1, (3, 3), Shared);
        locks.give_back(one.ino, one.family, one.owner, one.range);
        assert_eq!(ranges(&locks, 1), [(0, 2, Exclusive), (4, 9, Exclusive)]);
        locks.take(lock(1, (10, u64::MAX), Exclusive));
        assert_eq!(ranges(&locks, 1), [(0, 2, Exclusive), (4, u64::MAX, Exclusive)]);
    }

    #[test]
    fn who_waits_has_his_lock_once_nothing_stands_in_the_way_in_the_order_of_coming() {
        let mut locks = Locks::default();
        let held = lock(1, (0, 9), Shared);
        assert_eq!(locks.take(held), Locked::Taken);
        assert_eq!(locks.take(lock(2, (5, 20), Shared)), Locked::Taken);
        assert_eq!(locks.take(lock(3, (0, 0), Exclusive)), Locked::Blocked(held));
        assert_eq!(locks.take_or_wait(30, lock(3, (0, 6), Exclusive)), Locked::Queued);
        assert_eq!(locks.take_or_wait(40, lock(4, (0, 6), Exclusive)), Locked::Queued);
        assert_eq!(locks.take_or_wait(30, lock(3, (0, 6), Exclusive)), Locked::Queued);
        assert_eq!(locks.grant(), []);
        locks.end_session(SessionId(1));
        assert_eq!(locks.grant(), [], "the second stands in the way still");
        locks.end_session(SessionId(2));
        assert_eq!(locks.grant(), [(SessionId(3), 30)]);
        assert!(locks.forget(SessionId(4), 40) && !locks.forget(SessionId(3), 30));
        locks.end_session(SessionId(3));
        assert_eq!((locks.grant(), locks.all().count()), (Vec::new(), 0));
    }

    #[test]
    fn flock_and_fcntl_do_not_see_each_other() {
        let mut locks = Locks::default();
        let one = lock(1, (0, u64::MAX), Exclusive);
        let other = Lock {
            family: LockFamily::Flock,
            ..lock(2, (0, u64::MAX), Exclusive)
        };
        assert_eq!(
            (locks.take(one), locks.take(other)),
            (Locked::Taken, Locked::Taken)
        );
    }

    #[test]
    fn who_would_wait_for_himself_is_told() {
        let mut locks = Locks::default();
        locks.take(lock(1, (0, 0), Exclusive));
        locks.take(lock(2, (1, 1), Exclusive));
        locks.take(lock(3, (2, 2), Exclusive));
        assert_eq!(locks.take_or_wait(1, lock(1, (1, 1), Shared)), Locked::Queued);
        assert_eq!(locks.take_or_wait(2, lock(2, (2, 2), Shared)), Locked::Queued);
        assert_eq!(locks.take_or_wait(3, lock(3, (0, 0), Shared)), Locked::Deadlock);
        assert_eq!(locks.take_or_wait(4, lock(4, (0, 0), Shared)), Locked::Queued);
    }
}
