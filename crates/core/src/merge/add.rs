//! Giving places to what the other line has made or moved: directories first, those above before those below.
//!
//! Invariant: a directory is never put below itself; a name that is taken is taken from nobody.

use super::version::{Pair, Version};
use super::{Late, Merge, Notes};
use crate::diff::view::Place;
use crate::tree::Missing;
use tenure_model::{Attr, ConflictKind, Ino, Kind, Name, What};

/// Something of theirs that needs a place.
#[derive(Clone)]
pub(super) enum Add {
    /// A directory that theirs has made.
    Directory(Version),
    /// A directory that theirs has moved, and where it was before.
    Moved { theirs: Version, back: Place },
    /// A file that theirs has made, or that the branch has removed.
    File {
        theirs: Version,
        conflict: Option<ConflictKind>,
    },
    /// Another name of a file of the merge.
    Link { ino: Ino, place: Place },
}

impl Merge {
    /// Makes everything that was put off until all that was to go was gone.
    pub(super) fn add_all(&mut self) -> Result<(), Missing> {
        if self.added.is_none() {
            self.notes.adds.sort_by_key(|(depth, _)| *depth);
            self.added = Some(0);
        }
        while let Some((_, add)) = self.notes.adds.get(self.added.unwrap_or_default()).cloned() {
            self.step(|merge, step| merge.add(add, step))?;
            self.added = self.added.map(|added| added + 1);
        }
        Ok(())
    }

    fn add(&mut self, add: Add, step: &mut Notes) -> Result<(), Missing> {
        match add {
            Add::Directory(theirs) => {
                self.make_directory(&theirs, None, step)?;
                Ok(())
            }
            Add::Moved { theirs, back } => self.put_moved(&theirs, &back, step),
            Add::File { theirs, conflict } => self.put_file(theirs, conflict, step),
            Add::Link { ino, place } => self.put_link(ino, &place, step),
        }
    }

    /// Returns the merge's directory for one of theirs. What the branch has removed is there again, with what is put into it now.
    fn directory(&mut self, theirs: Ino, step: &mut Notes) -> Result<Ino, Missing> {
        let mut lacking = Vec::new();
        let mut at = theirs;
        loop {
            let known = self.alias(at, step);
            let attr = self.draft.attr(known)?;
            if attr.is_some_and(|attr| attr.is_directory() && attr.nlink > 0) {
                break;
            }
            let Some(version) = Version::of(&mut self.theirs, at)? else {
                break;
            };
            at = version.places[0].directory;
            lacking.push(version);
        }
        let mut directory = self.alias(at, step);
        while let Some(version) = lacking.pop() {
            directory = self.make_directory(&version, Some(ConflictKind::DirectoryRemovedHere), step)?;
        }
        Ok(directory)
    }

    /// Makes an empty directory where theirs has one, or finds the one that is there; returns it.
    fn make_directory(
        &mut self,
        theirs: &Version,
        conflict: Option<ConflictKind>,
        step: &mut Notes,
    ) -> Result<Ino, Missing> {
        let known = self.alias(theirs.ino, step);
        if known != theirs.ino {
            // It goes on as one that it has replaced.
            return Ok(known);
        }
        let place = &theirs.places[0];
        let directory = match conflict {
            // What is above was made just now.
            Some(_) => self.alias(place.directory, step),
            None => self.directory(place.directory, step)?,
        };
        let Ok(wanted) = Name::parse(&place.name) else {
            return Ok(directory);
        };
        let there = self.draft.find(directory, &place.name)?;
        if let Some(there) = there.filter(|there| there.d_type == Kind::Directory.d_type()) {
            step.alias.insert(theirs.ino, there.ino);
            return Ok(there.ino);
        }
        let number = self.number(theirs.ino, step)?;
        if number != theirs.ino {
            step.alias.insert(theirs.ino, number);
        }
        let attr = Attr {
            size: 0,
            nlink: 2,
            parent: directory,
            ..theirs.attr
        };
        self.draft
            .take_inode((&self.theirs.branch, theirs.ino), number, &attr)?;
        let name = match there {
            None => wanted,
            Some(_) => self.name_beside(directory, &wanted)?,
        };
        self.enter((directory, &name), (number, &attr), step)?;
        let path = self.path_in(directory, Some(place.name.as_ref()), step)?;
        match (there, conflict) {
            (Some(there), _) => {
                self.note_beside(
                    (ConflictKind::Added, path, there.ino),
                    (number, name, directory),
                    step,
                )?;
            }
            (None, Some(kind)) => self.note_conflict((kind, path, number), None, step),
            (None, None) => step.tell(path, What::Taken),
        }
        Ok(number)
    }

    fn put_moved(&mut self, theirs: &Version, back: &Place, step: &mut Notes) -> Result<(), Missing> {
        let place = &theirs.places[0];
        let directory = self.directory(place.directory, step)?;
        let (Some(mut attr), Ok(wanted)) = (self.draft.attr(theirs.ino)?, Name::parse(&place.name)) else {
            return Ok(());
        };
        if self.is_below(directory, theirs.ino, step)? {
            return self.put_back((theirs, attr), back, step);
        }
        let there = self.draft.find(directory, &place.name)?;
        let name = match there {
            None => wanted,
            Some(_) => self.name_beside(directory, &wanted)?,
        };
        attr.parent = directory;
        attr.ctime = self.terms.time;
        self.draft.put_attr(theirs.ino, &attr);
        self.enter((directory, &name), (theirs.ino, &attr), step)?;
        let path = self.path_in(directory, Some(place.name.as_ref()), step)?;
        match there {
            Some(there) => self.note_beside(
                (ConflictKind::Added, path, there.ino),
                (theirs.ino, name, directory),
                step,
            ),
            None => {
                step.tell(path, What::Taken);
                Ok(())
            }
        }
    }

    /// Puts a directory back where the branch has it, which would else be below itself.
    fn put_back(
        &mut self,
        (theirs, attr): (&Version, Attr),
        back: &Place,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let Ok(wanted) = Name::parse(&back.name) else {
            return Ok(());
        };
        let directory = self.still_there(back.directory)?;
        let name = match self.draft.find(directory, &back.name)? {
            None => wanted,
            Some(_) => self.name_beside(directory, &wanted)?,
        };
        let attr = Attr {
            parent: directory,
            ..attr
        };
        self.draft.put_attr(theirs.ino, &attr);
        self.enter((directory, &name), (theirs.ino, &attr), step)?;
        let path = self.path_in(directory, Some(name.as_bytes()), step)?;
        let place = self.theirs.path(&theirs.places[0]);
        self.note_conflict((ConflictKind::Loop, path, theirs.ino), Some(place), step);
        Ok(())
    }

    /// Returns a directory of the branch, or the first above it that theirs has not removed.
    fn still_there(&mut self, directory: Ino) -> Result<Ino, Missing> {
        let mut at = directory;
        while self.draft.attr(at)?.is_none() {
            let Some(ours) = Version::of(&mut self.ours, at)? else {
                return Ok(Ino::ROOT);
            };
            at = ours.places[0].directory;
        }
        Ok(at)
    }

    /// Tells whether a directory of the merge is another, or below it. One that waits for its place is below none.
    fn is_below(&mut self, directory: Ino, above: Ino, step: &Notes) -> Result<bool, Missing> {
        let mut at = directory;
        for _ in 0..super::PATH_NAMES_MAX {
            if at == above {
                return Ok(true);
            }
            if at == Ino::ROOT {
                return Ok(false);
            }
            match self.place(at, step)? {
                Some((parent, _)) => at = parent,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn put_file(
        &mut self,
        theirs: Version,
        conflict: Option<ConflictKind>,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let mut made: Option<Ino> = None;
        for at in 0..theirs.places.len() {
            let place = theirs.places[at].clone();
            let directory = self.directory(place.directory, step)?;
            let Ok(wanted) = Name::parse(&place.name) else {
                continue;
            };
            let there = self.draft.find(directory, &place.name)?;
            if there.is_some_and(|there| Some(there.ino) == made) {
                continue;
            }
            let path = self.path_in(directory, Some(place.name.as_ref()), step)?;
            if let Some(there) = there.filter(|_| made.is_none() && theirs.places.len() == 1)
                && self.is_settled_there(&theirs, there.ino, step)?
            {
                return Ok(());
            }
            let number = match made {
                Some(number) => number,
                None => self.number(theirs.ino, step)?,
            };
            if made.is_none() {
                let attr = Attr {
                    nlink: 0,
                    parent: Ino(0),
                    ..theirs.attr
                };
                self.draft
                    .take_inode((&self.theirs.branch, theirs.ino), number, &attr)?;
                if number != theirs.ino {
                    step.alias.insert(theirs.ino, number);
                }
                made = Some(number);
            }
            let name = match there {
                None => wanted,
                Some(_) => self.name_beside(directory, &wanted)?,
            };
            self.name_file((directory, &name), number, step)?;
            match (there, conflict) {
                (Some(there), _) => {
                    self.note_beside(
                        (ConflictKind::Added, path, there.ino),
                        (number, name, directory),
                        step,
                    )?;
                }
                (None, Some(kind)) if at == 0 => {
                    self.note_theirs((kind, path), number, step);
                }
                (None, _) => step.tell(path, What::Taken),
            }
        }
        Ok(())
    }

    /// Tells whether what is in the place of a file of theirs is the same, or will be made one with it.
    fn is_settled_there(&mut self, theirs: &Version, there: Ino, step: &mut Notes) -> Result<bool, Missing> {
        // What the merge itself has put there is of theirs as well, and another.
        let Some(ours) = Version::of(&mut self.ours, there)?.filter(|ours| !ours.is_directory()) else {
            return Ok(false);
        };
        let pair = Pair {
            before: (&self.ours.branch, &ours),
            after: (&self.theirs.branch, theirs),
        };
        if pair.is_same()? {
            step.alias.insert(theirs.ino, there);
            return Ok(true);
        }
        let is_file = |version: &Version| version.attr.kind == Kind::File;
        let is_same_content = pair.is_same_content()?;
        let fits = pair.has_same_attributes()?;
        if !is_file(&ours) || !is_file(theirs) {
            return Ok(false);
        }
        step.alias.insert(theirs.ino, there);
        step.late.push_back(Late {
            base: None,
            ours: there,
            theirs: theirs.clone(),
            kind: if is_same_content {
                ConflictKind::Attributes
            } else {
                ConflictKind::Added
            },
            is_for_driver: !is_same_content,
            fits,
        });
        Ok(true)
    }

    fn put_link(&mut self, ino: Ino, place: &Place, step: &mut Notes) -> Result<(), Missing> {
        let directory = self.directory(place.directory, step)?;
        let Ok(wanted) = Name::parse(&place.name) else {
            return Ok(());
        };
        let there = self.draft.find(directory, &place.name)?;
        if there.is_some_and(|there| there.ino == ino) {
            return Ok(());
        }
        let name = match there {
            None => wanted,
            Some(_) => self.name_beside(directory, &wanted)?,
        };
        self.name_file((directory, &name), ino, step)?;
        let path = self.path_in(directory, Some(place.name.as_ref()), step)?;
        match there {
            Some(there) => self.note_beside(
                (ConflictKind::Added, path, there.ino),
                (ino, name, directory),
                step,
            ),
            None => {
                step.tell(path, What::Taken);
                Ok(())
            }
        }
    }

    /// Gives a file of the merge a name that is free.
    pub(super) fn name_file(
        &mut self,
        (directory, name): (Ino, &Name),
        ino: Ino,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let Some(mut attr) = self.draft.attr(ino)? else {
            return Ok(());
        };
        attr.nlink += 1;
        attr.parent = directory;
        self.draft.put_attr(ino, &attr);
        self.enter((directory, name), (ino, &attr), step)
    }

    /// Enters an inode into a directory by a name that is free.
    fn enter(
        &mut self,
        (directory, name): (Ino, &Name),
        (ino, attr): (Ino, &Attr),
        step: &mut Notes,
    ) -> Result<(), Missing> {
        // What theirs has made keeps its times.
        let is_new = self.ours.attr(directory)?.is_none();
        let time = (!is_new).then_some(self.terms.time);
        let what = (ino, attr.is_directory(), attr.kind.d_type());
        if !self.draft.add_entry((directory, name), what, time)? {
            // So many names of one hash are never met but on purpose: the name beside has another.
            let other = self.name_beside(directory, name)?;
            self.draft.add_entry((directory, &other), what, time)?;
            step.placed.insert(ino, (directory, other));
            return Ok(());
        }
        step.placed.insert(ino, (directory, name.clone()));
        Ok(())
    }

    /// Returns the number of an inode of theirs in the merge: its own, unless the branch uses that.
    pub(super) fn number(&self, theirs: Ino, step: &mut Notes) -> Result<Ino, Missing> {
        Ok(match self.draft.attr(theirs)? {
            None => theirs,
            Some(_) => self.fresh(step),
        })
    }
}
