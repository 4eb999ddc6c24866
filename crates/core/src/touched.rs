//! What an op touches: the directories whose entries it changes, and the inodes that it changes or reads the contents of. Who
//! shares a branch does alone what touches only what is lent to it.
//!
//! Invariant: it is judged on the state that the op is decided on, and names too much rather than too little.

use crate::branch::{Branch, Undecided};
use crate::tree::Missing;
use tenure_model::{Ino, Name, Op, RenameMode};

/// What an op touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    directories: [Option<Ino>; 2],
    inodes: [Option<Subject>; 2],
    /// What it makes.
    pub made: Option<Made>,
    /// Whether it gives a directory another parent: what is above both is asked then.
    pub is_above: bool,
}

/// An inode that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which.
    pub ino: Ino,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// How many entries name it, a directory's own not counted.
    pub links: u32,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its entries are as many as before, and where they were.
    Stays,
    /// It loses an entry, and has others.
    Loses,
    /// It loses its last entry.
    Ends,
    /// An entry of it goes to this directory.
    Goes(Ino),
    /// It gets one more entry, in this directory.
    Gains(Ino),
}

/// An inode that an op makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Which.
    pub ino: Ino,
    /// The directory that it is made in.
    pub parent: Ino,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it has no entry.
    pub is_unnamed: bool,
}

impl Touched {
    /// Returns the directories whose entries change, or that something is made in.
    pub fn directories(&self) -> impl Iterator<Item = Ino> + '_ {
        self.directories.iter().copied().flatten()
    }

    /// Returns the inodes that were there before.
    pub fn inodes(&self) -> impl Iterator<Item = Subject> + '_ {
        self.inodes.iter().copied().flatten()
    }

    /// Returns all that was there before: directories and inodes.
    pub fn all(&self) -> impl Iterator<Item = Ino> + '_ {
        self.directories().chain(self.inodes().map(|inode| inode.ino))
    }
}

impl Branch {
    /// Returns what an op touches, whether it is refused or not.
    pub fn touched(&self, op: &Op) -> Result<Touched, Missing> {
        match op {
            Op::Create {
                parent, ino, node, ..
            } => Ok(making(
                *parent,
                *ino,
                node.kind == tenure_model::Kind::Directory,
                false,
            )),
            Op::CreateUnnamed { parent, ino, .. } => Ok(making(*parent, *ino, false, true)),
            Op::Link { ino, parent, .. } => Ok(Touched {
                directories: [Some(*parent), None],
                inodes: [Some(self.subject(*ino, Fate::Gains(*parent))?), None],
                ..Touched::default()
            }),
            Op::Unlink { parent, name, .. } | Op::Rmdir { parent, name, .. } => Ok(Touched {
                directories: [Some(*parent), None],
                inodes: [self.removed(*parent, name)?, None],
                ..Touched::default()
            }),
            Op::Rename {
                from,
                name,
                to,
                new_name,
                mode,
                ..
            } => self.touched_by_rename((*from, name), (*to, new_name), *mode),
            Op::SetAttr { ino, .. }
            | Op::Write { ino, .. }
            | Op::Punch { ino, .. }
            | Op::Collapse { ino, .. }
            | Op::Insert { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::Drop { ino } => self.changing([Some(*ino), None]),
            Op::Copy { from, to, .. } => self.changing([Some(*from), Some(*to)]),
        }
    }

    fn touched_by_rename(
        &self,
        (from, name): (Ino, &Name),
        (to, new_name): (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Touched, Missing> {
        let moved = self.named(from, name)?;
        let replaced = self.named(to, new_name)?.filter(|ino| Some(*ino) != moved);
        let moved = moved.map(|ino| self.subject(ino, Fate::Goes(to))).transpose()?;
        let replaced = match (mode, replaced) {
            (_, None) => None,
            (RenameMode::Exchange, Some(ino)) => Some(self.subject(ino, Fate::Goes(from))?),
            (RenameMode::Replace | RenameMode::NoReplace | RenameMode::Whiteout(_), Some(ino)) => {
                Some(self.losing(ino)?)
            }
        };
        let made = match mode {
            RenameMode::Whiteout(ino) => Some(Made {
                ino,
                parent: from,
                is_directory: false,
                is_unnamed: false,
            }),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => None,
        };
        let goes = |inode: &Subject| inode.is_directory && matches!(inode.fate, Fate::Goes(_));
        let inodes = [moved, replaced];
        Ok(Touched {
            directories: [Some(from), Some(to)],
            inodes,
            made,
            is_above: from != to && inodes.iter().flatten().any(goes),
        })
    }

    fn changing(&self, inos: [Option<Ino>; 2]) -> Result<Touched, Missing> {
        let subject = |ino: Option<Ino>| ino.map(|ino| self.subject(ino, Fate::Stays)).transpose();
        Ok(Touched {
            inodes: [subject(inos[0])?, subject(inos[1])?],
            ..Touched::default()
        })
    }

    fn removed(&self, parent: Ino, name: &Name) -> Result<Option<Subject>, Missing> {
        self.named(parent, name)?.map(|ino| self.losing(ino)).transpose()
    }

    fn losing(&self, ino: Ino) -> Result<Subject, Missing> {
        let subject = self.subject(ino, Fate::Loses)?;
        let fate = if subject.links > 1 {
            Fate::Loses
        } else {
            Fate::Ends
        };
        Ok(Subject { fate, ..subject })
    }

    fn named(&self, parent: Ino, name: &Name) -> Result<Option<Ino>, Missing> {
        match self.lookup(parent, name) {
            Ok(ino) => Ok(Some(ino)),
            Err(Undecided::Refused(_)) => Ok(None),
            Err(Undecided::Missing(missing)) => Err(missing),
        }
    }

    /// An inode that is not there counts as a file without an entry: nobody is lent one.
    fn subject(&self, ino: Ino, fate: Fate) -> Result<Subject, Missing> {
        let attr = self.attr(ino)?;
        let is_directory = attr.is_some_and(|attr| attr.is_directory());
        let links = attr.map_or(0, |attr| if is_directory { 1 } else { attr.nlink });
        Ok(Subject {
            ino,
            is_directory,
            links,
            fate,
        })
    }
}

fn making(parent: Ino, ino: Ino, is_directory: bool, is_unnamed: bool) -> Touched {
    Touched {
        directories: [Some(parent), None],
        made: Some(Made {
            ino,
            parent,
            is_directory,
            is_unnamed,
        }),
        ..Touched::default()
    }
}
