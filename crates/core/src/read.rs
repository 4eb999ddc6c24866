//! Reading a branch: attributes, entries, targets, extended attributes and extents.

use crate::branch::Branch;
use crate::change::{Change, entry_parts};
use crate::key::{Key, Named};
use crate::tree::Missing;
use crate::{Undecided, content};
use std::ops::{Bound, ControlFlow};
use tenure_model::attr::Xattrs;
use tenure_model::codec::Codec;
use tenure_model::limits::XATTR_NAME_LEN_MAX;
use tenure_model::{Attr, Extent, Ino, Kind, Name, Piece, Refusal};

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Its place in the directory; a listing goes on behind it.
    pub cookie: u64,
    /// The inode that it names.
    pub ino: Ino,
    /// The kind of that inode.
    pub kind: Kind,
    /// Its name.
    pub name: &'a [u8],
}

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is not in a hole.
    Data,
    /// The next byte that is in a hole; the end of the file is one.
    Hole,
}

impl Branch {
    /// Returns an inode's attributes, or none when there is no such inode.
    pub fn attr(&self, ino: Ino) -> Result<Option<Attr>, Missing> {
        self.tree.get(&Key::attr(ino), |value| {
            Attr::parsed(value).expect("only valid attributes are put")
        })
    }

    /// Returns the inode that `name` names in `parent`.
    pub fn lookup(&self, parent: Ino, name: &Name) -> Result<Ino, Undecided> {
        let change = Change::new(self);
        match change.find(parent, name)? {
            Some(found) => Ok(found.ino),
            None if self.attr(parent)?.is_some_and(|attr| !attr.is_directory()) => {
                Err(Refusal::NotDirectory.into())
            }
            None => Err(Refusal::NotFound.into()),
        }
    }

    /// Visits the entries of `parent` behind the cookie `after`, in the order of their cookies.
    pub fn list(
        &self,
        parent: Ino,
        after: u64,
        mut visit: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Missing> {
        let (from, to) = (Key::entry(parent, after), Key::entries_end(parent));
        self.tree
            .scan(Bound::Excluded(&*from), Bound::Excluded(&*to), |key, value| {
                let Some(Named::Entry(_, cookie)) = Named::parse(key) else {
                    unreachable!("only entries lie between these keys")
                };
                let (ino, d_type, name) = entry_parts(value).expect("only valid entries are put");
                let kind = Kind::of_d_type(d_type).expect("only valid entries are put");
                visit(DirEntry {
                    cookie,
                    ino,
                    kind,
                    name,
                })
            })
    }

    /// Returns a symlink's target.
    pub fn target(&self, ino: Ino) -> Result<Box<[u8]>, Undecided> {
        let target = self.tree.get(&Key::target(ino), |value| value.into())?;
        target.ok_or(Refusal::InvalidArgument.into())
    }

    /// Returns the value of an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Undecided> {
        let attr = self.attr(ino)?.ok_or(Refusal::NotFound)?;
        // No longer name was ever put, nor is it a key.
        if !attr.xattrs.has(Xattrs::ANY) || name.len() > XATTR_NAME_LEN_MAX {
            return Err(Refusal::NoAttribute.into());
        }
        let value = self.tree.get(&Key::xattr(ino, name), |value| value.into())?;
        value.ok_or(Refusal::NoAttribute.into())
    }

    /// Visits the names of an inode's extended attributes.
    pub fn xattrs(&self, ino: Ino, mut visit: impl FnMut(&[u8])) -> Result<(), Undecided> {
        let attr = self.attr(ino)?.ok_or(Refusal::NotFound)?;
        if attr.xattrs.has(Xattrs::ANY) {
            let (from, to) = (Key::xattr(ino, &[]), Key::xattrs_end(ino));
            self.tree
                .scan(Bound::Included(&*from), Bound::Excluded(&*to), |key, _| {
                    if let Some(Named::Xattr(_, name)) = Named::parse(key) {
                        visit(name);
                    }
                    ControlFlow::Continue(())
                })?;
        }
        Ok(())
    }

    /// Returns the pieces of a file that lie in `offset..end`, cut to that range; what none covers is a hole.
    pub fn pieces(&self, ino: Ino, offset: u64, end: u64) -> Result<Vec<Piece>, Missing> {
        content::pieces(&self.tree, ino, offset, end)
    }

    /// Returns the next offset of data or of a hole at or behind `offset`.
    pub fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64, Undecided> {
        let attr = self.attr(ino)?.ok_or(Refusal::NotFound)?;
        if offset >= attr.size {
            return Err(Refusal::NoSuchOffset.into());
        }
        Ok(match to {
            Seek::Data => content::next_data(&self.tree, ino, offset)?
                .filter(|at| *at < attr.size)
                .ok_or(Refusal::NoSuchOffset)?,
            Seek::Hole => content::next_hole(&self.tree, ino, offset)?.min(attr.size),
        })
    }

    /// Visits every extent of every file: inode, offset and extent.
    pub fn extents(&self, mut visit: impl FnMut(Ino, u64, &Extent)) -> Result<(), Missing> {
        let (from, to) = (Key::extent(Ino(0), 0), Key::extent(Ino(u64::MAX), u64::MAX));
        self.tree
            .scan(Bound::Included(&*from), Bound::Included(&*to), |key, value| {
                // What is no extent is for `check` to tell.
                if let (Some(Named::Extent(ino, offset)), Ok(extent)) =
                    (Named::parse(key), Extent::parsed(value))
                {
                    visit(ino, offset, &extent);
                }
                ControlFlow::Continue(())
            })
    }

    /// Returns the inodes that have no entry and were not dropped.
    pub fn orphans(&self) -> Result<Vec<Ino>, Missing> {
        let mut orphans = Vec::new();
        let (from, to) = (Key::orphan(Ino(0)), Key::orphan(Ino(u64::MAX)));
        self.tree
            .scan(Bound::Included(&*from), Bound::Included(&*to), |key, _| {
                if let Some(Named::Orphan(ino)) = Named::parse(key) {
                    orphans.push(ino);
                }
                ControlFlow::Continue(())
            })?;
        Ok(orphans)
    }
}
