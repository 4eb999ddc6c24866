//! The invariants of a branch, looked at one by one. `tenure check` is this.
//!
//! Every record is seen once and counted for the inodes that it is about; then each inode's counts are held against
//! what it says of itself. It finds whatever a rule should never have made, and trusts nothing that it reads.

use crate::branch::{Branch, Totals};
use crate::change::entry_parts;
use crate::cookie::NameHash;
use crate::key::Named;
use crate::tree::Missing;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_model::acl::{self, Acl};
use tenure_model::attr::Xattrs;
use tenure_model::codec::Codec;
use tenure_model::{Attr, Conflict, Extent, Ino, Kind, Name};

/// Bits of the mode that an access control list says too.
const PERMISSIONS: u32 = 0o777;

/// What was counted about one inode, to be held against what it says of itself.
#[derive(Default)]
struct Counted {
    attr: Option<Attr>,
    named: u32,
    entries: u64,
    directories: u32,
    allocated: u64,
    content_end: u64,
    target_len: Option<u64>,
    is_orphan: bool,
    xattrs: Xattrs,
    acl_mode: Option<u32>,
    /// The last directory with an entry for it that says that it is a directory.
    parent: Option<Ino>,
    /// The directories with an entry for it, where it is none.
    homes: Vec<Ino>,
    /// The kinds that entries say it is, each as a bit.
    kinds: u16,
}

/// Everything that was counted.
struct Count {
    names: NameHash,
    inodes: BTreeMap<Ino, Counted>,
    /// The directory and first cookie of the last entry, and the names seen of those that share both.
    sharing: (Ino, u64, Vec<Box<[u8]>>),
}

impl Branch {
    /// Returns a sentence for each invariant that does not hold; all pages must be in memory.
    pub fn check(&self) -> Result<Vec<String>, Missing> {
        let mut faults = Vec::new();
        let mut count = Count {
            names: self.names,
            inodes: BTreeMap::from([(Ino::ROOT, Counted::default())]),
            sharing: (Ino(0), 0, Vec::new()),
        };
        self.tree.scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
            if let Err(fault) = count.record(key, value) {
                faults.push(fault);
            }
            ControlFlow::Continue(())
        })?;
        let inodes = count.inodes;
        inodes
            .iter()
            .for_each(|(ino, counted)| faults.extend(counted.faults(*ino)));
        faults.extend(unreached(&inodes));
        let totals = Totals {
            inodes: inodes.len() as u64,
            bytes: inodes.values().map(|counted| counted.allocated).sum(),
        };
        if totals != self.totals {
            faults.push(format!(
                "the branch says that it holds {:?} and holds {totals:?}",
                self.totals
            ));
        }
        Ok(faults)
    }
}

impl Count {
    fn inode(&mut self, ino: Ino) -> &mut Counted {
        self.inodes.entry(ino).or_default()
    }

    /// Counts one record.
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let malformed = |what: &str| format!("malformed {what} under the key {}", key.escape_ascii());
        match Named::parse(key).ok_or_else(|| malformed("key"))? {
            Named::Attr(ino) => {
                self.inode(ino).attr = Some(Attr::parsed(value).map_err(|_| malformed("attributes"))?);
            }
            Named::Target(ino) => self.inode(ino).target_len = Some(value.len() as u64),
            Named::Xattr(ino, name) => {
                let counted = self.inode(ino);
                counted.xattrs.0 |= Xattrs::of(name).0;
                if matches!(name, acl::ACCESS | acl::DEFAULT) {
                    let list = Acl::parse(value).map_err(|_| malformed("access control list"))?;
                    if name == acl::ACCESS {
                        counted.acl_mode = Some(list.mode());
                    }
                }
            }
            Named::Orphan(ino) => self.inode(ino).is_orphan = true,
            Named::Conflict(_) => drop(Conflict::parsed(value).map_err(|_| malformed("conflict"))?),
            Named::Extent(ino, offset) => {
                let extent = Extent::parsed(value).map_err(|_| malformed("extent"))?;
                self.extent(ino, offset, extent.len())?;
            }
            Named::Entry(parent, cookie) => {
                let (ino, d_type, name) = entry_parts(value).map_err(|_| malformed("entry"))?;
                let kind = Kind::of_d_type(d_type).ok_or_else(|| malformed("kind of an entry"))?;
                Name::parse(name).map_err(|_| malformed("name"))?;
                self.entry((parent, cookie, name), ino, kind)?;
            }
        }
        Ok(())
    }

    fn extent(&mut self, ino: Ino, offset: u64, len: u64) -> Result<(), String> {
        let counted = self.inode(ino);
        counted.allocated += len;
        let (before, end) = (counted.content_end, offset.saturating_add(len));
        counted.content_end = end.max(before);
        if offset < before {
            return Err(format!(
                "inode {ino}: the extent at {offset} overlaps the one before"
            ));
        }
        Ok(())
    }

    fn entry(
        &mut self,
        (parent, cookie, name): (Ino, u64, &[u8]),
        ino: Ino,
        kind: Kind,
    ) -> Result<(), String> {
        let is_directory = kind == Kind::Directory;
        let counted = self.inode(parent);
        counted.entries += 1;
        counted.directories += u32::from(is_directory);
        let child = self.inode(ino);
        child.named += 1;
        if is_directory {
            child.parent = Some(parent);
        } else if child.homes.last() != Some(&parent) {
            child.homes.push(parent);
        }
        child.kinds |= 1 << kind.d_type();
        let fault = |what: &str| {
            Err(format!(
                "inode {parent}: the entry \"{}\" {what}",
                name.escape_ascii()
            ))
        };
        let cookies = self.names.cookies(name);
        if !cookies.contains(&cookie) {
            return fault("is not where its name belongs");
        }
        if (self.sharing.0, self.sharing.1) != (parent, cookies.start) {
            self.sharing = (parent, cookies.start, Vec::new());
        }
        if self.sharing.2.iter().any(|other| **other == *name) {
            return fault("is there twice");
        }
        self.sharing.2.push(name.into());
        Ok(())
    }
}

impl Counted {
    fn faults(&self, ino: Ino) -> Vec<String> {
        let Some(attr) = &self.attr else {
            let what = if self.named > 0 {
                "an entry names it, but it"
            } else {
                "it"
            };
            return vec![format!("inode {ino}: {what} has no attributes")];
        };
        let mut faults = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("inode {ino}: {what}"));
            }
        };
        must(
            self.is_orphan || attr.nlink > 0,
            "it has no link and is not noted as an orphan",
        );
        must(
            !self.is_orphan || attr.nlink == 0,
            "it is noted as an orphan and has links",
        );
        must(
            self.kinds & !(1 << attr.kind.d_type()) == 0,
            "an entry says that it is of another kind",
        );
        must(
            self.allocated == attr.allocated,
            "its allocated bytes are not those of its extents",
        );
        must(
            self.xattrs == attr.xattrs,
            "its extended attributes are not those that it says it has",
        );
        let permissions = self.acl_mode.unwrap_or(attr.mode & PERMISSIONS);
        must(
            permissions == attr.mode & PERMISSIONS,
            "its mode and its access control list disagree",
        );
        match attr.kind {
            Kind::File => must(self.content_end <= attr.size, "an extent lies behind its end"),
            Kind::Symlink => must(
                self.target_len == Some(attr.size),
                "its target is not as long as it says",
            ),
            Kind::Directory | Kind::Fifo | Kind::CharDevice | Kind::BlockDevice | Kind::Socket => {}
        }
        must(
            self.allocated == 0 || attr.kind == Kind::File,
            "it has content and is not a file",
        );
        must(
            self.target_len.is_none() || attr.kind == Kind::Symlink,
            "it has a target and is not a symlink",
        );
        if attr.is_directory() {
            self.directory_faults(ino, attr, must);
        } else {
            must(ino != Ino::ROOT, "the root is not a directory");
            must(
                self.named == attr.nlink,
                "its links are not the entries that name it",
            );
            must(self.entries == 0, "it has entries and is not a directory");
            must(
                attr.parent == Ino(0) || self.homes.contains(&attr.parent),
                "the directory in which it says that it is has no entry for it",
            );
        }
        faults
    }

    fn directory_faults(&self, ino: Ino, attr: &Attr, mut must: impl FnMut(bool, &str)) {
        let is_there = attr.nlink > 0;
        must(
            self.entries == attr.size,
            "its size is not the number of its entries",
        );
        must(is_there || self.entries == 0, "it is removed and has entries");
        must(
            !is_there || attr.nlink == 2 + self.directories,
            "its links are not 2 and its directories",
        );
        let (named, parent) = if ino == Ino::ROOT {
            (0, Some(ino))
        } else {
            (u32::from(is_there), self.parent)
        };
        must(self.named == named, "it is not named by one entry");
        must(
            !is_there || parent == Some(attr.parent),
            "it does not know where it is",
        );
    }
}

/// Names the directories from which the root cannot be reached.
fn unreached(inodes: &BTreeMap<Ino, Counted>) -> Vec<String> {
    let mut reaches: BTreeMap<Ino, bool> = BTreeMap::from([(Ino::ROOT, true)]);
    let mut faults = Vec::new();
    for (ino, counted) in inodes {
        if !counted
            .attr
            .is_some_and(|attr| attr.is_directory() && attr.nlink > 0)
        {
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
            faults.push(format!(
                "inode {ino}: the root cannot be reached from this directory"
            ));
        }
    }
    faults
}
