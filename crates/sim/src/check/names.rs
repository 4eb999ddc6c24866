//! The names of a branch as they should be: a small reference of what `core` decides.
//!
//! It is written from POSIX and not from `core`. Invariant: `apply` makes only a change that `decide` allows.

use super::acl;
use std::collections::BTreeMap;
use tenure_model::attr::{MODE_BITS, SETGID, SETUID};
use tenure_model::{Ino, Kind, Name, Refusal, RenameMode, XattrMode, XattrName};

/// What a mode says to owner, group and others.
const PERMISSIONS: u32 = 0o777;

/// Bytes that are no name.
pub(crate) type Bytes = Box<[u8]>;
/// A place for an entry.
pub(crate) type Place = (Ino, Name);

/// One inode, without a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u32,
    pub(crate) target: Bytes,
    pub(crate) xattrs: BTreeMap<XattrName, Bytes>,
    pub(crate) entries: BTreeMap<Name, Ino>,
    pub(crate) parent: Ino,
}

impl Inode {
    fn decide_acl(&self, name: &XattrName) -> Decided {
        refuse_when(
            acl::is_access(name) && self.kind == Kind::Symlink,
            Refusal::NotSupported,
        )?;
        refuse_when(
            acl::is_default(name) && self.kind != Kind::Directory,
            Refusal::AccessDenied,
        )
    }

    fn set_xattr(&mut self, name: &XattrName, value: &[u8]) {
        if acl::is_access(name) {
            self.mode = self.mode & !PERMISSIONS | acl::mode(value);
            self.xattrs.remove(name);
        }
        if !acl::is_access(name) || acl::says_more(value) {
            self.xattrs.insert(name.clone(), value.into());
        }
    }

    fn set_mode(&mut self, mode: u32) {
        self.mode = mode & MODE_BITS;
        if let Some(list) = self.xattrs.get_mut(&acl::access()) {
            *list = acl::with_mode(list, mode);
        }
    }

    /// Takes what a directory's list says about what is made in it.
    fn inherit(&mut self, list: &[u8]) {
        if self.kind == Kind::Directory {
            self.xattrs.insert(acl::default(), list.into());
        }
        let narrowed = acl::mode(list) & self.mode;
        self.set_xattr(&acl::access(), &acl::with_mode(list, narrowed));
    }
}

/// A change of names and attributes, with all that it needs.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A new inode, with an entry or without.
    Create {
        at: Option<Place>,
        parent: Ino,
        ino: Ino,
        kind: Kind,
        mode: u32,
        owner: (u32, u32),
        target: Bytes,
    },
    Link {
        ino: Ino,
        to: Place,
    },
    Unlink {
        at: Place,
    },
    Rmdir {
        at: Place,
    },
    Rename {
        from: Place,
        to: Place,
        mode: RenameMode,
    },
    SetMode {
        ino: Ino,
        mode: u32,
    },
    SetOwner {
        ino: Ino,
        owner: (u32, u32),
    },
    SetXattr {
        ino: Ino,
        name: XattrName,
        value: Bytes,
        mode: XattrMode,
    },
    RemoveXattr {
        ino: Ino,
        name: XattrName,
    },
    Drop {
        ino: Ino,
    },
    /// A change of a file's bytes that has its place in the log, such as a cut.
    Cut {
        ino: Ino,
    },
}

/// All names of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) inodes: BTreeMap<Ino, Inode>,
}

type Decided = Result<(), Refusal>;

impl Names {
    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, Refusal> {
        self.inodes.get(&ino).ok_or(Refusal::NotFound)
    }

    fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        self.inodes.get_mut(&ino).expect("the change was decided")
    }

    fn directory(&self, ino: Ino) -> Result<&Inode, Refusal> {
        let inode = self.inode(ino)?;
        match (inode.kind, inode.nlink) {
            (Kind::Directory, 0) => Err(Refusal::NotFound),
            (Kind::Directory, _) => Ok(inode),
            _ => Err(Refusal::NotDirectory),
        }
    }

    fn entry(&self, at: &Place) -> Result<(Ino, &Inode), Refusal> {
        let directory = self.directory(at.0)?;
        let ino = *directory.entries.get(&at.1).ok_or(Refusal::NotFound)?;
        Ok((ino, self.inode(ino)?))
    }

    fn is_free(&self, at: &Place) -> Decided {
        match self.directory(at.0)?.entries.contains_key(&at.1) {
            true => Err(Refusal::Exists),
            false => Ok(()),
        }
    }

    /// Tells whether a change may be made, or why not.
    pub(crate) fn decide(&self, change: &Change) -> Decided {
        match change {
            Change::Create { at: Some(at), .. } => self.is_free(at),
            Change::Create { at: None, parent, .. } => self.directory(*parent).map(|_| ()),
            Change::Link { ino, to } => {
                let inode = self.inode(*ino)?;
                self.directory(to.0)?;
                if inode.kind == Kind::Directory {
                    return Err(Refusal::NotPermitted);
                }
                self.is_free(to)
            }
            Change::Unlink { at } => {
                refuse_when(self.entry(at)?.1.kind == Kind::Directory, Refusal::IsDirectory)
            }
            Change::Rmdir { at } => is_empty_directory(self.entry(at)?.1),
            Change::Rename { from, to, mode } => self.decide_rename(from, to, *mode),
            Change::SetMode { ino, .. } | Change::SetOwner { ino, .. } => self.inode(*ino).map(|_| ()),
            Change::SetXattr { ino, name, mode, .. } => {
                let inode = self.inode(*ino)?;
                match (mode, inode.xattrs.contains_key(name)) {
                    (XattrMode::Create, true) => Err(Refusal::Exists),
                    (XattrMode::Replace, false) => Err(Refusal::NoAttribute),
                    (XattrMode::Set | XattrMode::Create | XattrMode::Replace, _) => inode.decide_acl(name),
                }
            }
            Change::RemoveXattr { ino, name } => match self.inode(*ino)?.xattrs.contains_key(name) {
                true => Ok(()),
                false => Err(Refusal::NoAttribute),
            },
            Change::Drop { ino } => match self.inode(*ino)?.nlink {
                0 => Ok(()),
                _ => Err(Refusal::NotFound),
            },
            Change::Cut { ino } => {
                let kind = self.inode(*ino)?.kind;
                refuse_when(kind == Kind::Directory, Refusal::IsDirectory)?;
                refuse_when(kind != Kind::File, Refusal::InvalidArgument)
            }
        }
    }

    fn decide_rename(&self, from: &Place, to: &Place, mode: RenameMode) -> Decided {
        let (ino, moved) = self.entry(from)?;
        self.directory(to.0)?;
        if moved.kind == Kind::Directory {
            self.is_not_below(to.0, ino)?;
        }
        let other = self.entry(to).ok();
        match (mode, other) {
            (RenameMode::Exchange, None) => Err(Refusal::NotFound),
            (RenameMode::Exchange, Some((other, inode))) if inode.kind == Kind::Directory => {
                self.is_not_below(from.0, other)
            }
            (RenameMode::Exchange, Some(_)) => Ok(()),
            (RenameMode::NoReplace, Some(_)) => Err(Refusal::Exists),
            (_, Some((other, _))) if other == ino => Ok(()),
            (_, Some((_, inode))) => match (moved.kind, inode.kind) {
                (Kind::Directory, Kind::Directory) => is_empty_directory(inode),
                (Kind::Directory, _) => Err(Refusal::NotDirectory),
                (_, Kind::Directory) => Err(Refusal::IsDirectory),
                _ => Ok(()),
            },
            (_, None) => Ok(()),
        }
    }

    /// Refuses a directory that is `above` or lies below it.
    fn is_not_below(&self, mut ino: Ino, above: Ino) -> Decided {
        while ino != above {
            if ino == Ino::ROOT {
                return Ok(());
            }
            ino = self.inode(ino)?.parent;
        }
        Err(Refusal::InvalidArgument)
    }

    /// Makes a change that was decided; returns the files that got a name.
    pub(crate) fn apply(&mut self, change: &Change) -> Vec<Ino> {
        match change {
            Change::Create { .. } => self.create(change),
            Change::Link { ino, to } => {
                self.inode_mut(*ino).nlink += 1;
                self.put(to, *ino);
                return vec![*ino];
            }
            Change::Unlink { at } | Change::Rmdir { at } => {
                let ino = self.take(at);
                self.lose_name(ino);
            }
            Change::Rename { from, to, mode } => return self.rename(from, to, *mode),
            Change::SetMode { ino, mode } => self.inode_mut(*ino).set_mode(*mode),
            Change::SetOwner { ino, owner } => {
                let inode = self.inode_mut(*ino);
                (inode.uid, inode.gid) = *owner;
                if inode.kind != Kind::Directory {
                    inode.mode &= !SETUID;
                    inode.mode &= if inode.mode & 0o010 != 0 { !SETGID } else { !0 };
                }
            }
            Change::SetXattr { ino, name, value, .. } => {
                self.inode_mut(*ino).set_xattr(name, value);
            }
            Change::RemoveXattr { ino, name } => {
                self.inode_mut(*ino).xattrs.remove(name);
            }
            Change::Drop { ino } => {
                self.inodes.remove(ino);
            }
            Change::Cut { .. } => {}
        }
        Vec::new()
    }

    fn create(&mut self, change: &Change) {
        let Change::Create {
            at,
            parent,
            ino,
            kind,
            mode,
            owner,
            target,
        } = change
        else {
            unreachable!("the caller has looked")
        };
        let directory = self.inode_mut(*parent);
        let inherits = directory.mode & SETGID != 0;
        let inherited = if inherits && *kind == Kind::Directory {
            SETGID
        } else {
            0
        };
        let inode = Inode {
            kind: *kind,
            mode: mode & MODE_BITS | inherited,
            uid: owner.0,
            gid: if inherits { directory.gid } else { owner.1 },
            nlink: match (kind, at) {
                (Kind::Directory, _) => 2,
                (_, Some(_)) => 1,
                (_, None) => 0,
            },
            target: target.clone(),
            xattrs: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent: Ino(0),
        };
        let list = directory.xattrs.get(&acl::default()).cloned();
        self.inodes.insert(*ino, inode);
        if let Some(list) = list.filter(|_| *kind != Kind::Symlink) {
            self.inode_mut(*ino).inherit(&list);
        }
        if let Some(at) = at {
            self.put(at, *ino);
        }
    }

    fn rename(&mut self, from: &Place, to: &Place, mode: RenameMode) -> Vec<Ino> {
        let moved = self.entry(from).expect("the change was decided").0;
        let other = self.entry(to).ok().map(|(ino, _)| ino);
        if other == Some(moved) {
            return Vec::new();
        }
        self.take(from);
        if other.is_some() {
            self.take(to);
        }
        self.put(to, moved);
        if let RenameMode::Whiteout(ino) = mode {
            self.leave_whiteout(from, ino, moved);
        }
        let mut named = vec![moved];
        match (mode, other) {
            (RenameMode::Exchange, Some(other)) => {
                self.put(from, other);
                named.push(other);
            }
            (_, Some(other)) => self.lose_name(other),
            (_, None) => {}
        }
        named
    }

    /// Leaves a character device 0/0 in the place of what was moved (rename(2)).
    fn leave_whiteout(&mut self, at: &Place, ino: Ino, moved: Ino) {
        let like = self.inode_mut(moved);
        let whiteout = Inode {
            kind: Kind::CharDevice,
            mode: 0,
            nlink: 1,
            uid: like.uid,
            gid: like.gid,
            target: Box::default(),
            xattrs: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent: Ino(0),
        };
        self.inodes.insert(ino, whiteout);
        self.put(at, ino);
    }

    fn put(&mut self, at: &Place, ino: Ino) {
        let is_directory = self.inode_mut(ino).kind == Kind::Directory;
        let directory = self.inode_mut(at.0);
        directory.entries.insert(at.1.clone(), ino);
        if is_directory {
            directory.nlink += 1;
            self.inode_mut(ino).parent = at.0;
        }
    }

    fn take(&mut self, at: &Place) -> Ino {
        let directory = self.inode_mut(at.0);
        let ino = directory.entries.remove(&at.1).expect("the change was decided");
        if self.inode_mut(ino).kind == Kind::Directory {
            self.inode_mut(at.0).nlink -= 1;
        }
        ino
    }

    fn lose_name(&mut self, ino: Ino) {
        let inode = self.inode_mut(ino);
        inode.nlink = if inode.kind == Kind::Directory {
            0
        } else {
            inode.nlink - 1
        };
    }

    /// Forgets inodes that have no entry, as the end of a holder does.
    pub(crate) fn without_orphans(&self) -> Self {
        let named = self.inodes.iter().filter(|(_, inode)| inode.nlink > 0);
        Self {
            inodes: named.map(|(ino, inode)| (*ino, inode.clone())).collect(),
        }
    }

    /// Says where names differ from what they should be.
    pub(crate) fn difference(&self, found: &Names) -> Option<String> {
        for (ino, inode) in &self.inodes {
            match found.inodes.get(ino) {
                None => return Some(format!("inode {ino} is missing: {}", self.words(*ino))),
                Some(other) if other != inode => {
                    return Some(format!("inode {ino} is {other:?} and should be {inode:?}"));
                }
                Some(_) => {}
            }
        }
        let extra = found.inodes.keys().find(|ino| !self.inodes.contains_key(ino))?;
        Some(format!(
            "inode {extra} should not be there: {}",
            found.words(*extra)
        ))
    }

    fn words(&self, ino: Ino) -> String {
        let named = |(of, inode): (&Ino, &Inode)| {
            let entry = inode.entries.iter().find(|(_, named)| **named == ino)?;
            Some(format!("{:?} in inode {of}", entry.0))
        };
        let place = self.inodes.iter().find_map(named);
        place.unwrap_or_else(|| "it has no name".to_owned())
    }
}

fn refuse_when(is_refused: bool, refusal: Refusal) -> Decided {
    if is_refused { Err(refusal) } else { Ok(()) }
}

fn is_empty_directory(inode: &Inode) -> Decided {
    match (inode.kind, inode.entries.is_empty()) {
        (Kind::Directory, true) => Ok(()),
        (Kind::Directory, false) => Err(Refusal::NotEmpty),
        _ => Err(Refusal::NotDirectory),
    }
}
