//! A file as one of the three states has it, and what two versions of it have in common.

use crate::branch::Branch;
use crate::diff::view::{Place, View};
use crate::key::Key;
use crate::tree::Missing;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_model::attr::Xattrs;
use tenure_model::{Attr, Extent, Ino, Kind, PackNumber, Piece, acl};

/// An inode as one state has it.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) ino: Ino,
    pub(super) attr: Attr,
    /// Where it is, in order.
    pub(super) places: Vec<Place>,
}

impl Version {
    /// Returns an inode as a state has it, if it is anywhere there.
    pub(super) fn of(view: &mut View, ino: Ino) -> Result<Option<Self>, Missing> {
        view.want(ino)?;
        view.find()?;
        let places = view.places(ino).to_vec();
        let attr = view.attr(ino)?.filter(|_| !places.is_empty());
        Ok(attr.map(|attr| Version { ino, attr, places }))
    }

    pub(super) fn is_directory(&self) -> bool {
        self.attr.is_directory()
    }
}

/// Versions of two states.
pub(super) struct Pair<'a> {
    pub(super) before: (&'a Branch, &'a Version),
    pub(super) after: (&'a Branch, &'a Version),
}

impl Pair<'_> {
    fn attrs(&self) -> (&Attr, &Attr) {
        (&self.before.1.attr, &self.after.1.attr)
    }

    fn is_one_inode(&self) -> bool {
        self.before.1.ino == self.after.1.ino
    }

    /// Tells whether both are of one kind and have the same bytes, or lead to the same place, as far as that is told without reading them.
    pub(super) fn is_same_content(&self) -> Result<bool, Missing> {
        let (old, new) = self.attrs();
        let (before, after) = (self.before.0, self.after.0);
        if old.kind != new.kind {
            return Ok(false);
        }
        match new.kind {
            Kind::File if old.size != new.size => Ok(false),
            Kind::File => Ok(
                self.has_same_rows(Key::extent(self.after.1.ino, 0), Key::extents_end)?
                    || pieces(before, self.before.1)? == pieces(after, self.after.1)?,
            ),
            Kind::Symlink => Ok(target(before, self.before.1)? == target(after, self.after.1)?),
            Kind::CharDevice | Kind::BlockDevice => Ok(old.rdev == new.rdev),
            Kind::Directory | Kind::Fifo | Kind::Socket => Ok(true),
        }
    }

    /// Tells whether both are one inode of which the same is said between a key and another.
    fn has_same_rows(&self, from: Key, to: impl Fn(Ino) -> Key) -> Result<bool, Missing> {
        if !self.is_one_inode() {
            return Ok(false);
        }
        let (mut is_same, to) = (true, to(self.after.1.ino));
        let (before, after) = (&self.before.0.tree, &self.after.0.tree);
        before.diff(after, Bound::Included(&from), |key, _, _| {
            is_same = *key >= *to;
            ControlFlow::Break(())
        })?;
        Ok(is_same)
    }

    /// Tells whether both have the same mode, owner and extended attributes.
    pub(super) fn has_same_attributes(&self) -> Result<bool, Missing> {
        let (old, new) = self.attrs();
        let said = |attr: &Attr| (attr.mode, attr.uid, attr.gid, attr.xattrs);
        if said(old) != said(new) || !new.xattrs.has(Xattrs::ANY) {
            return Ok(said(old) == said(new));
        }
        let is_same = self.has_same_rows(Key::xattr(self.after.1.ino, &[]), Key::xattrs_end)?;
        Ok(is_same || xattrs(self.before.0, self.before.1.ino)? == xattrs(self.after.0, self.after.1.ino)?)
    }

    /// Tells whether both are the same but for where they are and for times.
    pub(super) fn is_same(&self) -> Result<bool, Missing> {
        Ok(self.is_same_content()? && self.has_same_attributes()?)
    }
}

/// Returns a file's pieces, which are equal where their bytes are and were cut alike, whichever packs they are in.
fn pieces(branch: &Branch, file: &Version) -> Result<Vec<Piece>, Missing> {
    let mut pieces = branch.pieces(file.ino, 0, file.attr.size)?;
    for piece in &mut pieces {
        if let Extent::Chunk { at, .. } = &mut piece.extent {
            at.pack = PackNumber(0);
        }
    }
    Ok(pieces)
}

fn target(branch: &Branch, symlink: &Version) -> Result<Option<Vec<u8>>, Missing> {
    branch.tree.get(&Key::target(symlink.ino), <[u8]>::to_vec)
}

/// Returns the names and values of an inode's extended attributes.
pub(super) fn xattrs(branch: &Branch, ino: Ino) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Missing> {
    let (from, to) = (Key::xattr(ino, &[]), Key::xattrs_end(ino));
    let mut xattrs = BTreeMap::new();
    let bounds = (Bound::Included(&*from), Bound::Excluded(&*to));
    branch.tree.scan(bounds.0, bounds.1, |key, value| {
        if let Some(crate::key::Named::Xattr(_, name)) = crate::key::Named::parse(key) {
            xattrs.insert(name.to_vec(), value.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(xattrs)
}

/// What is said of an inode besides its content and its places. The permissions and the list that refines them are one.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Said {
    mode: (u32, Option<Vec<u8>>),
    uid: u32,
    gid: u32,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Said {
    pub(super) fn of(attr: &Attr, mut xattrs: BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let list = xattrs.remove(acl::ACCESS);
        Self {
            mode: (attr.mode, list),
            uid: attr.uid,
            gid: attr.gid,
            xattrs,
        }
    }

    /// Returns what is said where `ours` and `theirs` have each changed `base`, and whether all of it fits together; where it does not, it is
    /// as `ours` says.
    pub(super) fn merged(base: Option<&Self>, ours: &Self, theirs: &Self) -> (Self, bool) {
        let mut fits = true;
        let mut merged = ours.clone();
        merged.mode = field(base.map(|base| &base.mode), &ours.mode, &theirs.mode, &mut fits).clone();
        merged.uid = *field(base.map(|base| &base.uid), &ours.uid, &theirs.uid, &mut fits);
        merged.gid = *field(base.map(|base| &base.gid), &ours.gid, &theirs.gid, &mut fits);
        let names: Vec<&Vec<u8>> = theirs.xattrs.keys().chain(ours.xattrs.keys()).collect();
        for name in names {
            let before = base.map(|base| base.xattrs.get(name));
            let (here, there) = (ours.xattrs.get(name), theirs.xattrs.get(name));
            let value = *field(before.as_ref(), &here, &there, &mut fits);
            match value {
                Some(value) => drop(merged.xattrs.insert(name.clone(), value.clone())),
                None => drop(merged.xattrs.remove(name)),
            }
        }
        (merged, fits)
    }

    /// Writes into attributes what is said of mode and owner and which extended attributes there are.
    pub(super) fn say(&self, attr: &mut Attr) {
        (attr.mode, attr.uid, attr.gid) = (self.mode.0, self.uid, self.gid);
        let all = self.all();
        attr.xattrs = Xattrs(all.keys().fold(0, |flags, name| flags | Xattrs::of(name).0));
    }

    /// Returns all extended attributes.
    pub(super) fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = self.xattrs.clone();
        if let Some(list) = &self.mode.1 {
            all.insert(acl::ACCESS.to_vec(), list.clone());
        }
        all
    }
}

/// Returns what one field is; where both have changed it to different values it is ours, and does not fit.
fn field<'a, T: PartialEq>(base: Option<&T>, ours: &'a T, theirs: &'a T, fits: &mut bool) -> &'a T {
    if ours == theirs || base == Some(theirs) {
        return ours;
    }
    if base == Some(ours) {
        return theirs;
    }
    *fits = false;
    ours
}
