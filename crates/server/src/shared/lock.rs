//! Locks of files of a shared branch: who waits is told by a ticket, so that nobody's call waits for another's lock.

use super::tell;
use crate::drive::Inner;
use tenure_model::{Lock, LockOwner, Locked};
use tenure_wire::shared::{Heard, LockAsk, Sharer};
use tenure_wire::{Done, Error};

impl Inner {
    pub(crate) fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        self.admitted(who)?;
        if matches!(ask, LockAsk::Take { .. }) {
            self.end_silent_sharers(who.branch)?;
        }
        // Whose a lock is says the session that asks.
        let owned = |owner: LockOwner| LockOwner {
            session: who.session,
            ..owner
        };
        let theirs = |lock: &Lock| Lock {
            owner: owned(lock.owner),
            ..*lock
        };
        let (locked, told) = self.with(|live| {
            let share = live.share(who)?;
            let locked = match ask {
                LockAsk::Take { lock, ticket: None } => share.locks.take(theirs(lock)),
                LockAsk::Take {
                    lock,
                    ticket: Some(ticket),
                } => share.locks.take_or_wait(*ticket, theirs(lock)),
                LockAsk::Test(lock) => match share.locks.blocker(&theirs(lock)) {
                    Some(blocker) => Locked::Blocked(blocker),
                    None => Locked::Taken,
                },
                LockAsk::GiveBack {
                    ino,
                    family,
                    owner,
                    range,
                } => {
                    share.locks.give_back(*ino, *family, owned(*owner), *range);
                    Locked::Taken
                }
                LockAsk::Forget { ticket } => {
                    if share.locks.forget(who.session, *ticket) {
                        Locked::Queued
                    } else {
                        Locked::Taken
                    }
                }
            };
            // A lock that became less, or was given back, may be what another waits for.
            Ok((locked, share.news()))
        })?;
        tell(told);
        Ok(locked)
    }

    pub(crate) fn hear(&self, who: Sharer, told: Done<Heard>) {
        let mut told = Some(told);
        let heard = self.admitted(who).and_then(|()| {
            self.with(|live| {
                let share = live.share(who)?;
                let member = share.members.get_mut(&who.session);
                let before = member.and_then(|member| std::mem::replace(&mut member.listener, told.take()));
                Ok((before, share.news()))
            })
        });
        match heard {
            Ok((before, news)) => {
                tell(
                    before
                        .map(|before| (before, Heard::default()))
                        .into_iter()
                        .collect(),
                );
                tell(news);
            }
            Err(error) => told.into_iter().for_each(|told| told(Err(error.clone()))),
        }
    }
}
