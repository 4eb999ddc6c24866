//! Cover: which directories of a shared branch are lent to whom, and which inodes come with them.
//!
//! A directory that is lent covers its own record, its entries, present and absent, and each inode in it that is no directory
//! and has no entry elsewhere. Owner and client keep it in step by the ops of the client. Invariant: what is covered is covered
//! by one directory, and a directory is lent to one session.

use crate::touched::{Fate, Subject, Touched};
use std::collections::{BTreeMap, BTreeSet};
use tenure_model::{Ino, SessionId};

/// What of a branch is lent.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    directories: BTreeMap<Ino, Held>,
    /// Covered inodes that are no directories, and the directory that each is covered by.
    homes: BTreeMap<Ino, Ino>,
}

#[derive(Clone, Debug)]
struct Held {
    by: SessionId,
    /// Number of the loan; 0 of a directory that its holder has made.
    loan: u64,
    inodes: BTreeSet<Ino>,
    /// Whether it was removed, and is there only for inodes without an entry.
    is_removed: bool,
}

/// What is lent, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The directory.
    pub directory: Ino,
    /// The session.
    pub by: SessionId,
}

/// Changes of a cover that are not made yet.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    homes: BTreeMap<Ino, Ino>,
    made: BTreeSet<Ino>,
    /// Directories that are removed, also some of those that were made.
    removed: BTreeSet<Ino>,
}

impl Cover {
    /// Tells whether nothing is lent.
    pub fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// Returns what covers an inode.
    pub fn over(&self, ino: Ino) -> Option<Lent> {
        let directory = self.home(ino)?;
        let by = self.directories.get(&directory)?.by;
        Some(Lent { directory, by })
    }

    /// Returns the directory by which an inode is covered; its own of a directory.
    pub fn home(&self, ino: Ino) -> Option<Ino> {
        if self.directories.get(&ino).is_some_and(|held| !held.is_removed) {
            return Some(ino);
        }
        self.homes.get(&ino).copied()
    }

    /// Returns the directories that are lent to a session.
    pub fn of(&self, session: SessionId) -> impl Iterator<Item = Ino> + '_ {
        let theirs = self
            .directories
            .iter()
            .filter(move |(_, held)| held.by == session);
        theirs.map(|(directory, _)| *directory)
    }

    /// Returns the number of the loan of a directory; 0 where its holder has made it, or nobody has it.
    pub fn loan(&self, directory: Ino) -> u64 {
        self.directories.get(&directory).map_or(0, |held| held.loan)
    }

    /// Returns the sessions to which something is lent.
    pub fn sessions(&self) -> BTreeSet<SessionId> {
        self.directories.values().map(|held| held.by).collect()
    }

    /// Returns the inodes that a directory covers besides itself.
    pub fn inodes(&self, directory: Ino) -> impl Iterator<Item = Ino> + '_ {
        let held = self.directories.get(&directory);
        held.into_iter().flat_map(|held| held.inodes.iter().copied())
    }

    /// Lends a directory with inodes in it.
    pub fn lend(&mut self, Lent { directory, by }: Lent, loan: u64, inodes: impl IntoIterator<Item = Ino>) {
        self.take_back(directory);
        let inodes: BTreeSet<Ino> = inodes.into_iter().collect();
        self.homes.extend(inodes.iter().map(|ino| (*ino, directory)));
        let is_removed = false;
        self.directories.insert(
            directory,
            Held {
                by,
                loan,
                inodes,
                is_removed,
            },
        );
    }

    /// Takes a directory back; returns the inodes that it covered.
    pub fn take_back(&mut self, directory: Ino) -> BTreeSet<Ino> {
        let Some(held) = self.directories.remove(&directory) else {
            return BTreeSet::new();
        };
        for ino in &held.inodes {
            self.homes.remove(ino);
        }
        held.inodes
    }

    /// Tells whether a directory is lent to a session, and was with a loan up to this one.
    pub fn is_lent(&self, Lent { directory, by }: Lent, up_to: u64) -> bool {
        let held = self.directories.get(&directory);
        held.is_some_and(|held| held.by == by && held.loan <= up_to)
    }

    /// Covers an inode no longer that is no directory.
    pub fn uncover(&mut self, ino: Ino) {
        let Some(directory) = self.homes.remove(&ino) else {
            return;
        };
        let Some(held) = self.directories.get_mut(&directory) else {
            return;
        };
        held.inodes.remove(&ino);
        if held.is_removed && held.inodes.is_empty() {
            self.directories.remove(&directory);
        }
    }

    /// Tells whether an op touches only what is lent to a session, and plans what it makes of the cover.
    pub fn plan(&self, by: SessionId, touched: &Touched, plan: &mut Plan) -> bool {
        let has = |directory| self.has(by, plan, directory);
        let is_lent = !touched.is_above
            && touched.directories().all(has)
            && touched.inodes().all(|inode| self.has_inode(by, plan, &inode));
        if !is_lent {
            return false;
        }
        for inode in touched.inodes() {
            match inode.fate {
                Fate::Goes(to) | Fate::Gains(to) if !inode.is_directory => {
                    plan.homes.insert(inode.ino, to);
                }
                Fate::Ends if inode.is_directory => {
                    plan.removed.insert(inode.ino);
                }
                Fate::Stays | Fate::Loses | Fate::Ends | Fate::Goes(_) | Fate::Gains(_) => {}
            }
        }
        if let Some(made) = touched.made {
            if made.is_directory {
                plan.made.insert(made.ino);
            } else {
                plan.homes.insert(made.ino, made.parent);
            }
        }
        true
    }

    /// Makes what was planned.
    pub fn make(&mut self, by: SessionId, plan: Plan) {
        for directory in plan.made {
            self.lend(Lent { directory, by }, 0, []);
        }
        for (ino, home) in plan.homes {
            self.uncover(ino);
            if let Some(held) = self.directories.get_mut(&home) {
                held.inodes.insert(ino);
                self.homes.insert(ino, home);
            }
        }
        for directory in plan.removed {
            if self.inodes(directory).next().is_none() {
                self.directories.remove(&directory);
            } else if let Some(held) = self.directories.get_mut(&directory) {
                held.is_removed = true;
            }
        }
    }

    fn has(&self, by: SessionId, plan: &Plan, directory: Ino) -> bool {
        let is_lent = |held: &Held| held.by == by && !held.is_removed;
        let is_there =
            plan.made.contains(&directory) || self.directories.get(&directory).is_some_and(is_lent);
        is_there && !plan.removed.contains(&directory)
    }

    fn has_inode(&self, by: SessionId, plan: &Plan, inode: &Subject) -> bool {
        if inode.is_directory {
            return self.has(by, plan, inode.ino);
        }
        let home = plan.homes.get(&inode.ino).or_else(|| self.homes.get(&inode.ino));
        let Some(home) = home.copied() else { return false };
        // A directory that was removed still covers what has no entry any more.
        let covers =
            plan.made.contains(&home) || self.directories.get(&home).is_some_and(|held| held.by == by);
        covers
            && match inode.fate {
                Fate::Stays | Fate::Loses | Fate::Ends => true,
                Fate::Goes(to) => to == home || inode.links == 1,
                Fate::Gains(to) => to == home || inode.links == 0,
            }
    }
}
