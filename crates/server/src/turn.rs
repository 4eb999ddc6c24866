//! Turns: a branch becomes another state as a whole, by one record.
//!
//! What it becomes is found from what it is with no lock held, and its pages are durable before the record is. Invariant: the record is
//! accepted only while the branch is still what that was found from, nothing of it is lent, and who holds it whole stands still; else it is found again. What the branch was is a
//! checkpoint, made in the same step.

use crate::drive::Inner;
use crate::order::{Live, Room};
use crate::review::ACCEPT;
use crate::session;
use crate::state::After;
use crate::state::permit::because;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Branch;
use tenure_journal::Journal;
use tenure_model::codec::Codec;
use tenure_model::record::Maker;
use tenure_model::{BranchId, BranchName, CheckpointName, Failure, Ino, Past, Record, Root, Seq, Turn, Why};
use tenure_wire::{Error, Turned, Who};

/// Times that a state is found again because the branch has changed meanwhile.
const TRIES_MAX: usize = 16;
/// How long the checkpoint of what a branch was is kept.
const BEFORE_KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Names that are tried for the checkpoint of what a branch was.
const NAMES_MAX: u64 = 1000;

/// A branch as it is before it becomes another state.
pub(crate) struct Before {
    pub(crate) id: BranchId,
    pub(crate) branch: Branch,
    version: u64,
    /// The first inode number that was never lent.
    pub(crate) next_ino: Ino,
    /// What sessions that share it have open.
    open: BTreeSet<Ino>,
}

/// What a branch is to become.
pub(crate) struct Goal {
    pub(crate) branch: Branch,
    /// How many inode numbers it took, from the first on that was never lent.
    pub(crate) inos: u64,
    pub(crate) why: Why,
}

impl Inner {
    /// Lets a branch go on from what it, or another line, was.
    pub(crate) fn undo(&self, who: &Who, name: &BranchName, to: &str) -> Result<Turned, Error> {
        let turned = self.turn(who, name, "undo", |before| {
            let (past, branch) = self.past_of(to)?;
            if self.root_of(&before.branch)?.page.digest == past.root.page.digest {
                return Err(because(&format!("{name} is what {to} is, and was not changed")).into());
            }
            Ok(Some(Goal {
                branch,
                inos: 0,
                why: Why::Undone {
                    to: to.to_owned(),
                    past,
                },
            }))
        })?;
        turned.ok_or_else(|| because("nothing was changed").into())
    }

    /// Lets a branch become what `find` makes of what it is, which may be asked several times; where it makes nothing, nothing is done. `kind` is a word for the checkpoint of what it was.
    pub(crate) fn turn(
        &self,
        who: &Who,
        name: &BranchName,
        kind: &str,
        mut find: impl FnMut(&Before) -> Result<Option<Goal>, Error>,
    ) -> Result<Option<Turned>, Error> {
        let (branch, line) = self.with(|live| live.named(name.as_str()))?;
        if !line.kind.is_branch() {
            return Err(because(&format!("{name} is a checkpoint and never changes; fork it")).into());
        }
        self.with(|live| live.permits_turn(branch, kind))?;
        self.end_silent_holder(branch, None)?;
        self.gathered(branch)?;
        let turned = self.turn_quietly(branch, (&session::words(who), kind), &mut find)?;
        if turned.is_some() {
            self.until_taken(branch)?;
            self.work_after_batch();
        }
        Ok(turned)
    }

    fn turn_quietly(
        &self,
        branch: BranchId,
        words: (&str, &str),
        find: &mut impl FnMut(&Before) -> Result<Option<Goal>, Error>,
    ) -> Result<Option<Turned>, Error> {
        let _quiet = self.keep_quiet(branch)?;
        for _ in 0..TRIES_MAX {
            self.have_all_back(branch)?;
            let before = self.before(branch)?;
            let Some(goal) = find(&before)? else {
                return Ok(None);
            };
            if let Some((journal, seq, turned)) = self.accept_turn(&before, goal, words)? {
                self.commit_through(&journal, seq)?;
                // Who holds it whole drops by itself what nobody has open there.
                if self.with(|live| Ok(live.state.grant(branch).is_none()))? {
                    self.set_orphans_adrift(branch)?;
                    self.drop_adrift(branch)?;
                }
                return Ok(Some(turned));
            }
        }
        Err(Failure::DidNotHappen("the branch changes all the time; try again".into()).into())
    }

    /// Returns what a line is now, as a turn names it, with its pages durable.
    pub(crate) fn past_of(&self, name: &str) -> Result<(Past, Branch), Error> {
        let (line, _) = self.with(|live| live.named(name))?;
        self.gathered(line)?;
        let (stretch, at, branch) = self.with(|live| {
            let open = live.state.opened(line);
            let open = open.ok_or_else(|| because("it was deleted just now"))?;
            Ok((live.state.stretch(line), live.journal()?.last(), open.branch))
        })?;
        let root = self.root_of(&branch)?;
        Ok((Past { stretch, at, root }, branch))
    }

    /// Writes a state's pages into packs that are sealed, and returns where it is.
    pub(crate) fn root_of(&self, branch: &Branch) -> Result<Root, Error> {
        let totals = branch.totals();
        Ok(Root {
            page: self.store_pages(branch.tree())?,
            inodes: totals.inodes,
            bytes: totals.bytes,
        })
    }

    /// Returns a branch as it is, unless somebody holds it who moves.
    fn before(&self, id: BranchId) -> Result<Before, Error> {
        self.with(|live| {
            live.stands_still(id)?;
            let open = live.state.opened(id);
            let open = open.ok_or_else(|| because("it was deleted just now"))?;
            Ok(Before {
                id,
                branch: open.branch,
                version: open.version,
                next_ino: live.next_inos().next,
                open: live.open_elsewhere(id),
            })
        })
    }

    /// Puts the turn in order, and before it a checkpoint of what the branch was; returns none where the branch is no longer what that
    /// was found from.
    fn accept_turn(
        &self,
        before: &Before,
        goal: Goal,
        (by, kind): (&str, &str),
    ) -> Result<Option<(Arc<Journal>, Seq, Turned)>, Error> {
        let (id, time) = (before.id, self.options.clock.now());
        // Who has something open goes on with it.
        let kept = || goal.branch.with_kept(&before.branch, &before.open);
        let branch = self.loader.ask(kept)?;
        let record = Record::Turned(Turn {
            branch: id,
            to: self.root_of(&branch)?,
            inos: goal.inos,
            why: goal.why,
            by: by.to_owned(),
            time,
        });
        self.with(|live| {
            live.stands_still(id)?;
            live.permits_turn(id, kind)?;
            live.state.permits(&record)?;
            let is_same = live
                .state
                .opened(id)
                .is_some_and(|open| open.version == before.version);
            let is_open_known = live.open_elsewhere(id).is_subset(&before.open);
            let is_next = live.next_inos().next == before.next_ino;
            if !is_same || !is_open_known || !is_next || !live.is_given_back(id) {
                return Ok(None);
            }
            let name = live.name_before(kind)?;
            let before = Record::CheckpointMade {
                branch: id,
                name: name.clone(),
                message: format!("before the {kind} by {by}"),
                time,
                until: Some(time.after(BEFORE_KEEP)),
                maker: Maker::Owner,
            };
            live.state.permits(&before)?;
            self.order(live, &before, After::Same)?;
            let seq = self.order(live, &record, After::Branch(branch))?;
            live.forget_copies(id);
            let before = name.to_string();
            Ok(Some((live.journal()?.clone(), seq, Turned { before })))
        })
    }

    /// Puts a record that is permitted into the journal's queue and makes its change.
    fn order(&self, live: &mut Live, record: &Record, after: After) -> Result<Seq, Error> {
        let seq = self
            .enqueue(live, (record.written(), Room::Usual), Box::new(drop))
            .map_err(|(error, _)| error)?;
        live.state.apply(record, seq, after);
        Ok(seq)
    }
}

impl Live {
    /// Refuses what is no accepted review where a branch is protected, also since the turn was begun.
    fn permits_turn(&self, branch: BranchId, kind: &str) -> Result<(), Error> {
        match kind {
            ACCEPT => Ok(()),
            _ => Ok(self.state.is_open_to_all(branch)?),
        }
    }

    /// Returns a free name for the checkpoint of what a branch was.
    fn name_before(&self, kind: &str) -> Result<CheckpointName, Error> {
        let head = self.state.head().expect("a drive that is served has begun");
        let numbers = head.next_line.0..head.next_line.0 + NAMES_MAX;
        let mut names = numbers.map(|number| format!("before-{kind}-{number}"));
        names
            .find(|name| self.state.named(name).is_none())
            .and_then(|name| CheckpointName::parse(&name).ok())
            .ok_or_else(|| because("the drive has a checkpoint of each name that this one could have").into())
    }
}
