//! One of the two branches of a diff: where inodes are in it.
//!
//! An inode knows its directory, not its name, so directories are looked through for all that is wanted of them at once. Where one
//! does not know all its directories, the whole branch is looked through: it has several names, or it was made by an
//! earlier version.

use crate::branch::{Branch, Undecided};
use crate::change::entry_parts;
use crate::key::{Key, Named};
use crate::tree::Missing;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use tenure_model::{Attr, Extent, Ino, Kind, Name, PackNumber, Piece, Side};

/// A place for an inode: a name in a directory. The root directory has no name, in itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) directory: Ino,
    pub(crate) name: Box<[u8]>,
}

pub(crate) struct View {
    pub(crate) branch: Branch,
    /// Attributes that are known; none of inodes that are not there.
    pub(crate) attrs: BTreeMap<Ino, Option<Attr>>,
    /// Where inodes are, in order.
    places: BTreeMap<Ino, Vec<Place>>,
    /// Directories that are still to be looked through, and for which inodes.
    wanted: BTreeMap<Ino, BTreeSet<Ino>>,
    /// The last cookie that was looked at in the first of these.
    cookie: u64,
    /// Inodes for which everything is still to be looked through.
    lost: BTreeSet<Ino>,
    /// The last key that was looked at for these.
    key: Vec<u8>,
}

impl View {
    pub(crate) fn new(branch: Branch) -> Self {
        let root = Place {
            directory: Ino::ROOT,
            name: Box::from([]),
        };
        Self {
            branch,
            attrs: BTreeMap::new(),
            places: BTreeMap::from([(Ino::ROOT, vec![root])]),
            wanted: BTreeMap::new(),
            cookie: 0,
            lost: BTreeSet::new(),
            key: Vec::new(),
        }
    }

    /// Returns an inode's attributes, or none where it is not there.
    pub(crate) fn attr(&self, ino: Ino) -> Result<Option<Attr>, Missing> {
        match self.attrs.get(&ino) {
            Some(known) => Ok(*known),
            None => self.branch.attr(ino),
        }
    }

    /// Asks for the places of an inode and of the directories above it.
    pub(crate) fn want(&mut self, ino: Ino) -> Result<(), Missing> {
        let (mut at, mut way) = (ino, Vec::new());
        // A tree in which directories go round in circles is damaged; it must not be followed for ever.
        while !self.places.contains_key(&at) && !self.lost.contains(&at) && way.len() <= self.attrs.len() {
            let attr = self.attr(at)?;
            self.attrs.insert(at, attr);
            match attr.filter(|attr| attr.nlink > 0) {
                None => {
                    self.places.insert(at, Vec::new());
                }
                Some(attr) if attr.parent == Ino(0) => {
                    self.lost.insert(at);
                }
                Some(attr) => {
                    way.push((attr.parent, at));
                    at = attr.parent;
                }
            }
        }
        // Only now, when no page is missing any more: who is wanted has all above him wanted too.
        for (directory, ino) in way {
            self.wanted.entry(directory).or_default().insert(ino);
        }
        Ok(())
    }

    /// Finds all places that were asked for.
    pub(crate) fn find(&mut self) -> Result<(), Missing> {
        loop {
            while let Some((directory, inos)) = self.wanted.pop_first() {
                let looked = self.look_through(directory, &inos);
                if looked.is_err() {
                    self.wanted.insert(directory, inos);
                }
                looked?;
            }
            if self.lost.is_empty() {
                return Ok(());
            }
            self.look_everywhere()?;
        }
    }

    /// Finds the places of some inodes in one directory.
    fn look_through(&mut self, directory: Ino, inos: &BTreeSet<Ino>) -> Result<(), Missing> {
        let names = |ino: &Ino| {
            self.attrs
                .get(ino)
                .copied()
                .flatten()
                .map_or(0, |attr| names_of(&attr))
        };
        let places = &mut self.places;
        let lacks =
            |places: &BTreeMap<Ino, Vec<Place>>, ino: &Ino| places.get(ino).map_or(0, Vec::len) < names(ino);
        let mut left = inos.iter().filter(|ino| lacks(places, ino)).count();
        self.branch.list(directory, self.cookie, |entry| {
            self.cookie = entry.cookie;
            if inos.contains(&entry.ino) {
                let name = entry.name.into();
                places
                    .entry(entry.ino)
                    .or_default()
                    .push(Place { directory, name });
                left -= usize::from(!lacks(places, &entry.ino));
            }
            if left > 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        self.cookie = 0;
        for ino in inos {
            if lacks(places, ino) {
                places.remove(ino);
                self.lost.insert(*ino);
            } else if let Some(places) = places.get_mut(ino) {
                places.sort();
            }
        }
        Ok(())
    }

    /// Finds all places of the lost inodes, and asks for the directories that these are in.
    fn look_everywhere(&mut self) -> Result<(), Missing> {
        let from = match &*self.key {
            [] => Bound::Unbounded,
            _ => Bound::Excluded(self.key.clone()),
        };
        let (from, to) = (from.as_ref().map(Vec::as_slice), Key::extent(Ino(0), 0));
        let tree = &self.branch.tree;
        tree.scan(from, Bound::Excluded(&*to), |key, value| {
            self.key.clear();
            self.key.extend_from_slice(key);
            if let Some(Named::Entry(directory, _)) = Named::parse(key) {
                let (ino, _, name) = entry_parts(value).expect("only valid entries are put");
                if self.lost.contains(&ino) {
                    let name = name.into();
                    self.places
                        .entry(ino)
                        .or_default()
                        .push(Place { directory, name });
                }
            }
            ControlFlow::Continue(())
        })?;
        let mut directories = BTreeSet::new();
        for ino in &self.lost {
            let places = self.places.entry(*ino).or_default();
            places.sort();
            directories.extend(places.iter().map(|place| place.directory));
        }
        for directory in directories {
            self.want(directory)?;
        }
        self.lost.clear();
        self.key.clear();
        Ok(())
    }

    /// Returns the places of an inode that was asked for and found.
    pub(crate) fn places(&self, ino: Ino) -> &[Place] {
        self.places.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Returns the inode at a place.
    pub(crate) fn occupant(&self, place: &Place) -> Result<Option<Ino>, Missing> {
        let Ok(name) = Name::parse(&place.name) else {
            return Ok(Some(Ino::ROOT));
        };
        match self.branch.lookup(place.directory, &name) {
            Ok(ino) => Ok(Some(ino)),
            Err(Undecided::Missing(missing)) => Err(missing),
            Err(Undecided::Refused(_)) => Ok(None),
        }
    }

    /// Returns the path of a place whose directory was asked for and found.
    pub(crate) fn path(&self, place: &Place) -> Box<[u8]> {
        let mut names = vec![&*place.name];
        let mut directory = place.directory;
        // A tree in which directories go round in circles is damaged; it must not be followed for ever.
        while directory != Ino::ROOT && names.len() <= self.places.len() {
            let Some(above) = self.places(directory).first() else {
                break;
            };
            names.push(&above.name);
            directory = above.directory;
        }
        names.reverse();
        names.join(&b'/').into()
    }

    /// Returns an inode as it is here.
    pub(crate) fn side(&self, ino: Ino) -> Result<Option<Side>, Missing> {
        let Some(attr) = self.attr(ino)? else {
            return Ok(None);
        };
        let target = match attr.kind {
            Kind::Symlink => self.branch.tree.get(&Key::target(ino), |target| target.into())?,
            Kind::Fifo
            | Kind::CharDevice
            | Kind::Directory
            | Kind::BlockDevice
            | Kind::File
            | Kind::Socket => None,
        };
        Ok(Some(Side {
            ino,
            attr,
            target: target.unwrap_or_default(),
        }))
    }

    /// Returns a file's pieces, equal where the bytes behind them are equal and were cut alike, whichever packs they are in.
    pub(crate) fn bytes_of(&self, file: &Side) -> Result<Vec<Piece>, Missing> {
        let mut pieces = self.branch.pieces(file.ino, 0, file.attr.size)?;
        for piece in &mut pieces {
            if let Extent::Chunk { at, .. } = &mut piece.extent {
                at.pack = PackNumber(0);
            }
        }
        Ok(pieces)
    }

    /// Returns the names and values of an inode's extended attributes.
    pub(crate) fn xattrs_of(&self, ino: Ino) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Missing> {
        let mut xattrs = BTreeMap::new();
        let (from, to) = (Key::xattr(ino, &[]), Key::xattrs_end(ino));
        let tree = &self.branch.tree;
        tree.scan(Bound::Included(&*from), Bound::Excluded(&*to), |key, value| {
            if let Some(Named::Xattr(_, name)) = Named::parse(key) {
                xattrs.insert(name.to_vec(), value.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(xattrs)
    }
}

/// Returns how many entries an inode has.
fn names_of(attr: &Attr) -> usize {
    if attr.is_directory() {
        1
    } else {
        attr.nlink as usize
    }
}
