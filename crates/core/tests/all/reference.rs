//! A file tree made of simple maps, written from the manual pages and not from `core`: what a branch must be like.
//!
//! Everything that can be counted is counted when it is asked for, and nothing is kept twice.

mod attribute;
mod content;

use std::collections::BTreeMap;
use tenure_model::attr::Xattrs;
use tenure_model::{Address, Attr, Extent, Ino, Kind, Name, NewNode, Op, Refusal, RenameMode, Timestamp};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A byte of a file, or of a hole.
pub(crate) type Byte = Option<u8>;

/// A chunk's byte: the tests' chunks hold what their address and a place in them make up.
pub(crate) fn chunk_byte(at: &Address, place: u32) -> u8 {
    at.digest.0[0].wrapping_mul(31).wrapping_add(place as u8)
}

pub(crate) fn bytes_of(extent: &Extent) -> Vec<Byte> {
    match extent {
        Extent::Inline(bytes) => bytes.iter().copied().map(Some).collect(),
        Extent::Chunk { at, start, len } => (*start..start + len)
            .map(|place| Some(chunk_byte(at, place)))
            .collect(),
    }
}

/// What can be seen of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) attr: Attr,
    pub(crate) entries: BTreeMap<Vec<u8>, (Ino, Kind)>,
    pub(crate) target: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) bytes: Vec<Byte>,
}

#[derive(Clone)]
struct Inode {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    rdev: u32,
    target: Vec<u8>,
    entries: BTreeMap<Vec<u8>, Ino>,
    /// Where it was put last; of what is no directory nowhere, once it was taken from there.
    parent: Ino,
    bytes: Vec<Byte>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    times: [Timestamp; 4],
}

/// The times of an inode, in the order of `Inode::times`.
const ATIME: usize = 0;
const MTIME: usize = 1;
const CTIME: usize = 2;

#[derive(Clone)]
pub(crate) struct Reference(BTreeMap<Ino, Inode>);

type Done = Result<Option<Ino>, Refusal>;

fn refuse_unless(holds: bool, refusal: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal) }
}

impl Reference {
    pub(crate) fn new(root: &Attr) -> Self {
        let node = NewNode {
            kind: Kind::Directory,
            mode: root.mode,
            umask: 0,
            uid: root.uid,
            gid: root.gid,
            rdev: 0,
            target: Box::from([]),
        };
        Self(BTreeMap::from([(
            Ino::ROOT,
            Inode::new(&node, Ino::ROOT, root.btime),
        )]))
    }

    pub(crate) fn inodes(&self) -> Vec<Ino> {
        self.0.keys().copied().collect()
    }

    fn all(&self, wanted: impl Fn(&Inode) -> bool) -> Vec<Ino> {
        self.0
            .iter()
            .filter(|(_, inode)| wanted(inode))
            .map(|(ino, _)| *ino)
            .collect()
    }

    pub(crate) fn directories(&self) -> Vec<Ino> {
        self.all(|inode| inode.kind == Kind::Directory)
    }

    pub(crate) fn files(&self) -> Vec<Ino> {
        self.all(|inode| inode.kind == Kind::File)
    }

    pub(crate) fn with_xattr(&self, name: &[u8]) -> Vec<Ino> {
        self.all(|inode| inode.xattrs.contains_key(name))
    }

    /// Returns every entry: the directory and the name in it.
    pub(crate) fn entries(&self) -> Vec<(Ino, Name)> {
        let name = |name: &Vec<u8>| Name::parse(name).expect("it was a name when it was put");
        let of = |(ino, inode): (&Ino, &Inode)| {
            inode
                .entries
                .keys()
                .map(|key| (*ino, name(key)))
                .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// Returns the number of bytes of a file, or 0 where there is none.
    pub(crate) fn size(&self, ino: Ino) -> u64 {
        self.0.get(&ino).map_or(0, |inode| inode.bytes.len() as u64)
    }

    pub(crate) fn see(&self) -> BTreeMap<Ino, Seen> {
        self.0.keys().map(|ino| (*ino, self.seen(*ino))).collect()
    }

    fn seen(&self, ino: Ino) -> Seen {
        let inode = &self.0[&ino];
        let entry = |(name, ino): (&Vec<u8>, &Ino)| (name.clone(), (*ino, self.0[ino].kind));
        Seen {
            attr: self.attr(ino),
            entries: inode.entries.iter().map(entry).collect(),
            target: inode.target.clone(),
            xattrs: inode.xattrs.clone(),
            bytes: inode.bytes.clone(),
        }
    }

    pub(crate) fn attr(&self, ino: Ino) -> Attr {
        let inode = &self.0[&ino];
        let bit = |name: &[u8], bit| if inode.xattrs.contains_key(name) { bit } else { 0 };
        let any = if inode.xattrs.is_empty() { 0 } else { Xattrs::ANY };
        let [atime, mtime, ctime, btime] = inode.times;
        Attr {
            kind: inode.kind,
            mode: inode.mode,
            nlink: self.links(ino),
            uid: inode.owner.0,
            gid: inode.owner.1,
            rdev: inode.rdev,
            size: (inode.target.len() + inode.entries.len() + inode.bytes.len()) as u64,
            allocated: inode.bytes.iter().flatten().count() as u64,
            parent: inode.parent,
            xattrs: Xattrs(any | bit(ACCESS, Xattrs::ACCESS_ACL) | bit(DEFAULT, Xattrs::DEFAULT_ACL)),
            atime,
            mtime,
            ctime,
            btime,
        }
    }

    /// Counts the entries that name an inode, and for a directory its `.` and the `..` in it.
    fn links(&self, ino: Ino) -> u32 {
        let names = self
            .0
            .values()
            .flat_map(|inode| inode.entries.values())
            .filter(|named| **named == ino)
            .count();
        let inode = &self.0[&ino];
        let is_there = names > 0 || ino == Ino::ROOT;
        let below = inode
            .entries
            .values()
            .filter(|child| self.0[child].kind == Kind::Directory)
            .count();
        if inode.kind == Kind::Directory && is_there {
            2 + below as u32
        } else {
            names as u32
        }
    }

    pub(crate) fn orphans(&self) -> Vec<Ino> {
        self.0
            .keys()
            .copied()
            .filter(|ino| self.links(*ino) == 0)
            .collect()
    }

    /// Does what `op` asks; tells which inode it was about.
    pub(crate) fn apply(&mut self, op: &Op) -> Done {
        match op {
            Op::Create {
                parent,
                name,
                ino,
                node,
                time,
            } => self.create(*parent, name, *ino, node, *time),
            Op::CreateUnnamed {
                parent,
                ino,
                node,
                time,
            } => {
                refuse_unless(node.kind == Kind::File, Refusal::InvalidArgument)?;
                self.directory(*parent)?;
                self.begin(*parent, *ino, node, *time)?;
                self.inode(*ino)?.parent = Ino(0);
                Ok(Some(*ino))
            }
            Op::Link {
                ino,
                parent,
                name,
                time,
            } => self.link(*ino, *parent, name, *time),
            Op::Unlink { parent, name, time } => self.unlink(*parent, name, false, *time),
            Op::Rmdir { parent, name, time } => self.unlink(*parent, name, true, *time),
            Op::Rename {
                from,
                name,
                to,
                new_name,
                mode,
                time,
            } => self.rename((*from, name), (*to, new_name), *mode, *time),
            Op::SetAttr { ino, change, time } => self.set_attr(*ino, change, *time),
            Op::Write {
                ino,
                pieces,
                size,
                time,
            } => self.write(*ino, pieces, *size, *time),
            Op::Punch {
                ino,
                offset,
                len,
                time,
            } => self.punch(*ino, (*offset, *len), *time),
            Op::Collapse {
                ino,
                offset,
                len,
                time,
            } => self.collapse(*ino, (*offset, *len), *time),
            Op::Insert {
                ino,
                offset,
                len,
                time,
            } => self.insert(*ino, (*offset, *len), *time),
            Op::Copy {
                from,
                from_offset,
                to,
                to_offset,
                len,
                time,
            } => self.copy((*from, *from_offset), (*to, *to_offset), *len, *time),
            Op::SetXattr {
                ino,
                name,
                value,
                mode,
                time,
            } => self.set_xattr(*ino, name.as_bytes(), value, *mode, *time),
            Op::RemoveXattr { ino, name, time } => {
                let inode = self.inode(*ino)?;
                inode.xattrs.remove(name.as_bytes()).ok_or(Refusal::NoAttribute)?;
                inode.times[CTIME] = *time;
                Ok(Some(*ino))
            }
            Op::Drop { ino } => {
                refuse_unless(self.orphans().contains(ino), Refusal::NotFound)?;
                self.0.remove(ino);
                Ok(None)
            }
        }
    }

    fn inode(&mut self, ino: Ino) -> Result<&mut Inode, Refusal> {
        self.0.get_mut(&ino).ok_or(Refusal::NotFound)
    }

    /// Returns a directory that new entries can be put into.
    fn directory(&mut self, ino: Ino) -> Result<&mut Inode, Refusal> {
        let is_orphan = self.orphans().contains(&ino);
        let inode = self.inode(ino)?;
        refuse_unless(inode.kind == Kind::Directory, Refusal::NotDirectory)?;
        refuse_unless(!is_orphan, Refusal::NotFound)?;
        Ok(inode)
    }

    fn file(&mut self, ino: Ino) -> Result<&mut Inode, Refusal> {
        let inode = self.inode(ino)?;
        refuse_unless(inode.kind != Kind::Directory, Refusal::IsDirectory)?;
        refuse_unless(inode.kind == Kind::File, Refusal::InvalidArgument)?;
        Ok(inode)
    }

    fn named(&mut self, parent: Ino, name: &Name) -> Result<Option<Ino>, Refusal> {
        Ok(self.directory(parent)?.entries.get(name.as_bytes()).copied())
    }

    /// Sets the times of a directory whose entries have changed.
    fn touch(&mut self, ino: Ino, time: Timestamp) {
        let times = &mut self.0.get_mut(&ino).expect("it was there before").times;
        (times[MTIME], times[CTIME]) = (time, time);
    }

    fn changed(&mut self, ino: Ino, time: Timestamp) -> Done {
        self.inode(ino)?.times[CTIME] = time;
        Ok(Some(ino))
    }

    /// Puts an entry in a directory, whatever was there.
    fn put(&mut self, (parent, name): (Ino, &Name), ino: Ino, time: Timestamp) -> Result<(), Refusal> {
        self.inode(parent)?.entries.insert(name.as_bytes().to_vec(), ino);
        self.inode(ino)?.parent = parent;
        self.touch(parent, time);
        Ok(())
    }

    fn begin(&mut self, parent: Ino, ino: Ino, node: &NewNode, time: Timestamp) -> Done {
        if node.kind == Kind::Symlink {
            refuse_unless(
                !node.target.is_empty() && !node.target.contains(&0),
                Refusal::NotFound,
            )?;
            refuse_unless(node.target.len() <= 4095, Refusal::NameTooLong)?;
        }
        refuse_unless(
            ino > Ino::ROOT && !self.0.contains_key(&ino),
            Refusal::InvalidArgument,
        )?;
        let directory = self.directory(parent)?.clone();
        let mut inode = Inode::new(node, parent, time);
        if directory.mode & 0o2000 != 0 {
            inode.owner.1 = directory.owner.1;
            inode.mode |= if node.kind == Kind::Directory { 0o2000 } else { 0 };
        }
        match directory.xattrs.get(DEFAULT) {
            _ if node.kind == Kind::Symlink => {}
            None => inode.mode &= !(node.umask & 0o777),
            Some(value) => inode.inherit(value),
        }
        self.0.insert(ino, inode);
        Ok(Some(ino))
    }

    fn create(&mut self, parent: Ino, name: &Name, ino: Ino, node: &NewNode, time: Timestamp) -> Done {
        refuse_unless(self.named(parent, name)?.is_none(), Refusal::Exists)?;
        self.begin(parent, ino, node, time)?;
        self.put((parent, name), ino, time)?;
        Ok(Some(ino))
    }

    fn link(&mut self, ino: Ino, parent: Ino, name: &Name, time: Timestamp) -> Done {
        let kind = self.inode(ino)?.kind;
        self.directory(parent)?;
        refuse_unless(kind != Kind::Directory, Refusal::NotPermitted)?;
        refuse_unless(self.named(parent, name)?.is_none(), Refusal::Exists)?;
        self.put((parent, name), ino, time)?;
        self.changed(ino, time)
    }

    fn unlink(&mut self, parent: Ino, name: &Name, directory: bool, time: Timestamp) -> Done {
        let ino = self.named(parent, name)?.ok_or(Refusal::NotFound)?;
        let inode = self.inode(ino)?;
        if directory {
            refuse_unless(inode.kind == Kind::Directory, Refusal::NotDirectory)?;
            refuse_unless(inode.entries.is_empty(), Refusal::NotEmpty)?;
        } else {
            refuse_unless(inode.kind != Kind::Directory, Refusal::IsDirectory)?;
        }
        self.inode(parent)?.entries.remove(name.as_bytes());
        self.touch(parent, time);
        self.leave(ino, parent, time)
    }

    /// Takes an inode from a directory.
    fn leave(&mut self, ino: Ino, parent: Ino, time: Timestamp) -> Done {
        let inode = self.inode(ino)?;
        if inode.kind != Kind::Directory && inode.parent == parent {
            inode.parent = Ino(0);
        }
        self.changed(ino, time)
    }

    /// Tells whether `ino` is `above` or below it.
    fn is_below(&self, ino: Ino, above: Ino) -> bool {
        ino == above || ino != Ino::ROOT && self.is_below(self.0[&ino].parent, above)
    }

    fn rename(&mut self, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode, time: Timestamp) -> Done {
        let ino = self.named(from.0, from.1)?.ok_or(Refusal::NotFound)?;
        self.directory(to.0)?;
        let is_directory = |tree: &Self, ino: Ino| tree.0[&ino].kind == Kind::Directory;
        let moved_directory = is_directory(self, ino);
        refuse_unless(
            !moved_directory || !self.is_below(to.0, ino),
            Refusal::InvalidArgument,
        )?;
        let replaced = self.named(to.0, to.1)?;
        if mode == RenameMode::Exchange {
            let other = replaced.ok_or(Refusal::NotFound)?;
            let is_above = is_directory(self, other) && self.is_below(from.0, other);
            refuse_unless(!is_above, Refusal::InvalidArgument)?;
            if other == ino {
                return Ok(None);
            }
            self.put(from, other, time)?;
            self.put(to, ino, time)?;
            self.changed(other, time)?;
            return self.changed(ino, time);
        }
        refuse_unless(
            replaced.is_none() || mode != RenameMode::NoReplace,
            Refusal::Exists,
        )?;
        if replaced == Some(ino) {
            return Ok(None);
        }
        if let Some(old) = replaced {
            match (moved_directory, is_directory(self, old)) {
                (true, false) => return Err(Refusal::NotDirectory),
                (false, true) => return Err(Refusal::IsDirectory),
                (true, true) => refuse_unless(self.0[&old].entries.is_empty(), Refusal::NotEmpty)?,
                (false, false) => {}
            }
        }
        if let RenameMode::Whiteout(whiteout) = mode {
            let (uid, gid) = self.0[&ino].owner;
            let node = NewNode {
                kind: Kind::CharDevice,
                mode: 0,
                umask: 0,
                uid,
                gid,
                rdev: 0,
                target: Box::from([]),
            };
            refuse_unless(
                whiteout > Ino::ROOT && !self.0.contains_key(&whiteout),
                Refusal::InvalidArgument,
            )?;
            self.0.insert(whiteout, Inode::new(&node, from.0, time));
        }
        self.inode(from.0)?.entries.remove(from.1.as_bytes());
        self.touch(from.0, time);
        if let Some(old) = replaced {
            self.leave(old, to.0, time)?;
        }
        self.put(to, ino, time)?;
        if let RenameMode::Whiteout(whiteout) = mode {
            self.put(from, whiteout, time)?;
        }
        self.changed(ino, time)
    }
}

impl Inode {
    fn new(node: &NewNode, parent: Ino, time: Timestamp) -> Self {
        let is_device = matches!(node.kind, Kind::CharDevice | Kind::BlockDevice);
        Self {
            kind: node.kind,
            mode: node.mode & 0o7777,
            owner: (node.uid, node.gid),
            rdev: if is_device { node.rdev } else { 0 },
            target: if node.kind == Kind::Symlink {
                node.target.to_vec()
            } else {
                Vec::new()
            },
            entries: BTreeMap::new(),
            parent,
            bytes: Vec::new(),
            xattrs: BTreeMap::new(),
            times: [time; 4],
        }
    }
}
