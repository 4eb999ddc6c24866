//! The invariants of a branch, looked at one by one. `tenure check` is this.

use crate::branch::{Branch, Totals};
use crate::change::entry_parts;
use crate::key::Named;
use crate::tree::Missing;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Extent, Ino, Kind};

/// What was counted about one inode, to be held against what it says of itself.
#[derive(Default)]
struct Counted {
    attr: Option<Attr>,
    named: u32,
    entries: u64,
    directories: u32,
    allocated: u64,
    content_end: u64,
    has_target: bool,
    is_orphan: bool,
    parent: Option<Ino>,
}

impl Branch {
    /// Returns a sentence for each invariant that does not hold; all pages must be in memory.
    pub fn check(&self) -> Result<Vec<String>, Missing> {
        let mut faults = Vec::new();
        let mut inodes: BTreeMap<Ino, Counted> = BTreeMap::new();
        self.tree.scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
            if let Err(fault) = count(&mut inodes, key, value) {
                faults.push(fault);
            }
            ControlFlow::Continue(())
        })?;
        inodes.iter().for_each(|(ino, counted)| faults.extend(counted.faults(*ino)));
        faults.extend(loops(&inodes));
        let totals = Totals {
            inodes: inodes.len() as u64,
            bytes: inodes.values().map(|counted| counted.allocated).sum(),
        };
        if totals != self.totals {
            faults.push(format!("the branch says that it holds {:?} and holds {totals:?}", self.totals));
        }
        Ok(faults)
    }
}

fn count(inodes: &mut BTreeMap<Ino, Counted>, key: &[u8], value: &[u8]) -> Result<(), String> {
    let malformed = |what: &str| format!("malformed {what} under the key {}", key.escape_ascii());
    match Named::parse(key).ok_or_else(|| malformed("key"))? {
        Named::Attr(ino) => {
            let attr = Attr::parsed(value).map_err(|_| malformed("attributes"))?;
            inodes.entry(ino).or_default().attr = Some(attr);
        }
        Named::Target(ino) => inodes.entry(ino).or_default().has_target = true,
        Named::Xattr(ino, _) => drop(inodes.entry(ino).or_default()),
        Named::Orphan(ino) => inodes.entry(ino).or_default().is_orphan = true,
        Named::Extent(ino, offset) => {
            let extent = Extent::parsed(value).map_err(|_| malformed("extent"))?;
            let counted = inodes.entry(ino).or_default();
            if offset < counted.content_end {
                return Err(format!("inode {ino}: the extent at {offset} overlaps the one before"));
            }
            counted.content_end = offset + extent.len();
            counted.allocated += extent.len();
        }
        Named::Entry(parent, _) => {
            let (ino, d_type, _) = entry_parts(value).map_err(|_| malformed("entry"))?;
            let is_directory = Kind::of_d_type(d_type) == Some(Kind::Directory);
            let counted = inodes.entry(parent).or_default();
            counted.entries += 1;
            counted.directories += u32::from(is_directory);
            let child = inodes.entry(ino).or_default();
            child.named += 1;
            child.parent = is_directory.then_some(parent);
        }
    }
    Ok(())
}

impl Counted {
    fn faults(&self, ino: Ino) -> Vec<String> {
        let Some(attr) = &self.attr else {
            return vec![format!("inode {ino} has records but no attributes")];
        };
        let mut faults = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("inode {ino}: {what}"));
            }
        };
        must(self.is_orphan == (attr.nlink == 0), "orphans are those without a link");
        must(self.has_target == (attr.kind == Kind::Symlink), "symlinks have a target");
        must(self.allocated == attr.allocated, "the allocated bytes are those of its extents");
        must(self.content_end <= attr.size || attr.kind != Kind::File, "no extent lies behind its end");
        if attr.is_directory() {
            must(self.entries == attr.size, "a directory's size is the number of its entries");
            let links = if attr.nlink == 0 { 0 } else { 2 + self.directories };
            must(attr.nlink == links, "a directory's links are 2 and its directories");
            let parent = if ino == Ino::ROOT { Some(attr.parent) } else { self.parent };
            must(attr.nlink == 0 || parent == Some(attr.parent), "a directory knows where it is");
            must(self.named == u32::from(ino != Ino::ROOT && attr.nlink > 0), "a directory has one entry");
        } else {
            must(self.named == attr.nlink, "its links are the entries that name it");
            must(self.entries == 0, "only directories have entries");
        }
        faults
    }
}

/// Finds directories from which the root cannot be reached.
fn loops(inodes: &BTreeMap<Ino, Counted>) -> Vec<String> {
    let mut reaches: BTreeMap<Ino, bool> = BTreeMap::from([(Ino::ROOT, true)]);
    let mut faults = Vec::new();
    for (ino, counted) in inodes {
        if !counted.attr.is_some_and(|attr| attr.is_directory() && attr.nlink > 0) {
            continue;
        }
        let (mut path, mut at) = (Vec::new(), *ino);
        let reached = loop {
            if let Some(known) = reaches.get(&at) {
                break *known;
            }
            reaches.insert(at, false);
            path.push(at);
            match inodes.get(&at).and_then(|counted| counted.parent) {
                Some(parent) => at = parent,
                None => break false,
            }
        };
        reaches.extend(path.into_iter().map(|at| (at, reached)));
        if !reached {
            faults.push(format!("inode {ino}: the root cannot be reached from this directory"));
        }
    }
    faults
}
