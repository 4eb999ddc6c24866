//! What only a shared branch is asked: its files are opened, because the owner knows what is open, and its locks are the owner's.
//!
//! Nothing of it stays in the kernel: names and attributes are good once, and files are read and written past its cache
//! (`FOPEN_DIRECT_IO`). What programs map into their memory is the exception: see docs/OPERATING.md.

use super::pending::Pending;
use super::waiting::Waiting;
use super::{Served, answer, entry, errno, name};
use crate::kernel::{self, Errno, InitFlags, LockKind as Wanted, OpenFlags, Opened, Operation, Request};
use parking_lot::Mutex;
use std::sync::Arc;
use tenure_client::{Error, SharedBranch, Wished};
use tenure_model::{Ino, Kind, Lock, LockFamily, LockKind, LockRange, Locked, Refusal};

/// What is asked of the kernel besides: locks go to the owner, and files that it does not cache may be mapped all the same.
pub(super) const WANTED: [InitFlags; 3] = [
    InitFlags::POSIX_LOCKS,
    InitFlags::FLOCK_LOCKS,
    InitFlags::DIRECT_IO_ALLOW_MMAP,
];

/// What is not asked of the kernel: to remember what it was told, and to open files by itself.
pub(super) const UNWANTED: [InitFlags; 5] = [
    InitFlags::NO_OPEN_SUPPORT,
    InitFlags::NO_OPENDIR_SUPPORT,
    InitFlags::DO_READDIRPLUS,
    InitFlags::READDIRPLUS_AUTO,
    InitFlags::CACHE_SYMLINKS,
];

const O_EXCL: u32 = libc::O_EXCL.cast_unsigned();

/// Returns what the kernel may do with an open file.
pub(super) fn opened() -> Opened {
    Opened {
        fh: 0,
        flags: OpenFlags::DIRECT_IO | OpenFlags::PARALLEL_DIRECT_WRITES,
    }
}

impl Served {
    /// Answers a request that only a shared branch answers; tells whether it was one.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other requests are answered as those of a held branch"
    )]
    pub(super) fn answer_shared(&self, request: &Request<'_>, pending: &mut Pending) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let ino = Ino(request.nodeid);
        if super::hidden::is_hidden(request.nodeid) {
            return answer_hidden(request, pending);
        }
        match &request.operation {
            Operation::Open { .. } => {
                let opened_here = shared.open(ino).map_err(or_stale);
                answer(pending, opened_here, |reply, ()| reply.open(opened()));
            }
            Operation::Opendir { .. } => take_open(pending),
            Operation::Create {
                name,
                flags,
                mode,
                umask,
                ..
            } => self.create_open(shared, request, (name, *flags), (*mode, *umask), pending),
            Operation::Release {
                flock_unlock,
                lock_owner,
                ..
            } => {
                let unlocked = match flock_unlock {
                    true => unlock(shared, ino, LockFamily::Flock, *lock_owner),
                    false => Ok(()),
                };
                answer(pending, unlocked, |reply, ()| {
                    shared.closed(ino);
                    reply.ok();
                });
            }
            Operation::Flush { lock_owner, .. } => {
                let unlocked = unlock(shared, ino, LockFamily::Posix, *lock_owner);
                answer(pending, unlocked, |reply, ()| reply.ok());
            }
            Operation::Getlk { lock, .. } => self.getlk(shared, ino, lock, pending),
            Operation::Setlk { lock, wait, .. } => self.setlk(shared, ino, (lock, *wait), pending),
            _ => return false,
        }
        true
    }

    fn create_open(
        &self,
        shared: &SharedBranch,
        request: &Request<'_>,
        (bytes, flags): (&[u8], u32),
        (mode, umask): (u32, u32),
        pending: &mut Pending,
    ) {
        if super::hidden::is_taken(request.nodeid, bytes) {
            return pending.error(Errno::EXIST);
        }
        let node = entry::node(request, Kind::File, mode, umask);
        let made = name(bytes).and_then(|name| shared.create_open(Ino(request.nodeid), &name, &node));
        let made = made.map_err(|error| match error {
            // Another has made it just now: the kernel looks it up, and opens it as one that is there.
            Error::Refused(Refusal::Exists) if flags & O_EXCL == 0 => Refusal::Stale.into(),
            error @ (Error::Refused(_) | Error::Failed(_)) => error,
        });
        answer(pending, made, |reply, (ino, attr)| {
            reply.create(&self.entry(ino, &attr), opened());
        });
    }

    fn getlk(&self, shared: &SharedBranch, ino: Ino, asked: &kernel::Lock, pending: &mut Pending) {
        let Some(lock) = lock(shared, ino, asked) else {
            return pending.error(Errno::INVAL);
        };
        answer(pending, shared.test_lock(lock), |reply, blocker| {
            let found = match blocker {
                None => kernel::Lock {
                    kind: Wanted::Unlock,
                    ..*asked
                },
                Some(blocker) => kernel::Lock {
                    start: blocker.range.first,
                    end: blocker.range.last,
                    kind: match blocker.kind {
                        LockKind::Shared => Wanted::Read,
                        LockKind::Exclusive => Wanted::Write,
                    },
                    // A process of another machine has no number here.
                    pid: if blocker.owner.session == lock.owner.session {
                        blocker.pid
                    } else {
                        0
                    },
                    ..*asked
                },
            };
            reply.lk(&found);
        });
    }

    fn setlk(
        &self,
        shared: &Arc<SharedBranch>,
        ino: Ino,
        (asked, waits): (&kernel::Lock, bool),
        pending: &mut Pending,
    ) {
        let Some(lock) = lock(shared, ino, asked) else {
            let owner = shared.lock_owner(asked.owner);
            let unlocked = match (asked.kind, range(asked)) {
                (Wanted::Unlock, Some(range)) => shared.unlock(ino, family(asked), owner, range),
                (Wanted::Unlock | Wanted::Read | Wanted::Write, _) => Err(Refusal::InvalidArgument.into()),
            };
            return answer(pending, unlocked, |reply, ()| reply.ok());
        };
        if waits {
            return self.lock_later(shared, lock, pending);
        }
        answer(pending, shared.lock(lock), |reply, locked| match locked {
            Locked::Taken => reply.ok(),
            Locked::Blocked(_) | Locked::Queued | Locked::Deadlock => reply.error(Errno::AGAIN),
        });
    }

    /// Takes a lock as soon as nothing stands in the way: no thread waits meanwhile, and an interrupt ends it.
    fn lock_later(&self, shared: &Arc<SharedBranch>, lock: Lock, pending: &mut Pending) {
        let Some(reply) = pending.take() else { return };
        let pool = self.pools.locks();
        let wished = Arc::<Mutex<Option<Wished>>>::default();
        let (known, forgetting, theirs) = (Arc::clone(&wished), pool.clone(), Arc::clone(shared));
        let waiting = Waiting::until(reply, move || {
            // Where it is not known yet, whoever asks for it looks whether somebody waits.
            let wished = *known.lock();
            if let Some(wished) = wished {
                forgetting.run(forgetting.ticket(), move || theirs.forget_lock(wished));
            }
        });
        let (slot, shared) = (waiting.caller(), Arc::clone(shared));
        pool.run(pool.ticket(), move || {
            let begun = |ticket| *wished.lock() = Some(ticket);
            shared.lock_later(lock, begun, Box::new(move |locked| tell_locked(&waiting, locked)));
            let late = wished.lock().filter(|_| slot.is_over());
            if let Some(late) = late {
                shared.forget_lock(late);
            }
        });
    }
}

/// Answers who waits for a lock; tells whether somebody did.
fn tell_locked(waiting: &Waiting, locked: Result<Locked, Error>) -> bool {
    let Some(reply) = waiting.take() else {
        return false;
    };
    match locked {
        Ok(Locked::Taken) => reply.ok(),
        Ok(Locked::Deadlock) => reply.error(Errno::DEADLK),
        Ok(Locked::Blocked(_) | Locked::Queued) => reply.error(Errno::AGAIN),
        Err(error) => reply.error(errno(&error)),
    }
    true
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else is asked of what is hidden is answered there"
)]
fn answer_hidden(request: &Request<'_>, pending: &mut Pending) -> bool {
    match &request.operation {
        // That files need not be opened must not be learned here: it would be learned for all.
        Operation::Open { .. } | Operation::Opendir { .. } => take_open(pending),
        Operation::Flush { .. } => pending.ok(),
        _ => return false,
    }
    true
}

fn take_open(pending: &mut Pending) {
    if let Some(reply) = pending.take() {
        reply.open(opened());
    }
}

/// Says of a file that is gone that it is: the kernel then looks its name up again.
fn or_stale(error: Error) -> Error {
    match error {
        Error::Refused(Refusal::NotFound) => Refusal::Stale.into(),
        error @ (Error::Refused(_) | Error::Failed(_)) => error,
    }
}

fn unlock(shared: &SharedBranch, ino: Ino, family: LockFamily, owner: u64) -> Result<(), Error> {
    let whole = LockRange {
        first: 0,
        last: u64::MAX,
    };
    shared.unlock(ino, family, shared.lock_owner(owner), whole)
}

fn family(asked: &kernel::Lock) -> LockFamily {
    if asked.flock {
        LockFamily::Flock
    } else {
        LockFamily::Posix
    }
}

fn range(asked: &kernel::Lock) -> Option<LockRange> {
    let (first, last) = (asked.start, asked.end);
    (first <= last).then_some(LockRange { first, last })
}

/// Returns the lock that is asked for; none where something is to be given back, or makes no sense.
fn lock(shared: &SharedBranch, ino: Ino, asked: &kernel::Lock) -> Option<Lock> {
    let kind = match asked.kind {
        Wanted::Read => LockKind::Shared,
        Wanted::Write => LockKind::Exclusive,
        Wanted::Unlock => return None,
    };
    Some(Lock {
        ino,
        family: family(asked),
        owner: shared.lock_owner(asked.owner),
        range: range(asked)?,
        kind,
        pid: asked.pid,
    })
}
