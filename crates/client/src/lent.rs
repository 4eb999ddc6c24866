//! What is lent to a session that shares a branch: what its copy of the branch may be asked about, and what it changes by itself.
//!
//! Invariant: nothing is read of the copy but what is covered, and nothing changed but what is covered and not being given back.

use crate::branch::{Branch, Inner, State};
use crate::kept::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::tree::Memory;
use tenure_core::{Cover, Fate, Plan, Totals, Touched, Tree, Undecided};
use tenure_model::{Batch, Digest, Failure, Ino, Name, Op, Refusal, SessionId};
use tenure_wire::Error;
use tenure_wire::owner::Shared;
use tenure_wire::shared::{Claim, Loan};

/// What is lent to this session.
pub(crate) struct Lent {
    session: SessionId,
    cover: Cover,
    /// Directories that are being given back.
    closing: BTreeSet<Ino>,
    /// Directories that were removed here; the owner may not have heard so.
    removed: BTreeSet<Ino>,
    /// When something was changed last in a directory.
    changed: BTreeMap<Ino, Duration>,
    entries: Entries,
    /// Counts how often anything was lent or given back.
    turns: u64,
    /// The last loan.
    loan: u64,
    /// Which state of the branch the copy is.
    copy: Option<u64>,
}

/// Entries of directories that are lent, where what they stand in is not: whoever changes one touches what it names, and needs that
/// given back first. So each is known for as long as what it names is lent.
#[derive(Default)]
struct Entries {
    named: BTreeMap<(Ino, Name), Ino>,
    places: BTreeMap<Ino, (Ino, Name)>,
}

impl Entries {
    fn note(&mut self, place: (Ino, Name), directory: Ino) {
        self.forget(directory);
        if let Some(before) = self.named.insert(place.clone(), directory) {
            self.places.remove(&before);
        }
        self.places.insert(directory, place);
    }

    fn forget(&mut self, directory: Ino) {
        if let Some(place) = self.places.remove(&directory) {
            self.named.remove(&place);
        }
    }
}

/// An op that may be decided here.
pub(crate) struct Admitted {
    touched: Touched,
    plan: Plan,
}

/// What has become of directories that are given back.
pub(crate) struct Released {
    /// The last loan.
    pub(crate) loan: u64,
    /// The inodes that they covered.
    pub(crate) inodes: BTreeSet<Ino>,
}

fn elsewhere() -> Refusal {
    Refusal::Elsewhere { asked: 0 }
}

impl Lent {
    pub(crate) fn nothing(session: SessionId) -> Self {
        Self {
            session,
            cover: Cover::default(),
            closing: BTreeSet::new(),
            removed: BTreeSet::new(),
            changed: BTreeMap::new(),
            entries: Entries::default(),
            turns: 0,
            loan: 0,
            copy: None,
        }
    }

    /// Returns what an op is here, or refuses what the owner must decide.
    pub(crate) fn admit(&self, branch: &tenure_core::Branch, op: &Op) -> Result<Admitted, Undecided> {
        let (touched, mut plan) = (branch.touched(op)?, Plan::default());
        // What is settled was accepted before: it goes with what is shipped before anything is given back.
        let is_settled = matches!(op, Op::Write { .. });
        let is_closing = !is_settled && self.homes(&touched).any(|home| self.closing.contains(&home));
        if is_closing || !self.cover.plan(self.session, &touched, &mut plan) {
            return Err(elsewhere().into());
        }
        Ok(Admitted { touched, plan })
    }

    /// Notes an op that was decided here.
    pub(crate) fn note(&mut self, Admitted { touched, plan }: Admitted, now: Duration) {
        let homes: Vec<Ino> = self.homes(&touched).collect();
        self.changed.extend(homes.into_iter().map(|home| (home, now)));
        let directories = touched.inodes().filter(|inode| inode.is_directory);
        directories.for_each(|inode| self.entries.forget(inode.ino));
        let ended = touched.inodes().filter(|inode| inode.fate == Fate::Ends);
        self.removed
            .extend(ended.filter(|inode| inode.is_directory).map(|inode| inode.ino));
        self.cover.make(self.session, plan);
    }

    /// Refuses bytes for a file to which the owner must write; notes that something is changed.
    pub(crate) fn write(&mut self, ino: Ino, now: Duration) -> Result<(), Refusal> {
        let home = self.cover.home(ino).filter(|home| !self.closing.contains(home));
        self.changed.insert(home.ok_or(elsewhere())?, now);
        Ok(())
    }

    fn is_known_since(&self, directory: Ino, turns: u64) -> bool {
        self.turns == turns && self.cover.home(directory) == Some(directory)
    }

    fn homes<'a>(&'a self, touched: &'a Touched) -> impl Iterator<Item = Ino> + 'a {
        let inodes = touched.inodes().filter_map(|inode| self.cover.home(inode.ino));
        touched.directories().chain(inodes)
    }
}

impl State {
    fn lent(&self) -> &Lent {
        self.lent.as_ref().expect("it is a branch that is shared")
    }

    fn lent_mut(&mut self) -> &mut Lent {
        self.lent.as_mut().expect("it is a branch that is shared")
    }
}

impl Branch {
    /// Tells whether nothing is lent.
    pub(crate) fn has_nothing(&self) -> bool {
        self.inner.state.read().lent().cover.is_empty()
    }

    /// Tells whether questions about an inode are answered here.
    pub(crate) fn covers(&self, ino: Ino) -> bool {
        self.home(ino).is_some()
    }

    /// Returns the directory by which an inode is covered.
    pub(crate) fn home(&self, ino: Ino) -> Option<Ino> {
        self.inner.state.read().lent().cover.home(ino)
    }

    /// Tells whether a directory is lent, and not being given back.
    pub(crate) fn holds(&self, directory: Ino) -> bool {
        let state = self.inner.state.read();
        let lent = state.lent();
        lent.cover.home(directory) == Some(directory) && !lent.closing.contains(&directory)
    }

    /// Returns what a name stands for, if that is a directory that is lent and was found there since.
    pub(crate) fn known(&self, parent: Ino, name: &Name) -> Option<Ino> {
        let state = self.inner.state.read();
        let entries = &state.lent().entries.named;
        (!entries.is_empty()).then(|| entries.get(&(parent, name.clone())).copied())?
    }

    /// Returns how often anything was lent or given back so far.
    pub(crate) fn turns(&self) -> u64 {
        self.inner.state.read().lent().turns
    }

    /// Notes where the owner has found an inode, if it is a directory that is lent and was when the owner was asked: nothing was lent or
    /// given back since.
    pub(crate) fn note_known(&self, (parent, name): (Ino, &Name), ino: Ino, turns: u64) {
        let is_lent = {
            let state = self.inner.state.read();
            state.lent().is_known_since(ino, turns)
        };
        if is_lent {
            let mut state = self.inner.state.write();
            let lent = state.lent_mut();
            if lent.is_known_since(ino, turns) {
                lent.entries.note((parent, name.clone()), ino);
            }
        }
    }

    /// Tells whether nothing was changed in a directory since a moment.
    pub(crate) fn rests(&self, directory: Ino, since: Duration) -> bool {
        let state = self.inner.state.read();
        state
            .lent()
            .changed
            .get(&directory)
            .is_none_or(|changed| *changed < since)
    }

    /// Returns the directories in which nothing was changed since a moment.
    pub(crate) fn resting(&self, since: Duration) -> Vec<Ino> {
        let state = self.inner.state.read();
        let lent = state.lent();
        let rests = |directory: &Ino| {
            let changed = lent.changed.get(directory);
            changed.is_none_or(|changed| *changed < since)
        };
        lent.cover.of(lent.session).filter(rests).collect()
    }

    /// Returns which state of the branch the copy is.
    pub(crate) fn copied(&self) -> Option<u64> {
        self.inner.state.read().lent().copy
    }

    /// Takes what was lent. Where a copy comes with it, nothing is unshipped, and nothing changes meanwhile.
    pub(crate) fn take_up(&self, loan: Loan<tenure_core::Branch>) -> Result<(), Error> {
        let inner = &self.inner;
        let is_first = self.copied().is_none();
        let copy = match loan.copy {
            Some((version, state)) => Some((version, inner.branch_of(state)?)),
            None => None,
        };
        if is_first && copy.is_none() {
            return Err(Failure::Unknown("the owner has lent something without a copy".into()).into());
        }
        if is_first {
            inner.begin_chain(loan.behind.1);
        }
        let now = inner.clock.elapsed();
        let mut state = inner.state.write();
        if let Some((version, branch)) = copy {
            assert!(
                state.log.is_empty() && state.cuts.is_empty() && state.stage.bytes() == 0,
                "all was shipped before a copy is taken"
            );
            state.branch = branch;
            state.lent_mut().copy = Some(version);
        }
        let lent = state.lent_mut();
        lent.loan = lent.loan.max(loan.number);
        lent.turns += 1;
        for part in loan.parts {
            let directory = part.directory;
            let to = tenure_core::Lent {
                directory,
                by: lent.session,
            };
            lent.cover.lend(to, loan.number, part.inodes);
            lent.changed.insert(directory, now);
        }
        Ok(())
    }

    /// Lets nothing more be changed in directories, or again.
    pub(crate) fn close_directories(&self, directories: &BTreeSet<Ino>, closes: Closes) {
        let mut state = self.inner.state.write();
        let closing = &mut state.lent_mut().closing;
        match closes {
            Closes::Now => closing.extend(directories),
            Closes::NoMore => closing.retain(|directory| !directories.contains(directory)),
        }
    }

    /// Has directories no longer.
    pub(crate) fn release(&self, directories: &BTreeSet<Ino>) -> Released {
        let mut state = self.inner.state.write();
        let lent = state.lent_mut();
        let mut inodes = BTreeSet::new();
        lent.turns += 1;
        for directory in directories {
            lent.entries.forget(*directory);
            inodes.extend(lent.cover.take_back(*directory));
            lent.closing.remove(directory);
            lent.changed.remove(directory);
        }
        Released {
            loan: lent.loan,
            inodes,
        }
    }

    /// Has an inode without an entry no longer.
    pub(crate) fn uncover(&self, ino: Ino) {
        self.inner.state.write().lent_mut().cover.uncover(ino);
    }

    /// Returns what is lent, as the owner knows it at most: also what was removed here.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let state = self.inner.state.read();
        let lent = state.lent();
        let directories: BTreeSet<Ino> = lent
            .cover
            .of(lent.session)
            .chain(lent.removed.iter().copied())
            .collect();
        let claim = |directory| Claim {
            directory,
            orphans: lent
                .cover
                .inodes(directory)
                .filter(|ino| state.is_orphan(*ino))
                .collect(),
        };
        directories.into_iter().map(claim).collect()
    }

    /// Returns what was done here that may be lost with an owner.
    pub(crate) fn kept(&self) -> Vec<Batch> {
        let kept = self.inner.kept.as_ref();
        kept.map(|kept| kept.all(self.inner.retained.as_ref()))
            .unwrap_or_default()
    }

    /// Forgets directories that were removed here, once the owner has heard so.
    pub(crate) fn forget_removed(&self) {
        let removed = self.inner.state.read().lent().removed.clone();
        if !removed.is_empty() && self.inner.is_clean() {
            let mut state = self.inner.state.write();
            let lent = state.lent_mut();
            lent.removed.retain(|directory| !removed.contains(directory));
            lent.changed.retain(|directory, _| !removed.contains(directory));
        }
    }
}

/// Whether directories are being given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closes {
    /// They are.
    Now,
    /// They are not.
    NoMore,
}

impl State {
    /// Tells whether an inode that was changed here has no entry: its page is in memory then.
    fn is_orphan(&self, ino: Ino) -> bool {
        let attr = self.branch.attr(ino).ok().flatten();
        attr.is_some_and(|attr| attr.nlink == 0)
    }
}

impl Inner {
    /// Returns the branch as it has come.
    pub(crate) fn branch_of(&self, state: Shared<tenure_core::Branch>) -> Result<tenure_core::Branch, Error> {
        match state {
            Shared::Here(branch) => Ok(branch),
            Shared::Stored { root, inodes, bytes } => {
                let tree = Tree::stored(root, &Memory::new());
                Ok(tenure_core::Branch::stored(
                    self.hash_key,
                    tree,
                    Totals { inodes, bytes },
                ))
            }
            Shared::Kept => {
                Err(Failure::Unknown("the owner has lent something without its state".into()).into())
            }
        }
    }

    /// Begins to ship behind what the owner names.
    fn begin_chain(&self, start: Digest) {
        self.shipping.lock().begin_behind(start);
    }

    /// Tells whether the owner has all that was done here, durably.
    pub(crate) fn is_clean(&self) -> bool {
        self.is_shown() && self.kept.as_ref().is_none_or(Kept::is_empty)
    }

    /// Tells whether the owner has all that was done here.
    pub(crate) fn is_shown(&self) -> bool {
        let Some(shipping) = self.shipping.try_lock() else {
            return false;
        };
        let state = self.state.read();
        shipping.has_all() && state.has_shipped()
    }
}
