//! A restore: what is at a path of a branch becomes what it was in another state, and nothing else changes.
//!
//! It makes ops, so their rules hold, and reads both states without touching them: contents are shared, and whatever is as it was has no
//! op. An inode that is at the path in both stays the same one; what both have by several names is followed by all of them. It goes on
//! where it stood after a page was [`Missing`]. Invariant: what lies elsewhere stays as it is, but for a file that has one name
//! there and another at the path in both states, which is one file.

mod compare;
mod make;

use crate::branch::{Branch, Undecided};
use crate::diff::is_below;
use crate::diff::view::View;
use crate::tree::Missing;
use compare::{Listing, Task};
use std::collections::{BTreeMap, BTreeSet};
use tenure_model::attr::Xattrs;
use tenure_model::{Ino, Name, Op, Refusal, Timestamp};

/// What there is of a path to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The state has something there.
    There,
    /// It has nothing there.
    Nowhere,
    /// It has, but the branch has something at this path that is no directory.
    Blocked(Box<[u8]>),
}

/// A restore that is under way.
pub struct Restore {
    now: View,
    then: View,
    path: Box<[u8]>,
    /// The first inode number that nobody uses, and how many were taken.
    next: Ino,
    taken: u64,
    time: Timestamp,
    tasks: Vec<Task>,
    /// The directories that are listed now, of each state.
    listed: [Listing; 2],
    /// Names that the result has, each behind that of its directory.
    puts: Vec<Put>,
    /// What directories of the state are in the result.
    directories: BTreeMap<Ino, Directory>,
    /// Inodes whose names decide what becomes of them.
    unsure: BTreeSet<Ino>,
    /// What goes: entries, and of each inode how many.
    unlinks: Vec<Op>,
    rmdirs: Vec<Op>,
    removed: BTreeMap<Ino, u32>,
    /// Files of the state that have their number in the result, and those that go on and have become what they were.
    numbers: BTreeMap<Ino, Ino>,
    kept: BTreeSet<Ino>,
    /// Directories of the result in which names are made or removed.
    touched: BTreeSet<Ino>,
    /// How many of the names were made, and how many directories got what is said of them, the last first.
    made: usize,
    finished: usize,
    ops: Vec<Op>,
}

/// A name that the result has.
struct Put {
    /// The directory, by its number in the state that is restored.
    directory: Ino,
    name: Name,
    /// What it names, by its number there.
    ino: Ino,
    is_directory: bool,
    fate: Fate,
}

/// What becomes of what is at a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The branch has the inode there, which goes on.
    Kept,
    /// It has, and goes on with it if its other names allow that.
    Unsure,
    /// It is made.
    Made,
}

/// A directory of the result.
#[derive(Clone, Copy)]
struct Directory {
    number: Ino,
    /// Whether what is made in it begins with access control lists.
    gives_acl: bool,
}

impl Restore {
    /// Begins: what `now` has at `path` is to be what `then` has there. What has no number that it can keep gets one from `next` on.
    pub fn new(now: Branch, then: Branch, path: &[u8], next: Ino, time: Timestamp) -> Self {
        Self {
            now: View::new(now),
            then: View::new(then),
            path: path.into(),
            next,
            taken: 0,
            time,
            tasks: Vec::new(),
            listed: [Listing::default(), Listing::default()],
            puts: Vec::new(),
            directories: BTreeMap::new(),
            unsure: BTreeSet::new(),
            unlinks: Vec::new(),
            rmdirs: Vec::new(),
            removed: BTreeMap::new(),
            numbers: BTreeMap::new(),
            kept: BTreeSet::new(),
            touched: BTreeSet::new(),
            made: 0,
            finished: 0,
            ops: Vec::new(),
        }
    }

    /// Looks for the path in both states. Directories above it that the branch lacks are made as they were.
    pub fn find(&mut self) -> Result<Source, Undecided> {
        let mut names = Vec::new();
        for name in self.path.split(|byte| *byte == b'/') {
            names.push(Name::parse(name)?);
        }
        let last = names.pop().ok_or(Refusal::InvalidName)?;
        let (mut puts, mut directories) = (Vec::new(), BTreeMap::new());
        let (mut there, mut here) = (Ino::ROOT, Some(Ino::ROOT));
        directories.insert(there, self.directory(Ino::ROOT)?);
        for (at, name) in names.iter().enumerate() {
            let above = there;
            let Some(found) = lookup(&self.then.branch, above, name)? else {
                return Ok(Source::Nowhere);
            };
            if !self.then.attr(found)?.is_some_and(|attr| attr.is_directory()) {
                return Ok(Source::Nowhere);
            }
            there = found;
            here = match here {
                Some(directory) => lookup(&self.now.branch, directory, name)?,
                None => None,
            };
            match here {
                Some(ino) if self.now.attr(ino)?.is_some_and(|attr| attr.is_directory()) => {
                    directories.insert(there, self.directory(ino)?);
                }
                Some(_) => {
                    let way: Vec<_> = names[..=at].iter().map(Name::as_bytes).collect();
                    return Ok(Source::Blocked(way.join(&b'/').into()));
                }
                None => puts.push(Put {
                    directory: above,
                    name: name.clone(),
                    ino: there,
                    is_directory: true,
                    fate: Fate::Made,
                }),
            }
        }
        let Some(ino) = lookup(&self.then.branch, there, &last)? else {
            return Ok(Source::Nowhere);
        };
        let now = match here {
            Some(directory) => lookup(&self.now.branch, directory, &last)?.map(|ino| (directory, ino)),
            None => None,
        };
        self.puts = puts;
        self.directories = directories;
        self.tasks = vec![Task::Entry {
            directory: there,
            name: last,
            now,
            then: ino,
        }];
        Ok(Source::There)
    }

    /// Finds the ops, once the path was found.
    pub fn go_on(&mut self) -> Result<(), Missing> {
        while let Some(task) = self.tasks.pop() {
            if let Err(missing) = self.look_at(&task) {
                self.tasks.push(task);
                return Err(missing);
            }
        }
        self.judge_unsure()?;
        self.make_all()
    }

    /// Returns the ops, in order, and how many inode numbers they use.
    pub fn answer(self) -> (Vec<Op>, u64) {
        let gone: Vec<Ino> = self
            .removed
            .keys()
            .copied()
            .filter(|ino| self.goes(*ino))
            .collect();
        let mut ops = self.unlinks;
        ops.extend(self.rmdirs.into_iter().rev());
        // Only what has lost its last name is dropped, so that its number is free.
        ops.extend(gone.into_iter().map(|ino| Op::Drop { ino }));
        ops.extend(self.ops);
        (ops, self.taken)
    }

    /// Returns a directory of the branch that stays.
    fn directory(&self, number: Ino) -> Result<Directory, Missing> {
        let attr = self.now.attr(number)?;
        Ok(Directory {
            number,
            gives_acl: attr.is_some_and(|attr| attr.xattrs.has(Xattrs::DEFAULT_ACL)),
        })
    }

    /// Tells whether an inode of the branch goes, with all its names.
    fn goes(&self, ino: Ino) -> bool {
        let attr = self.now.attrs.get(&ino).copied().flatten();
        attr.zip(self.removed.get(&ino))
            .is_some_and(|(attr, count)| attr.is_directory() || attr.nlink == *count)
    }

    /// Decides what becomes of files whose other names decide it.
    fn judge_unsure(&mut self) -> Result<(), Missing> {
        for ino in &self.unsure {
            self.now.want(*ino)?;
            self.then.want(*ino)?;
        }
        self.now.find()?;
        self.then.find()?;
        for at in 0..self.puts.len() {
            if self.puts[at].fate == Fate::Unsure {
                self.judge(at);
            }
        }
        Ok(())
    }

    fn judge(&mut self, at: usize) {
        let Put { directory, ino, .. } = self.puts[at];
        let before = self.then.places(ino);
        let mut places = self.now.places(ino).iter();
        let is_one =
            places.all(|place| before.contains(place) || is_below(&self.now.path(place), &self.path));
        if is_one {
            self.puts[at].fate = Fate::Kept;
            self.numbers.insert(ino, ino);
        } else {
            // What it is called elsewhere it was not called then: it stays there, and what it was is made anew.
            self.puts[at].fate = Fate::Made;
            let name = self.puts[at].name.clone();
            let parent = self.directories[&directory].number;
            self.unlink(parent, name, ino);
        }
    }

    fn unlink(&mut self, parent: Ino, name: Name, ino: Ino) {
        let time = self.time;
        self.unlinks.push(Op::Unlink { parent, name, time });
        self.touched.insert(parent);
        *self.removed.entry(ino).or_default() += 1;
    }
}

/// Returns what a name stands for, if it stands for anything.
fn lookup(branch: &Branch, directory: Ino, name: &Name) -> Result<Option<Ino>, Missing> {
    match branch.lookup(directory, name) {
        Ok(ino) => Ok(Some(ino)),
        Err(Undecided::Missing(missing)) => Err(missing),
        Err(Undecided::Refused(_)) => Ok(None),
    }
}
