//! A merge: what two states have become of a third is made one.
//!
//! It begins with `ours` and takes in what `theirs` has changed of `base`, so it costs what they have changed. A file is followed by its inode, and
//! where a program has put a new one in its place, by that place. What only one side has changed is as that has it; what both have changed differently is for
//! drivers where it is content ([`Merge::next_both`]), and else a conflict: ours stays, theirs is kept beside it, and a record in the tree says so.
//!
//! It goes on where it stood after a page was [`Missing`]. Invariant: no file that either side has made or changed is lost, and every invariant
//! of a branch holds of the result.

mod add;
mod draft;
mod end;
mod judge;
mod keep;
mod version;

use crate::branch::Branch;
use crate::diff::view::{Place, View};
use crate::key::{Key, Named};
use crate::tree::Missing;
use add::Add;
use draft::Draft;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, ControlFlow};
use tenure_model::{ConflictKind, FileOutcome, Ino, Name, Piece, Timestamp, What};
use version::Version;

/// How a merge is asked for.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The name of the line that is merged, which what is kept of it beside others has behind its own.
    pub from: String,
    /// The first inode number that nobody uses.
    pub next: Ino,
    /// When.
    pub time: Timestamp,
}

/// A merge that is under way.
pub struct Merge {
    base: View,
    ours: View,
    theirs: View,
    terms: Terms,
    draft: Draft,
    /// Inodes that `theirs` has changed, and how many of them were judged.
    touched: Vec<Ino>,
    compared: Option<Ino>,
    judged: usize,
    /// How many of `Notes::adds` were made, in their order.
    added: Option<usize>,
    notes: Notes,
    /// Conflicts that `theirs` has made or settled: their records before and after.
    settled: Option<Vec<end::Row>>,
}

/// What is to be done yet, and what was noted.
#[derive(Default)]
struct Notes {
    adds: Vec<(usize, Add)>,
    /// Directories that `theirs` has removed.
    removed: Vec<Ino>,
    /// Inodes that have lost an entry.
    unlinked: BTreeSet<Ino>,
    /// Where `theirs` has another inode than the merge.
    alias: BTreeMap<Ino, Ino>,
    /// Where inodes are that the merge has put somewhere.
    placed: BTreeMap<Ino, (Ino, Name)>,
    late: VecDeque<Late>,
    told: Vec<FileOutcome>,
    used: u64,
    conflicts: u64,
}

/// A file of which both versions are kept, or made one, once everything has its place.
struct Late {
    base: Option<Ino>,
    /// The inode in the merge.
    ours: Ino,
    theirs: Version,
    kind: ConflictKind,
    /// Whether a driver may make one content of both.
    is_for_driver: bool,
    /// Whether what is said of it besides fits together.
    fits: bool,
}

/// A file that both sides have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Both {
    /// Where it is.
    pub path: Box<[u8]>,
    /// Its inode in the base; none where both have made it.
    pub base: Option<Ino>,
    /// Its inode in `ours`.
    pub ours: Ino,
    /// Its inode in `theirs`.
    pub theirs: Ino,
}

/// What a driver has made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// One content.
    Merged {
        /// The driver.
        driver: String,
        /// The content, in rising order.
        pieces: Vec<Piece>,
        /// Its length.
        size: u64,
    },
    /// Nothing: both are kept.
    Conflict,
}

/// What a merge has made.
pub struct Merged {
    /// What the branch becomes.
    pub branch: Branch,
    /// What has become of each file that `theirs` has changed.
    pub files: Vec<FileOutcome>,
    /// How many inode numbers it has used.
    pub inos: u64,
    /// How many conflicts it has made.
    pub conflicts: u64,
}

impl Merge {
    /// Begins a merge of what `theirs` has become of `base` into `ours`.
    pub fn new(base: Branch, ours: Branch, theirs: Branch, terms: Terms) -> Self {
        Self {
            base: View::new(base),
            draft: Draft::of(ours.clone()),
            ours: View::new(ours),
            theirs: View::new(theirs),
            terms,
            touched: Vec::new(),
            compared: Some(Ino(0)),
            judged: 0,
            added: None,
            notes: Notes::default(),
            settled: None,
        }
    }

    /// Returns how many inodes `theirs` has changed, as far as is known.
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Finds which inodes `theirs` has changed, at most `most` of them and one more.
    pub fn compare(&mut self, most: usize) -> Result<(), Missing> {
        while let Some(compared) = self.compared.filter(|_| self.touched.len() <= most) {
            let mut next = None;
            let from = Key::attr(compared.next());
            let (touched, before) = (&mut self.touched, &self.base.branch.tree);
            before.diff(&self.theirs.branch.tree, Bound::Included(&from), |key, _, _| {
                match Named::parse(key) {
                    Some(Named::Attr(ino)) => {
                        touched.push(ino);
                        next = Some(ino);
                    }
                    // What else differs of it is looked at when it is judged.
                    Some(Named::Target(ino) | Named::Xattr(ino, _) | Named::Entry(ino, _)) => {
                        next = Some(ino)
                    }
                    Some(Named::Extent(..) | Named::Orphan(_) | Named::Conflict(_)) | None => {}
                }
                ControlFlow::Break(())
            })?;
            self.compared = next;
        }
        Ok(())
    }

    /// Judges what was changed, and gives everything its place, but for files that drivers are asked about.
    pub fn judge(&mut self) -> Result<(), Missing> {
        for ino in &self.touched {
            self.base.want(*ino)?;
            self.ours.want(*ino)?;
            self.theirs.want(*ino)?;
        }
        self.base.find()?;
        self.ours.find()?;
        self.theirs.find()?;
        while let Some(ino) = self.touched.get(self.judged).copied() {
            self.step(|merge, step| merge.judge_inode(ino, step))?;
            self.judged += 1;
        }
        self.remove_directories()?;
        self.add_all()
    }

    /// Returns the next file whose content both sides have changed; what comes of it is told by [`Merge::settle`].
    pub fn next_both(&mut self) -> Result<Option<Both>, Missing> {
        while let Some(late) = self.notes.late.front() {
            if late.is_for_driver {
                let (base, ours, theirs) = (late.base, late.ours, late.theirs.ino);
                let path = self.path_of(ours)?;
                return Ok(Some(Both {
                    path,
                    base,
                    ours,
                    theirs,
                }));
            }
            self.settle(&Settled::Conflict)?;
        }
        Ok(None)
    }

    /// Says what has come of the file that was named last.
    pub fn settle(&mut self, settled: &Settled) -> Result<(), Missing> {
        let Some(late) = self.notes.late.pop_front() else {
            return Ok(());
        };
        let done = self.step(|merge, step| merge.settle_late(&late, settled, step));
        if done.is_err() {
            self.notes.late.push_front(late);
        }
        done
    }

    /// Makes the result, once no file is left to be settled.
    pub fn finish(&mut self) -> Result<(), Missing> {
        self.drop_unlinked()?;
        self.settle_times()?;
        self.take_conflicts()?;
        self.draft.apply()
    }

    /// Returns the result of a merge that was finished.
    pub fn answer(self) -> Merged {
        Merged {
            branch: self.draft.into_branch(),
            files: self.notes.told,
            inos: self.notes.used,
            conflicts: self.notes.conflicts,
        }
    }

    /// Does something as a whole: when a page was missing, nothing of it.
    fn step<R>(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Notes) -> Result<R, Missing>,
    ) -> Result<R, Missing> {
        self.draft.begin();
        let mut step = Notes::default();
        let done = act(self, &mut step)?;
        self.draft.keep();
        self.notes.take(step);
        Ok(done)
    }

    /// Returns where an inode of `theirs` is in the merge, if it has another number there.
    fn alias(&self, ino: Ino, step: &Notes) -> Ino {
        let alias = step.alias.get(&ino).or_else(|| self.notes.alias.get(&ino));
        alias.copied().unwrap_or(ino)
    }

    /// Returns the next inode number that nobody uses.
    fn fresh(&self, step: &mut Notes) -> Ino {
        let number = Ino(self.terms.next.0 + self.notes.used + step.used);
        step.used += 1;
        number
    }

    /// Returns where an inode is in the merge.
    fn place(&mut self, ino: Ino, step: &Notes) -> Result<Option<(Ino, Name)>, Missing> {
        if let Some(place) = step.placed.get(&ino).or_else(|| self.notes.placed.get(&ino)) {
            return Ok(Some(place.clone()));
        }
        let ours = Version::of(&mut self.ours, ino)?;
        let places = ours.map(|ours| ours.places).unwrap_or_default();
        for Place { directory, name } in places {
            let Ok(parsed) = Name::parse(&name) else { continue };
            let found = self.draft.find(directory, &name)?;
            if found.is_some_and(|found| found.ino == ino) {
                return Ok(Some((directory, parsed)));
            }
        }
        Ok(None)
    }

    /// Returns where an inode is going to be that has lost its place and has no other yet, because the other side has moved it.
    fn place_to_come(&mut self, ino: Ino) -> Result<Option<(Ino, Name)>, Missing> {
        let theirs = Version::of(&mut self.theirs, ino)?;
        let mut places = theirs.map(|theirs| theirs.places).unwrap_or_default().into_iter();
        Ok(places.find_map(|Place { directory, name }| Some((directory, Name::parse(&name).ok()?))))
    }

    /// Returns the path of an inode in the merge.
    fn path_of(&mut self, ino: Ino) -> Result<Box<[u8]>, Missing> {
        self.path_in(ino, None, &Notes::default())
    }

    /// Returns the path of an inode in the merge, or of a name in it.
    fn path_in(&mut self, ino: Ino, name: Option<&[u8]>, step: &Notes) -> Result<Box<[u8]>, Missing> {
        let mut names: Vec<Vec<u8>> = name.map(<[u8]>::to_vec).into_iter().collect();
        let mut at = ino;
        // A tree in which directories go round in circles is damaged; it must not be followed for ever.
        while at != Ino::ROOT && names.len() <= PATH_NAMES_MAX {
            let place = self.place(at, step)?;
            let Some((directory, name)) =
                place.map_or_else(|| self.place_to_come(at), |place| Ok(Some(place)))?
            else {
                break;
            };
            names.push(name.as_bytes().to_vec());
            at = directory;
        }
        names.reverse();
        Ok(names.join(&b'/').into())
    }
}

/// Names of a path that is told.
const PATH_NAMES_MAX: usize = 4096;

impl Notes {
    fn take(&mut self, step: Notes) {
        self.adds.extend(step.adds);
        self.removed.extend(step.removed);
        self.unlinked.extend(step.unlinked);
        self.alias.extend(step.alias);
        self.placed.extend(step.placed);
        self.late.extend(step.late);
        self.told.extend(step.told);
        self.used += step.used;
        self.conflicts += step.conflicts;
    }

    fn tell(&mut self, path: Box<[u8]>, what: What) {
        self.told.push(FileOutcome { path, what });
    }
}
