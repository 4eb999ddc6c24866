//! The branches of a scenario, where their pages are, and who holds which inode.

use super::command;
use super::notation;
use super::trace::{View, changes};
use crate::merge::merged;
use crate::stored::{KEY, Pages, ROOT};
use crate::visible::see;
use std::collections::BTreeMap;
use tenure_core::{Branch, Conflicts, NameHash, Outcome, Terms};
use tenure_model::{Ino, Name, Op, Refusal, Timestamp};

/// Where pages are before each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Residence {
    Memory,
    /// None is in memory.
    Nowhere,
    /// None is in memory, and there is one for each record.
    Sparse,
}

/// What commands act on.
pub(super) struct World {
    residence: Residence,
    names: NameHash,
    pub(super) pages: Pages,
    branches: BTreeMap<String, Branch>,
    pub(super) on: String,
    pub(super) held: BTreeMap<String, Ino>,
    /// What two branches last had in common.
    bases: BTreeMap<(String, String), Branch>,
    next: Ino,
    time: i64,
}

/// What a command answers: lines, or why not.
pub(super) type Answer = Result<Vec<String>, Refusal>;

impl World {
    pub(super) fn new(residence: Residence) -> Self {
        World {
            residence,
            names: NameHash::from(KEY),
            pages: Pages::default(),
            branches: BTreeMap::from([("main".to_owned(), Branch::new(KEY, ROOT))]),
            on: "main".to_owned(),
            held: BTreeMap::new(),
            bases: BTreeMap::new(),
            next: Ino(16),
            time: 0,
        }
    }

    /// Runs a command and returns its trace.
    pub(super) fn run(&mut self, text: &str) -> String {
        self.time += 1;
        self.reside();
        let before = self.view();
        let answer = command::run(self, text);
        self.pages.check(self.branch());
        let after = self.view();
        let said = match &answer {
            Ok(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
            Err(refusal) => format!("{}\n", notation::error(refusal)),
        };
        let switches = text.starts_with("on ");
        let changed = if switches {
            String::new()
        } else {
            changes(&before, &after)
        };
        assert!(
            answer.is_ok() || changed.is_empty(),
            "{text}: what is refused changes nothing"
        );
        said + &changed
    }

    fn reside(&mut self) {
        let branch = self.branches.get_mut(&self.on).expect("the branch is there");
        match self.residence {
            Residence::Memory => {}
            Residence::Nowhere => *branch = self.pages.cold(branch, self.names),
            Residence::Sparse => *branch = self.pages.sparse(branch, self.names),
        }
    }

    /// Lets names collide from now on: all of them, if `bits` is 0. The branch must still be empty.
    pub(super) fn collide(&mut self, bits: u32) {
        self.names = NameHash::colliding(KEY, bits);
        assert_eq!(
            self.branch().totals().inodes,
            1,
            "names are hashed differently from now on"
        );
        let on = self.on.clone();
        self.branches.insert(on, Branch::new(self.names, ROOT));
    }

    pub(super) fn branch(&self) -> &Branch {
        &self.branches[&self.on]
    }

    pub(super) fn fork(&mut self, name: &str) {
        let fork = self.branch().clone();
        self.note_base(name, &fork);
        self.branches.insert(name.to_owned(), fork);
    }

    fn note_base(&mut self, name: &str, base: &Branch) {
        let (one, other) = (self.on.clone(), name.to_owned());
        self.bases.insert((one.clone(), other.clone()), base.clone());
        self.bases.insert((other, one), base.clone());
    }

    /// Merges a branch into this one; contents that differ become `text`, if there is any. Says what has become of each file.
    pub(super) fn merge(&mut self, from: &str, text: Option<&str>) -> Vec<String> {
        let base = self.bases[&(self.on.clone(), from.to_owned())].clone();
        let theirs = self.branches[from].clone();
        let (base, theirs) = match self.residence {
            Residence::Memory => (base, theirs),
            Residence::Nowhere => (
                self.pages.cold(&base, self.names),
                self.pages.cold(&theirs, self.names),
            ),
            Residence::Sparse => (
                self.pages.sparse(&base, self.names),
                self.pages.sparse(&theirs, self.names),
            ),
        };
        let terms = Terms {
            from: from.to_owned(),
            next: self.next,
            time: self.time(),
        };
        let merged = merged(&self.pages, (&base, self.branch(), &theirs), terms, text);
        self.next = Ino(self.next.0 + merged.inos);
        self.note_base(from, &self.branches[from].clone());
        let on = self.on.clone();
        self.branches.insert(on, merged.branch);
        merged.files.iter().map(notation::outcome).collect()
    }

    pub(super) fn conflicts(&self) -> Vec<String> {
        let mut conflicts = Conflicts::new(self.branch().clone(), Ino(0));
        self.pages.answer(|| conflicts.go_on());
        conflicts.answer().0.iter().map(notation::conflict).collect()
    }

    pub(super) fn view(&self) -> View {
        View::new(see(&self.pages, self.branch()), &self.held)
    }

    pub(super) fn time(&self) -> Timestamp {
        Timestamp {
            secs: self.time,
            nanos: 0,
        }
    }

    /// Returns a number for a new inode. A refused command leaves a gap, as a client's does.
    pub(super) fn begin(&mut self) -> Ino {
        let ino = self.next;
        self.next = ino.next();
        ino
    }

    pub(super) fn change(&mut self, op: &Op) -> Result<Outcome, Refusal> {
        let branch = self.branches.get_mut(&self.on).expect("the branch is there");
        self.pages.change(branch, op)
    }

    pub(super) fn ino(&self, path: &str) -> Result<Ino, Refusal> {
        if let Some(held) = path.strip_prefix('@') {
            return Ok(self.held[held]);
        }
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(Ino::ROOT, |parent, name| {
            let name = notation::name(name)?;
            self.pages.ask(|| self.branch().lookup(parent, &name))
        })
    }

    /// Returns the directory and the name that a path ends in.
    pub(super) fn place(&self, path: &str) -> Result<(Ino, Name), Refusal> {
        let (parent, name) = path.rsplit_once('/').expect("a place is a path");
        Ok((self.ino(parent)?, notation::name(name)?))
    }
}
