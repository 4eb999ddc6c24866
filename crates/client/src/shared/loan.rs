//! Loans: a directory is borrowed before the first change in it, changed here from then on, and given back when another needs it or
//! nothing happens there any more (decision 0012).
//!
//! Invariant: what is lent is changed and read here only while this session may rely on it; whoever gives anything back has shipped all
//! that it has done.

use super::{Callers, Inner, State};
use crate::branch::{Branch, Threads};
use crate::lent::{Closes, Released};
use crate::wait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;
use tenure_model::{Attr, Failure, Ino, Name, Refusal};
use tenure_wire::Error;
use tenure_wire::shared::{Borrow, Borrowed, Deed, Demand, Loan, Need, Yield};

/// How long a directory is not asked for again that was not lent.
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// How long nothing is changed in a directory before it is given back when somebody looks at it, and before it is given back though
/// nobody does.
const REST_SEEN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(60);
/// Inodes of which it is known in which directory they are, and directories that were not lent, before they are forgotten.
const KNOWN_MAX: usize = 1 << 16;
/// Times that the owner is asked whether the session may go on, when the answer comes too late to be of use.
const PROLONGS_MAX: usize = 3;

/// What is known of what may be borrowed.
#[derive(Default)]
pub(super) struct Borrowing {
    /// In which directory an inode was found last; a directory is in itself.
    homes: BTreeMap<Ino, Ino>,
    /// Which directories were not lent, and when.
    refused: BTreeMap<Ino, Duration>,
    /// Whether something may be lent of which this session has not heard; only an owner that is told what is lent settles that.
    pub(super) is_unsure: bool,
}

impl Borrowing {
    fn note_home(&mut self, ino: Ino, home: Ino) {
        if self.homes.len() >= KNOWN_MAX {
            self.homes.clear();
        }
        self.homes.insert(ino, home);
    }

    fn note_refused(&mut self, directory: Ino, now: Duration) {
        if self.refused.len() >= KNOWN_MAX {
            self.refused.clear();
        }
        self.refused.insert(directory, now);
    }
}

/// Which demands are answered.
#[derive(Clone, Copy, Default)]
struct Answers {
    /// The number of the last of them.
    number: u64,
    /// The last loan that they name.
    loan: u64,
}

/// Where demands go: to one thread, which waits for the owner while nobody else does.
pub(super) type Demands = mpsc::Sender<Vec<Demand>>;

impl Inner {
    /// Notes where an inode was found.
    pub(super) fn note_found(&self, parent: Ino, ino: Ino, attr: &Attr) {
        let home = if attr.is_directory() { ino } else { parent };
        self.state.lock().borrowing.note_home(ino, home);
    }

    /// As [`Inner::here_in`], of the directory that an inode is in.
    pub(super) fn here_of<R>(
        &self,
        ino: Ino,
        change: impl Fn(&Branch) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        let found = || self.state.lock().borrowing.homes.get(&ino).copied();
        match self.held.home(ino).or_else(found) {
            Some(home) => self.here_in(home, change),
            None => Ok(None),
        }
    }

    /// Makes a change here, if all that it touches is lent; the directory is borrowed before, if it may be. None where the owner has
    /// to make it.
    pub(super) fn here_in<R>(
        &self,
        directory: Ino,
        change: impl Fn(&Branch) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        if !self.held.holds(directory) && !self.borrow(directory)? {
            return Ok(None);
        }
        self.may_go_on()?;
        let _moving = match self.still.try_read() {
            Some(moving) => moving,
            None => {
                wait::before_waiting()?;
                self.still.read()
            }
        };
        match change(&self.held) {
            Err(Error::Refused(Refusal::Elsewhere { .. })) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Answers a question here, if it is about what is lent.
    pub(super) fn seen_here<R>(
        &self,
        ino: Ino,
        ask: impl FnOnce(&Branch) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        if !self.held.covers(ino) {
            return Ok(None);
        }
        self.may_go_on()?;
        // What was covered before this is answered as it was then, also when it is given back just now.
        if !self.held.covers(ino) {
            return Ok(None);
        }
        ask(&self.held).map(Some)
    }

    /// Finds a directory that is lent by its name in one that is not.
    pub(super) fn found_here(&self, parent: Ino, name: &Name) -> Result<Option<(Ino, Attr)>, Error> {
        let Some(ino) = self.held.known(parent, name) else {
            return Ok(None);
        };
        let attr = self.seen_here(ino, |held| held.attr(ino))?;
        Ok(attr.map(|attr| (ino, attr)))
    }

    fn borrow(&self, directory: Ino) -> Result<bool, Error> {
        let now = self.clock.elapsed();
        let is_refused = |at: &Duration| now.saturating_sub(*at) < REFUSED_MAX;
        let refused = self.state.lock().borrowing.refused.get(&directory).copied();
        if !self.is_tended.load(Ordering::Relaxed) || refused.as_ref().is_some_and(is_refused) {
            return Ok(false);
        }
        wait::before_waiting()?;
        let _alone = self.lending.lock();
        if self.held.holds(directory) {
            return Ok(true);
        }
        let lent = match self.ask_for_loan(directory, false)? {
            Some(lent) => lent,
            None => {
                let _nothing_changes = self.still.write();
                self.ship_all()?;
                self.ask_for_loan(directory, true)?.unwrap_or(false)
            }
        };
        if lent {
            self.listen();
        } else {
            self.state.lock().borrowing.note_refused(directory, now);
        }
        Ok(lent)
    }

    /// Asks for a directory; none where the copy is too old.
    fn ask_for_loan(&self, directory: Ino, is_shipped: bool) -> Result<Option<bool>, Error> {
        let mut owners = 0;
        let ask = Borrow {
            directory,
            copy: self.held.copied(),
            is_shipped,
        };
        let who = self.who;
        // By then another owner may have been brought what is known here, and asked.
        let note = |state: &mut State, _: &Result<_, _>| owners = state.rejoined;
        let asked = self.ask_then(Callers::MayLeave, |owner| owner.borrow(who, &ask), note);
        let answered = asked.and_then(|borrowed| match borrowed {
            Borrowed::No => Ok(Some(false)),
            Borrowed::Behind => Ok(None),
            Borrowed::Lent(loan) => self.take_up(loan, owners).map(Some),
        });
        if answered.is_err() {
            self.state.lock().borrowing.is_unsure = true;
            self.listen();
        }
        answered
    }

    /// Tells whether nothing is lent to this session, as far as it can know.
    pub(super) fn has_nothing(&self) -> bool {
        self.held.has_nothing() && !self.state.lock().borrowing.is_unsure
    }

    /// Takes a loan up, unless it is one of an owner before, of which the one that is there now was told nothing.
    fn take_up(&self, loan: Loan<tenure_core::Branch>, owners: u64) -> Result<bool, Error> {
        let _same = self.rejoining.lock();
        if self.state.lock().rejoined != owners {
            return Ok(false);
        }
        self.held.take_up(loan)?;
        Ok(true)
    }

    /// Makes all durable that was done here.
    pub(super) fn ship_all(&self) -> Result<(), Error> {
        if self.held.inner.is_clean() {
            return Ok(());
        }
        wait::before_waiting()?;
        self.held.sync_all()
    }

    /// Gives back, before an act, what it names: the owner does it, behind all that was done here.
    pub(super) fn make_way(&self, deed: &Deed) -> Result<(), Error> {
        let homes = named(deed).into_iter().flatten();
        let homes: BTreeSet<Ino> = homes.filter_map(|ino| self.held.home(ino)).collect();
        if !homes.is_empty() {
            wait::before_waiting()?;
            let _alone = self.lending.lock();
            self.give_back(homes.clone(), Answers::default())?;
            let now = self.clock.elapsed();
            let mut state = self.state.lock();
            homes
                .into_iter()
                .for_each(|home| state.borrowing.note_refused(home, now));
        }
        if self.held.inner.is_shown() {
            return Ok(());
        }
        wait::before_waiting()?;
        self.held.inner.show()
    }

    /// Gives directories back, when all is shipped; says which demands are answered with that.
    fn give_back(&self, directories: BTreeSet<Ino>, answers: Answers) -> Result<(), Error> {
        self.held.close_directories(&directories, Closes::Now);
        if let Err(error) = self.ship_all() {
            self.held.close_directories(&directories, Closes::NoMore);
            return Err(error);
        }
        let given = {
            // Who has just made something here counts it as open before it is given back.
            let _nothing_changes = self.still.write();
            let mut state = self.state.lock();
            let Released { loan, inodes } = self.held.release(&directories);
            Yield {
                answered: answers.number,
                // Nobody borrows meanwhile: of a loan that is not known here, it was never heard, and never will be.
                loan: loan.max(answers.loan),
                open: state.opens.tell_those_in(&inodes),
                directories: directories.into_iter().collect(),
            }
        };
        let who = self.who;
        self.ask(Callers::Stay, |owner| owner.take_back(who, &given))
    }

    /// Shows who looks what was done here.
    fn show(&self, answers: Answers) -> Result<(), Error> {
        self.held.inner.show()?;
        let who = self.who;
        let given = Yield {
            answered: answers.number,
            ..Yield::default()
        };
        self.ask(Callers::Stay, |owner| owner.take_back(who, &given))
    }

    /// Lets one thread do what others demand.
    pub(super) fn answer_demands(&self) {
        let demanded = self.demanded.lock();
        while let Ok(demands) = demanded.recv() {
            self.answer(&demands);
        }
    }

    /// Does what others demand on the calling thread, where no other does.
    pub(super) fn tend(&self) {
        if self.options.threads == Threads::Started {
            return;
        }
        self.is_tended.store(true, Ordering::Relaxed);
        if self.has_nothing() {
            return;
        }
        self.hear_at_once();
        let demands: Vec<Demand> = self.demanded.lock().try_iter().flatten().collect();
        if !demands.is_empty() {
            self.answer(&demands);
        }
    }

    fn answer(&self, demands: &[Demand]) {
        if let Err(error) = self.try_to_answer(demands) {
            tracing::debug!(%error, "what another needs is not given back yet");
        }
    }

    fn try_to_answer(&self, demands: &[Demand]) -> Result<(), Error> {
        let _alone = self.lending.lock();
        let last = |of: fn(&Demand) -> u64| demands.iter().map(of).max().unwrap_or_default();
        let answers = Answers {
            number: last(|demand| demand.number),
            loan: last(|demand| demand.loan),
        };
        let since = self.clock.elapsed().saturating_sub(REST_SEEN);
        let returns =
            |demand: &&Demand| demand.need == Need::Return || self.held.rests(demand.directory, since);
        let directories = demands.iter().filter(returns).map(|demand| demand.directory);
        let directories: BTreeSet<Ino> = directories.collect();
        if directories.is_empty() {
            self.show(answers)
        } else {
            self.give_back(directories, answers)
        }
    }

    /// Says that this session is there, and how long it may go on by itself; gives back what rests.
    pub(super) fn keep_up(&self) -> Result<(), Error> {
        let since = self.clock.elapsed().checked_sub(REST_MAX);
        let resting = since.map_or(Vec::new(), |since| self.held.resting(since));
        if !resting.is_empty() {
            let demand = |directory| Demand {
                number: 0,
                directory,
                loan: 0,
                need: Need::Return,
            };
            self.demand(resting.into_iter().map(demand).collect());
        }
        self.prolong_by(&*self.owner)
    }

    /// Has something given back, by the thread that does so.
    pub(super) fn demand(&self, demands: Vec<Demand>) {
        let sender = self.demands.lock();
        if let Some(sender) = sender.as_ref() {
            // Without a thread there is nothing to be given back any more.
            let _ = sender.send(demands);
        }
    }

    /// Waits until this session may rely on what is lent to it.
    pub(super) fn may_go_on(&self) -> Result<(), Error> {
        self.check()?;
        for _ in 0..PROLONGS_MAX {
            if self.clock.elapsed() < *self.lease.lock() {
                return Ok(());
            }
            wait::before_waiting()?;
            self.ask(Callers::MayLeave, |owner| self.prolong_by(owner))?;
        }
        Err(Failure::DidNotHappen("the owner of the drive answers too late".into()).into())
    }

    fn prolong_by(&self, owner: &dyn tenure_wire::Owner<tenure_core::Branch>) -> Result<(), Error> {
        let sent = self.clock.elapsed();
        let age = owner.prolong(self.who)?;
        let until = sent + self.opened.session_ttl.saturating_sub(age);
        let mut lease = self.lease.lock();
        *lease = until.max(*lease);
        Ok(())
    }
}

/// Returns the inodes that a deed names.
fn named(deed: &Deed) -> [Option<Ino>; 2] {
    use tenure_model::Op;
    match deed {
        Deed::Write { ino, .. } => [Some(*ino), None],
        Deed::Op(op) => match op {
            Op::Create { parent, .. }
            | Op::CreateUnnamed { parent, .. }
            | Op::Unlink { parent, .. }
            | Op::Rmdir { parent, .. } => [Some(*parent), None],
            Op::Link { ino, parent, .. } => [Some(*ino), Some(*parent)],
            Op::Rename { from, to, .. } | Op::Copy { from, to, .. } => [Some(*from), Some(*to)],
            Op::SetAttr { ino, .. }
            | Op::Write { ino, .. }
            | Op::Punch { ino, .. }
            | Op::Collapse { ino, .. }
            | Op::Insert { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::Drop { ino } => [Some(*ino), None],
        },
    }
}
