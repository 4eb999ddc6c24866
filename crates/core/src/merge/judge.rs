//! What becomes of each inode that the other line has changed: what is taken at once, what needs a place, and what does not fit.

use super::add::Add;
use super::version::{Pair, Said, Version, xattrs};
use super::{Late, Merge, Notes};
use crate::diff::view::{Place, View};
use crate::tree::Missing;
use tenure_model::{ConflictKind, Ino, Kind, Name, What};

/// Whose view of a directory is asked for.
#[derive(Clone, Copy)]
enum Side {
    Ours,
    Theirs,
}

impl Merge {
    pub(super) fn judge_inode(&mut self, ino: Ino, step: &mut Notes) -> Result<(), Missing> {
        let base = Version::of(&mut self.base, ino)?;
        let theirs = Version::of(&mut self.theirs, ino)?;
        match (base, theirs) {
            (None, None) => Ok(()),
            (None, Some(theirs)) if theirs.is_directory() => self.judge_new_directory(theirs, step),
            (None, Some(theirs)) => {
                if self.is_successor(&theirs)? {
                    // It is judged with what it has replaced.
                    return Ok(());
                }
                match Version::of(&mut self.ours, ino)? {
                    Some(ours) => self.judge_both(None, &ours, theirs, step),
                    None => self.add_file(theirs, None, step),
                }
            }
            (Some(base), theirs) if base.is_directory() => self.judge_directory(&base, theirs, step),
            (Some(base), theirs) => self.judge_file(&base, theirs, step),
        }
    }

    fn judge_new_directory(&mut self, theirs: Version, step: &mut Notes) -> Result<(), Missing> {
        if Version::of(&mut self.ours, theirs.ino)?.is_none() {
            let depth = self.depth(theirs.ino)?;
            step.adds.push((depth, Add::Directory(theirs)));
        }
        Ok(())
    }

    fn judge_directory(
        &mut self,
        base: &Version,
        theirs: Option<Version>,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let ours = Version::of(&mut self.ours, base.ino)?;
        let (ours, theirs) = match (ours, theirs) {
            // What is in it that theirs has made brings it back.
            (None, _) => return Ok(()),
            (Some(ours), None) => return self.judge_removed_directory(base, &ours, step),
            (Some(ours), Some(theirs)) => (ours, theirs),
        };
        self.say_of_directory(base, &ours, &theirs, step)?;
        if theirs.places == base.places || theirs.places == ours.places {
            return Ok(());
        }
        if ours.places == base.places {
            let back = ours.places[0].clone();
            self.detach(&back, ours.ino)?;
            let depth = self.depth(theirs.ino)?;
            step.adds.push((depth, Add::Moved { theirs, back }));
        } else {
            let path = self.path_in(base.ino, None, step)?;
            let place = self.theirs.path(&theirs.places[0]);
            self.note_conflict((ConflictKind::Moved, path, ours.ino), Some(place), step);
        }
        Ok(())
    }

    /// Lets a directory have what both say of its mode, owner and extended attributes.
    fn say_of_directory(
        &mut self,
        base: &Version,
        ours: &Version,
        theirs: &Version,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let path = self.path_in(ours.ino, None, step)?;
        let is_news = !self.ours_to_theirs(ours, theirs).has_same_attributes()?
            && !self.base_to_theirs(base, theirs).has_same_attributes()?;
        if !self.say_both(Some(base), ours, theirs, ours.ino)? {
            self.note_conflict((ConflictKind::Attributes, path, ours.ino), None, step);
        } else if is_news {
            step.tell(path, What::Taken);
        }
        Ok(())
    }

    /// Judges a directory that theirs has removed: it goes, unless theirs has made it again.
    fn judge_removed_directory(
        &mut self,
        base: &Version,
        ours: &Version,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let place = &base.places[0];
        if let Some(directory) = self.counterpart(Side::Theirs, place.directory)? {
            let name = place.name.clone();
            let again = self.theirs.occupant(&Place { directory, name })?;
            let is_directory = match again {
                Some(again) => self.theirs.attr(again)?.is_some_and(|attr| attr.is_directory()),
                None => false,
            };
            if let Some(again) = again.filter(|_| is_directory)
                && Version::of(&mut self.base, again)?.is_none()
                && let Some(theirs) = Version::of(&mut self.theirs, again)?
            {
                step.alias.insert(again, base.ino);
                return self.say_of_directory(base, ours, &theirs, step);
            }
        }
        step.removed.push(base.ino);
        Ok(())
    }

    fn judge_file(
        &mut self,
        base: &Version,
        theirs: Option<Version>,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let theirs = match theirs {
            Some(theirs) => Some(theirs),
            None => self.successor(Side::Theirs, base)?,
        };
        let ours = match Version::of(&mut self.ours, base.ino)? {
            Some(ours) => Some(ours),
            None => self.successor(Side::Ours, base)?,
        };
        match (ours, theirs) {
            (None, None) => Ok(()),
            (None, Some(theirs)) => self.judge_removed_here(base, theirs, step),
            (Some(ours), None) => self.judge_removed(base, &ours, step),
            (Some(ours), Some(theirs)) => self.judge_both(Some(base), &ours, theirs, step),
        }
    }

    /// Judges a file that the branch has removed.
    fn judge_removed_here(
        &mut self,
        base: &Version,
        theirs: Version,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let is_same = self.base_to_theirs(base, &theirs).is_same()?;
        let is_successor = theirs.ino != base.ino;
        let shares_place = is_successor || theirs.places.iter().any(|place| base.places.contains(place));
        if !is_same || !shares_place {
            return self.add_file(theirs, Some(ConflictKind::RemovedHere), step);
        }
        // The names that both had are gone; those that theirs has given it since are there.
        let mut fresh = theirs.clone();
        fresh.places.retain(|place| !base.places.contains(place));
        if is_successor || fresh.places.is_empty() {
            return Ok(());
        }
        self.add_file(fresh, None, step)
    }

    /// Judges a file that theirs has removed.
    fn judge_removed(&mut self, base: &Version, ours: &Version, step: &mut Notes) -> Result<(), Missing> {
        let path = self.path_in(ours.ino, None, step)?;
        let pair = Pair {
            before: (&self.base.branch, base),
            after: (&self.ours.branch, ours),
        };
        let is_successor = ours.ino != base.ino;
        let shares_place = is_successor || ours.places.iter().any(|place| base.places.contains(place));
        if !pair.is_same()? || !shares_place {
            self.note_conflict((ConflictKind::RemovedThere, path, ours.ino), None, step);
            return Ok(());
        }
        for place in &ours.places {
            if is_successor || base.places.contains(place) {
                self.unlink(place, ours.ino, step)?;
            }
        }
        step.tell(path, What::Removed);
        Ok(())
    }

    /// Judges a file that both have, of which each may have changed something.
    fn judge_both(
        &mut self,
        base: Option<&Version>,
        ours: &Version,
        theirs: Version,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        let (is_theirs_content, is_ours_content) = match base {
            None => (false, false),
            Some(base) => (
                self.base_to_theirs(base, &theirs).is_same_content()?,
                self.base_to_ours(base, ours).is_same_content()?,
            ),
        };
        if let Some(base) = base
            && is_ours_content
            && theirs.ino != ours.ino
            && self.base_to_ours(base, ours).has_same_attributes()?
        {
            let is_untouched = ours.ino == base.ino && ours.places == base.places;
            let is_of_another_kind = ours.attr.kind != theirs.attr.kind && !is_theirs_content;
            if is_untouched || is_of_another_kind {
                // Theirs has put another in its place, which goes where ours has moved it, if it has.
                for place in &ours.places {
                    self.unlink(place, ours.ino, step)?;
                }
                let places = if is_untouched {
                    theirs.places
                } else {
                    ours.places.clone()
                };
                return self.add_file(Version { places, ..theirs }, None, step);
            }
        }
        let is_changed = match base {
            None => true,
            Some(base) => {
                !is_theirs_content
                    || !self.base_to_theirs(base, &theirs).has_same_attributes()?
                    || theirs.ino == base.ino && theirs.places != base.places
            }
        };
        if !is_changed {
            return Ok(());
        }
        let fits = self.say_both(base, ours, &theirs, ours.ino)?;
        let differs = !self.ours_to_theirs(ours, &theirs).is_same_content()?;
        // No inode becomes one of another kind.
        let is_alike = ours.attr.kind == theirs.attr.kind;
        let is_both = differs && !is_theirs_content && !(is_ours_content && is_alike);
        // Names that have gone are told by themselves.
        let is_placed = |place: &Place| ours.places.contains(place);
        let is_news = differs
            || !self.ours_to_theirs(ours, &theirs).has_same_attributes()?
            || theirs.ino == ours.ino && !theirs.places.iter().all(is_placed);
        if differs && !is_both && !is_theirs_content {
            self.take_content(ours, &theirs)?;
        }
        let adds = step.adds.len();
        let is_changed = !is_theirs_content || !is_ours_content;
        let fits_there = self.move_both(base, (ours, &theirs), is_changed, step)?;
        // What is moved is told once it has its place.
        let is_told = fits_there && step.adds.len() == adds;
        if is_both || !fits {
            let is_file = |version: &Version| version.attr.kind == Kind::File;
            let kind = match (is_both, base) {
                (false, _) => ConflictKind::Attributes,
                (true, None) => ConflictKind::Added,
                (true, Some(_)) => ConflictKind::Content,
            };
            step.late.push_back(Late {
                base: base.filter(|base| is_file(base)).map(|base| base.ino),
                ours: ours.ino,
                is_for_driver: is_both && is_file(ours) && is_file(&theirs),
                kind,
                fits,
                theirs,
            });
        } else if is_told && is_news {
            let path = self.path_in(ours.ino, None, step)?;
            step.tell(path, What::Taken);
        }
        Ok(())
    }

    /// Lets an inode of the merge have what both say of it besides its content; tells whether that fits together.
    fn say_both(
        &mut self,
        base: Option<&Version>,
        ours: &Version,
        theirs: &Version,
        number: Ino,
    ) -> Result<bool, Missing> {
        let Some(mut attr) = self.draft.attr(number)? else {
            return Ok(true);
        };
        let before = attr;
        let said_before = match base {
            Some(base) => Some(Said::of(&base.attr, xattrs(&self.base.branch, base.ino)?)),
            None => None,
        };
        let said_here = Said::of(&ours.attr, self.draft.xattrs(number)?);
        let said_there = Said::of(&theirs.attr, xattrs(&self.theirs.branch, theirs.ino)?);
        let (merged, fits) = Said::merged(said_before.as_ref(), &said_here, &said_there);
        let (old, new) = (said_here.all(), merged.all());
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.draft.put_xattr(number, name, None);
        }
        for (name, value) in new.iter().filter(|(name, value)| old.get(*name) != Some(*value)) {
            self.draft.put_xattr(number, name, Some(value));
        }
        merged.say(&mut attr);
        let is_untouched = base.is_some_and(|base| base.attr == ours.attr) && theirs.ino == number;
        if is_untouched && !attr.is_directory() {
            (attr.atime, attr.mtime, attr.ctime) = (theirs.attr.atime, theirs.attr.mtime, theirs.attr.ctime);
        } else if attr != before {
            attr.ctime = self.terms.time;
        }
        if attr != before {
            self.draft.put_attr(number, &attr);
        }
        Ok(fits)
    }

    fn take_content(&mut self, ours: &Version, theirs: &Version) -> Result<(), Missing> {
        let Some(mut attr) = self.draft.attr(ours.ino)? else {
            return Ok(());
        };
        let from = (&self.theirs.branch, theirs.ino);
        self.draft.take_content(from, (ours.ino, &mut attr))?;
        attr.mtime = theirs.attr.mtime;
        if attr.ctime == ours.attr.ctime {
            attr.ctime = self.terms.time;
        }
        self.draft.put_attr(ours.ino, &attr);
        Ok(())
    }

    /// Follows theirs where it has given a file other names; tells whether that fits together.
    fn move_both(
        &mut self,
        base: Option<&Version>,
        (ours, theirs): (&Version, &Version),
        is_changed: bool,
        step: &mut Notes,
    ) -> Result<bool, Missing> {
        // What was put in another's place is where that is.
        let is_followed = base.is_none_or(|base| theirs.ino == base.ino);
        let none = Vec::new();
        let before = base.map_or(&none, |base| &base.places);
        let is_single = !is_followed && theirs.places.len() == 1;
        if is_single || theirs.places == *before || theirs.places == ours.places {
            return Ok(true);
        }
        let is_one = |places: &[Place]| places.len() == 1;
        let is_moved_here = ours.ino == theirs.ino && ours.places != *before;
        if is_moved_here && is_one(&ours.places) && is_one(&theirs.places) && before.len() <= 1 {
            let path = self.path_in(ours.ino, None, step)?;
            let place = self.theirs.path(&theirs.places[0]);
            self.note_conflict((ConflictKind::Moved, path, ours.ino), Some(place), step);
            return Ok(false);
        }
        let is_gone = |place: &&Place| before.contains(place) && !theirs.places.contains(place);
        let mut gone: Vec<Place> = ours.places.iter().filter(is_gone).cloned().collect();
        if ours.ino != theirs.ino
            && gone.is_empty()
            && before.iter().all(|place| !theirs.places.contains(place))
        {
            // Ours has put another in its place, which goes where theirs has moved it.
            gone.extend(ours.places.iter().take(1).cloned());
        }
        let is_fresh = |place: &&Place| !before.contains(place) && !ours.places.contains(place);
        let fresh: Vec<Place> = theirs.places.iter().filter(is_fresh).cloned().collect();
        if fresh.is_empty() && gone.len() == ours.places.len() && is_changed {
            // Each side has removed the names that the other has left it, and one has changed what is in it.
            let path = self.path_in(ours.ino, None, step)?;
            self.note_conflict((ConflictKind::RemovedThere, path, ours.ino), None, step);
            return Ok(false);
        }
        for place in &gone {
            if fresh.is_empty() {
                let path = self.path_in(place.directory, Some(&place.name), step)?;
                step.tell(path, What::Removed);
            }
            self.unlink(place, ours.ino, step)?;
        }
        let ino = ours.ino;
        let adds = fresh
            .into_iter()
            .map(|place| (usize::MAX, Add::Link { ino, place }));
        step.adds.extend(adds);
        Ok(true)
    }

    /// Has a file of theirs put where theirs has it.
    fn add_file(
        &mut self,
        theirs: Version,
        conflict: Option<ConflictKind>,
        step: &mut Notes,
    ) -> Result<(), Missing> {
        step.adds.push((usize::MAX, Add::File { theirs, conflict }));
        Ok(())
    }

    /// Takes an entry of the merge away.
    pub(super) fn unlink(&mut self, place: &Place, ino: Ino, step: &mut Notes) -> Result<(), Missing> {
        let found = self.draft.find(place.directory, &place.name)?;
        let (Some(found), Some(mut attr)) = (found.filter(|found| found.ino == ino), self.draft.attr(ino)?)
        else {
            return Ok(());
        };
        let time = self.terms.time;
        self.draft
            .remove_entry(place.directory, (found.cookie, false), Some(time))?;
        attr.nlink = attr.nlink.saturating_sub(1);
        if attr.parent == place.directory {
            attr.parent = Ino(0);
        }
        attr.ctime = time;
        self.draft.put_attr(ino, &attr);
        step.unlinked.insert(ino);
        Ok(())
    }

    /// Takes the entry of a directory away that gets another.
    fn detach(&mut self, place: &Place, ino: Ino) -> Result<(), Missing> {
        let found = self.draft.find(place.directory, &place.name)?;
        if let Some(found) = found.filter(|found| found.ino == ino) {
            let time = self.terms.time;
            self.draft
                .remove_entry(place.directory, (found.cookie, true), Some(time))?;
        }
        Ok(())
    }

    /// Returns what a side has in the place of a file that it has not any more, if that is another file that it has made.
    fn successor(&mut self, side: Side, base: &Version) -> Result<Option<Version>, Missing> {
        for place in &base.places {
            let Some(directory) = self.counterpart(side, place.directory)? else {
                continue;
            };
            let there = Place {
                directory,
                name: place.name.clone(),
            };
            let view = match side {
                Side::Ours => &mut self.ours,
                Side::Theirs => &mut self.theirs,
            };
            let Some(ino) = view.occupant(&there)? else {
                continue;
            };
            let Some(version) = Version::of(view, ino)? else {
                continue;
            };
            if !version.is_directory() && Version::of(&mut self.base, ino)?.is_none() {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Tells whether a file that theirs has made is in the place of one that it has not any more.
    fn is_successor(&mut self, theirs: &Version) -> Result<bool, Missing> {
        for place in &theirs.places {
            let Some(directory) = there(&mut self.theirs, &mut self.base, place.directory)? else {
                continue;
            };
            let before = Place {
                directory,
                name: place.name.clone(),
            };
            let Some(ino) = self.base.occupant(&before)? else {
                continue;
            };
            let Some(base) = Version::of(&mut self.base, ino)?.filter(|base| !base.is_directory()) else {
                continue;
            };
            if Version::of(&mut self.theirs, ino)?.is_none()
                && let Some(successor) = self.successor(Side::Theirs, &base)?
                && successor.ino == theirs.ino
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the directory that a side has for one of the base: itself, or what is in its place.
    fn counterpart(&mut self, side: Side, directory: Ino) -> Result<Option<Ino>, Missing> {
        match side {
            Side::Ours => there(&mut self.base, &mut self.ours, directory),
            Side::Theirs => there(&mut self.base, &mut self.theirs, directory),
        }
    }

    /// Returns how many directories are above one of theirs.
    fn depth(&mut self, directory: Ino) -> Result<usize, Missing> {
        let (mut at, mut depth) = (directory, 0);
        while at != Ino::ROOT && depth < super::PATH_NAMES_MAX {
            let Some(version) = Version::of(&mut self.theirs, at)? else {
                break;
            };
            at = version.places[0].directory;
            depth += 1;
        }
        Ok(depth)
    }

    fn base_to_ours<'a>(&'a self, base: &'a Version, ours: &'a Version) -> Pair<'a> {
        Pair {
            before: (&self.base.branch, base),
            after: (&self.ours.branch, ours),
        }
    }

    fn base_to_theirs<'a>(&'a self, base: &'a Version, theirs: &'a Version) -> Pair<'a> {
        Pair {
            before: (&self.base.branch, base),
            after: (&self.theirs.branch, theirs),
        }
    }

    pub(super) fn ours_to_theirs<'a>(&'a self, ours: &'a Version, theirs: &'a Version) -> Pair<'a> {
        Pair {
            before: (&self.ours.branch, ours),
            after: (&self.theirs.branch, theirs),
        }
    }
}

/// Returns the directory of a state that is one of another, or else what is at its path there.
fn there(from: &mut View, to: &mut View, directory: Ino) -> Result<Option<Ino>, Missing> {
    let mut names: Vec<Name> = Vec::new();
    let mut at = directory;
    // Up to the first that both have, and down again by the names.
    while Version::of(to, at)?.is_none_or(|version| !version.is_directory()) {
        let Some(version) = Version::of(from, at)? else {
            return Ok(None);
        };
        let Place { directory, name } = &version.places[0];
        let Ok(name) = Name::parse(name) else {
            return Ok(None);
        };
        if names.len() >= super::PATH_NAMES_MAX {
            return Ok(None);
        }
        names.push(name);
        at = *directory;
    }
    while let Some(name) = names.pop() {
        let place = Place {
            directory: at,
            name: name.as_bytes().into(),
        };
        match to.occupant(&place)? {
            Some(found) if to.attr(found)?.is_some_and(|attr| attr.is_directory()) => at = found,
            Some(_) | None => return Ok(None),
        }
    }
    Ok(Some(at))
}
