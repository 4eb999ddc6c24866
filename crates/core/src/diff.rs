//! What differs between two branches, said by paths: pages that both have are passed by unread, so it costs what has changed.
//!
//! An inode is followed by its number, so what was moved is told as moved, and what is below it not at all. Where another inode is
//! in the place of one that is gone, that is one change of what is there: programs save a file by a new one that they rename.
//!
//! It goes on where it stood after a page was [`Missing`]. Invariant: every change of an inode and of its names sets the inode's
//! time of change; only the same bytes in other chunks do not. So the attributes tell which inodes have changed.

pub(crate) mod view;

use crate::branch::Branch;
use crate::key::{Key, Named};
use crate::tree::Missing;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Difference, Ino, Kind, Side};
use view::{Place, View};

/// Inodes that are looked at for one answer: their directories are looked through together, and an answer does not take long.
const INODES_MAX: usize = 1024;
/// Bytes of an answer, about; it fits a message also where the last inode has very many names.
const ANSWER_LEN_MAX: usize = 4 << 20;
/// Bytes of a difference besides its paths, about.
const DIFFERENCE_LEN: usize = 200;

/// A question about what differs, and how far its answer is.
pub struct Diff {
    before: View,
    after: View,
    below: Box<[u8]>,
    /// The last inode whose attributes were compared.
    compared: Ino,
    /// Whether no inode behind it differs.
    is_end: bool,
    /// Inodes that were changed, made or dropped, and are not judged yet.
    touched: VecDeque<Ino>,
    judged: Ino,
    found: Vec<Difference>,
    len: usize,
}

/// One side of a difference in the making.
type There<'a> = (Ino, &'a Place);

impl Diff {
    /// Begins with the inodes behind `behind`. Only what is at or below the path `below` is told, or was there.
    pub fn new(before: Branch, after: Branch, below: &[u8], behind: Ino) -> Self {
        Self {
            before: View::new(before),
            after: View::new(after),
            below: below.into(),
            compared: behind,
            is_end: false,
            touched: VecDeque::new(),
            judged: behind,
            found: Vec::new(),
            len: 0,
        }
    }

    /// Finds what can be told at once.
    pub fn go_on(&mut self) -> Result<(), Missing> {
        self.compare()?;
        for ino in &self.touched {
            self.before.want(*ino)?;
            self.after.want(*ino)?;
        }
        self.before.find()?;
        self.after.find()?;
        while let Some(ino) = self.touched.front().filter(|_| self.len < ANSWER_LEN_MAX) {
            let found = self.judge(*ino)?;
            self.len += found.iter().map(len).sum::<usize>();
            self.judged = *ino;
            self.found.extend(found);
            self.touched.pop_front();
        }
        Ok(())
    }

    /// Returns what was found, and the inode behind which there may be more.
    pub fn answer(self) -> (Vec<Difference>, Option<Ino>) {
        let is_end = self.is_end && self.touched.is_empty();
        (self.found, (!is_end).then_some(self.judged))
    }

    /// Collects inodes whose attributes differ.
    fn compare(&mut self) -> Result<(), Missing> {
        while !self.is_end && self.touched.len() < INODES_MAX {
            let mut is_end = true;
            let from = Key::attr(self.compared.next());
            self.before.branch.tree.diff(
                &self.after.branch.tree,
                Bound::Included(&*from),
                |key, old, new| {
                    is_end = false;
                    match Named::parse(key) {
                        Some(Named::Attr(ino)) => {
                            let attr = |value: Option<&[u8]>| {
                                value.map(|value| Attr::parsed(value).expect("only valid attributes are put"))
                            };
                            self.before.attrs.insert(ino, attr(old));
                            self.after.attrs.insert(ino, attr(new));
                            self.touched.push_back(ino);
                            self.compared = ino;
                            if self.touched.len() < INODES_MAX {
                                ControlFlow::Continue(())
                            } else {
                                ControlFlow::Break(())
                            }
                        }
                        // What else differs of it is looked at when it is judged.
                        Some(Named::Target(ino) | Named::Xattr(ino, _) | Named::Entry(ino, _)) => {
                            self.compared = ino;
                            ControlFlow::Break(())
                        }
                        Some(Named::Extent(..) | Named::Orphan(_) | Named::Conflict(_)) | None => {
                            is_end = true;
                            ControlFlow::Break(())
                        }
                    }
                },
            )?;
            self.is_end = is_end;
        }
        Ok(())
    }

    /// Returns what is to be told about an inode that was touched.
    fn judge(&self, ino: Ino) -> Result<Vec<Difference>, Missing> {
        let (was, is) = (self.before.places(ino), self.after.places(ino));
        let (kept, fresh): (Vec<_>, Vec<_>) = is.iter().partition(|place| was.binary_search(place).is_ok());
        let gone = was.iter().filter(|place| is.binary_search(place).is_err());

        let mut pairs: Vec<(Option<There<'_>>, Option<There<'_>>)> = Vec::new();
        pairs.extend(
            kept.into_iter()
                .map(|place| (Some((ino, place)), Some((ino, place)))),
        );
        let mut made = Vec::new();
        for place in fresh {
            match self.replaced(place, ino)? {
                Some(old) => pairs.push((Some((old, place)), Some((ino, place)))),
                None => made.push(place),
            }
        }
        let mut removed = Vec::new();
        for place in gone {
            // What is there in its place is told as a change of what is there.
            let is_replaced = match self.after.occupant(place)? {
                Some(new) if is.is_empty() => !self.is_moved_directory(new)?,
                Some(_) | None => false,
            };
            if !is_replaced {
                removed.push(place);
            }
        }
        let (mut removed, mut made) = (removed.into_iter(), made.into_iter());
        loop {
            match (removed.next(), made.next()) {
                (None, None) => break,
                (old, new) => pairs.push((old.map(|place| (ino, place)), new.map(|place| (ino, place)))),
            }
        }
        let mut found = Vec::new();
        for (old, new) in pairs {
            found.extend(self.difference(old, new)?);
        }
        Ok(found)
    }

    /// Returns the inode that was at a place before and is nowhere after, if the one that is there now is told as a change of it.
    fn replaced(&self, place: &Place, by: Ino) -> Result<Option<Ino>, Missing> {
        if self.is_moved_directory(by)? {
            return Ok(None);
        }
        let Some(old) = self.before.occupant(place)? else {
            return Ok(None);
        };
        let after = self.after.attr(old)?;
        Ok(after.is_none_or(|attr| attr.nlink == 0).then_some(old))
    }

    /// Tells whether an inode is a directory that was somewhere before: what is below it has moved along, so it is told as
    /// renamed whatever it has replaced.
    fn is_moved_directory(&self, ino: Ino) -> Result<bool, Missing> {
        let is_directory = self.after.attr(ino)?.is_some_and(|attr| attr.is_directory());
        Ok(is_directory && self.before.attr(ino)?.is_some_and(|attr| attr.nlink > 0))
    }

    /// Returns how what was at one place differs from what is at another, if that is to be told.
    fn difference(
        &self,
        old: Option<There<'_>>,
        new: Option<There<'_>>,
    ) -> Result<Option<Difference>, Missing> {
        let before = old.map(|(ino, _)| self.before.side(ino)).transpose()?.flatten();
        let after = new.map(|(ino, _)| self.after.side(ino)).transpose()?.flatten();
        let is_moved = old.zip(new).is_some_and(|((_, old), (_, new))| old != new);
        let is_at = new.map(|(_, place)| self.after.path(place));
        let was_at = old
            .filter(|_| is_moved || new.is_none())
            .map(|(_, place)| self.before.path(place));
        let (content_differs, xattrs_differ) = match (&before, &after) {
            (Some(before), Some(after)) => (
                self.content_differs(before, after)?,
                self.xattrs_differ(before, after)?,
            ),
            (None, None) => return Ok(None),
            (Some(_), None) | (None, Some(_)) => (false, false),
        };
        let is_otherwise = before.as_ref().zip(after.as_ref()).is_none_or(|(before, after)| {
            let said = |side: &Side| (side.attr.mode, side.attr.uid, side.attr.gid);
            said(before) != said(after)
        });
        let is_below =
            |path: &Option<Box<[u8]>>| path.as_ref().is_some_and(|path| is_below(path, &self.below));
        let is_told = is_moved || is_otherwise || content_differs || xattrs_differ;
        if !is_told || !is_below(&was_at) && !is_below(&is_at) {
            return Ok(None);
        }
        let moved_from = was_at.clone().filter(|_| is_moved);
        Ok(is_at.or(was_at).map(|path| Difference {
            path,
            moved_from,
            before,
            after,
            content_differs,
            xattrs_differ,
        }))
    }

    fn content_differs(&self, before: &Side, after: &Side) -> Result<bool, Missing> {
        let (old, new) = (&before.attr, &after.attr);
        if old.kind != new.kind {
            return Ok(true);
        }
        let is_one = before.ino == after.ino;
        match new.kind {
            Kind::File if old.size != new.size => Ok(true),
            Kind::File if is_one => {
                self.rows_differ(&Key::extent(after.ino, 0), &Key::extents_end(after.ino))
            }
            Kind::File => Ok(self.before.bytes_of(before)? != self.after.bytes_of(after)?),
            Kind::Symlink => Ok(before.target != after.target),
            Kind::CharDevice | Kind::BlockDevice => Ok(old.rdev != new.rdev),
            Kind::Directory | Kind::Fifo | Kind::Socket => Ok(false),
        }
    }

    fn xattrs_differ(&self, before: &Side, after: &Side) -> Result<bool, Missing> {
        if before.ino == after.ino {
            return self.rows_differ(&Key::xattr(after.ino, &[]), &Key::xattrs_end(after.ino));
        }
        Ok(self.before.xattrs_of(before.ino)? != self.after.xattrs_of(after.ino)?)
    }

    /// Tells whether any record between two keys differs.
    fn rows_differ(&self, from: &Key, to: &Key) -> Result<bool, Missing> {
        let mut differ = false;
        let (before, after) = (&self.before.branch.tree, &self.after.branch.tree);
        before.diff(after, Bound::Included(&**from), |key, _, _| {
            differ = *key < **to;
            ControlFlow::Break(())
        })?;
        Ok(differ)
    }
}

/// Tells whether `path` is `below` or somewhere below it.
pub(crate) fn is_below(path: &[u8], below: &[u8]) -> bool {
    let rest = path.strip_prefix(below);
    below.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns how long a difference is in a message, about.
fn len(difference: &Difference) -> usize {
    let moved_from = difference.moved_from.as_ref().map_or(0, |path| path.len());
    DIFFERENCE_LEN + difference.path.len() + moved_from
}
