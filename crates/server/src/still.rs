//! A branch that one session holds whole, and that becomes another state: its holder stands still meanwhile, and goes on from that.
//!
//! The holder is told by what it hears, ships all that it has done, says that it stands still and asks what to do next until it is told
//! to go on. None of that outlives the owner: a holder that stands still asks the next one, and what its next batch must name tells
//! whether the branch has become another state under it. Invariant: a held branch becomes another state only while its holder stands
//! still, and that is told only once it is durable.

use crate::drive::{Inner, Threads};
use crate::order::Live;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{BranchId, BranchName, Ino, Refusal, SessionId};
use tenure_wire::shared::{Demand, Heard, Need, Next, Sharer, Stand};
use tenure_wire::{Done, Error, Shared};

/// How often it is looked whether a holder has taken what the branch has become.
const REST: Duration = Duration::from_millis(2);

/// What this owner knows of those who hold a branch whole.
#[derive(Default)]
pub(crate) struct Holders(BTreeMap<BranchId, Holder>);

struct Holder {
    session: SessionId,
    /// Who is told that it is to stand still.
    listener: Option<Done<Heard>>,
    pace: Pace,
}

enum Pace {
    /// It changes the branch as it likes.
    Moves,
    /// It changes nothing; these inodes may be open there.
    Stands(BTreeSet<Ino>),
    /// It was told what the branch has become.
    Takes,
}

impl Holders {
    fn of(&mut self, who: Sharer) -> &mut Holder {
        let begun = || Holder {
            session: who.session,
            listener: None,
            pace: Pace::Moves,
        };
        let holder = self.0.entry(who.branch).or_insert_with(begun);
        if holder.session != who.session {
            *holder = begun();
        }
        holder
    }

    fn find(&self, branch: BranchId, session: SessionId) -> Option<&Holder> {
        self.0.get(&branch).filter(|holder| holder.session == session)
    }

    /// Returns what may be open of a branch where it is held.
    pub(crate) fn open(&self, branch: BranchId) -> impl Iterator<Item = Ino> {
        let open = match self.0.get(&branch).map(|holder| &holder.pace) {
            Some(Pace::Stands(open)) => Some(open),
            Some(Pace::Moves | Pace::Takes) | None => None,
        };
        open.into_iter().flatten().copied()
    }
}

/// Tells a holder that it is to stand still: all of its branch is needed. No lock is held.
pub(crate) fn tell_to_stand(listener: Option<Done<Heard>>) {
    let demand = Demand {
        number: 0,
        directory: Ino::ROOT,
        loan: 0,
        need: Need::Return,
    };
    let heard = || Heard {
        tickets: Vec::new(),
        demands: vec![demand],
    };
    listener.into_iter().for_each(|listener| listener(Ok(heard())));
}

impl Inner {
    /// Tells whether a session holds a branch whole.
    pub(crate) fn is_holder(&self, who: Sharer) -> Result<bool, Error> {
        self.with(|live| Ok(live.held_by(who).is_ok()))
    }

    /// Notes who is told when a holder is to stand still; who was noted before is told nothing.
    pub(crate) fn hear_as_holder(&self, who: Sharer, told: Done<Heard>) {
        let mut told = Some(told);
        let heard = self.with(|live| {
            live.known(who.session)?;
            let is_needed = live.is_quiet(who.branch);
            let holder = live.holders.of(who);
            let before = std::mem::replace(&mut holder.listener, told.take());
            let is_told = is_needed && matches!(holder.pace, Pace::Moves);
            Ok((before, is_told.then(|| holder.listener.take()).flatten()))
        });
        match heard {
            Ok((before, now)) => {
                before.into_iter().for_each(|before| before(Ok(Heard::default())));
                tell_to_stand(now);
            }
            Err(error) => told.into_iter().for_each(|told| told(Err(error.clone()))),
        }
    }

    /// Tells a holder that stands still what it does next.
    pub(crate) fn stand(&self, who: Sharer, stand: &Stand) -> Result<Next<Branch>, Error> {
        let Stand::Still { behind, known } = stand else {
            return self.with(|live| {
                live.known(who.session)?;
                live.held_by(who)?;
                live.holders.of(who).pace = Pace::Moves;
                Ok(Next::GoOn)
            });
        };
        let became = self.with(|live| {
            let hosted = live.known(who.session)?.hosted;
            let grant = live.held_by(who)?;
            if grant.number != behind.0 {
                return Err(Refusal::Stale.into());
            }
            if grant.digest != behind.1 {
                let open = live.state.opened(who.branch).ok_or(Refusal::Stale)?;
                live.holders.of(who).pace = Pace::Takes;
                return Ok(Err((hosted, grant.digest, open.branch)));
            }
            let is_needed = live.is_quiet(who.branch);
            let pace = &mut live.holders.of(who).pace;
            Ok(Ok(match (is_needed, &*pace, known) {
                (false, ..) => {
                    *pace = Pace::Moves;
                    Next::GoOn
                }
                (true, _, Some(known)) => {
                    *pace = Pace::Stands(known.iter().copied().collect());
                    Next::Stay
                }
                (true, Pace::Stands(_), None) => Next::Stay,
                (true, Pace::Moves | Pace::Takes, None) => Next::Tell,
            }))
        })?;
        let (hosted, behind, branch) = match became {
            Ok(next) => return Ok(next),
            Err(became) => became,
        };
        // The next owner must know of it as well.
        self.settle_all()?;
        let state = match hosted {
            true => Shared::Here(branch),
            false => self.stored(&branch)?,
        };
        Ok(Next::Became { behind, state })
    }

    /// Waits until the holder of a branch has taken what that has become: whoever asks there sees it then. One that does not in time
    /// takes it later, before it answers for anything else.
    pub(crate) fn until_taken(&self, branch: BranchId) -> Result<(), Error> {
        let until = self.options.clock.elapsed() + self.lease();
        while self.options.threads == Threads::Started && self.options.clock.elapsed() < until {
            let is_taken = self.with(|live| {
                let grant = live.state.grant(branch);
                let holder = grant.and_then(|grant| live.holders.find(branch, grant.session));
                Ok(holder.is_none_or(|holder| matches!(holder.pace, Pace::Moves)))
            })?;
            if is_taken {
                break;
            }
            std::thread::sleep(REST);
        }
        Ok(())
    }

    /// Has whoever holds or shares a branch ship all that was done there before.
    pub(crate) fn have_shipped(&self, name: &BranchName) -> Result<(), Error> {
        let (branch, _) = self.with(|live| live.named(name.as_str()))?;
        self.end_silent_holder(branch, None)?;
        self.gathered(branch)?;
        let _quiet = self.keep_quiet(branch)?;
        self.have_all_back(branch)?;
        self.settle_all()
    }

    /// Forgets who held a branch.
    pub(crate) fn forget_holder(&self, branch: BranchId) {
        // Of a drive that has stopped nobody is told anything; and no lock is held while it is told that nothing more comes.
        let forgotten = self.with(|live| Ok(live.holders.0.remove(&branch)));
        drop(forgotten);
    }
}

impl Live {
    fn held_by(&self, who: Sharer) -> Result<crate::state::Grant, Error> {
        let grant = self.state.grant(who.branch);
        let grant = grant.filter(|grant| grant.session == who.session);
        Ok(grant.ok_or(Refusal::Stale)?)
    }

    /// Tells whether a holder of a branch moves; returns who is to be told that it is to stand still.
    pub(crate) fn ask_to_stand(&mut self, branch: BranchId) -> (bool, Option<Done<Heard>>) {
        let Some(grant) = self.state.grant(branch) else {
            return (false, None);
        };
        let session = grant.session;
        let holder = self.holders.of(Sharer { session, branch });
        match holder.pace {
            Pace::Stands(_) => (false, None),
            Pace::Moves => (true, holder.listener.take()),
            Pace::Takes => (true, None),
        }
    }

    /// Refuses a branch whose holder moves, with who that is and what would help.
    pub(crate) fn stands_still(&self, branch: BranchId) -> Result<(), Refusal> {
        let Some(grant) = self.state.grant(branch) else {
            return Ok(());
        };
        let holder = self.holders.find(branch, grant.session);
        if holder.is_some_and(|holder| matches!(holder.pace, Pace::Stands(_))) {
            return Ok(());
        }
        let line = self.state.line(branch);
        let name = line.map_or_else(|| "it".to_owned(), |line| line.name);
        let session = self.state.session(grant.session);
        let who = session.map_or_else(|| "another session".to_owned(), |session| session.who);
        // The sentence goes on with "holds it".
        Err(Refusal::Held {
            by: format!(
                "{name} is mounted, and its mount was asked to ship what it has and does not in time (`tenure status` there says why, \
                 `tenure unmount` frees it); nothing was changed: {who}"
            ),
        })
    }
}
