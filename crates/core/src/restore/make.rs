//! The ops that make what is to be there, once all that goes is gone.

use super::{Directory, Fate, Put, Restore};
use crate::tree::Missing;
use std::collections::BTreeMap;
use tenure_model::acl;
use tenure_model::{Attr, AttrChange, Ino, Kind, NewNode, Op, Side, XattrMode, XattrName};

/// What a change of owner takes away (chown(2)).
const CAPABILITY: &[u8] = b"security.capability";
/// An access control list without a line: to put it is to remove what may be there.
const NO_ACL: [u8; 4] = [2, 0, 0, 0];

/// What is to become something else, or is new.
#[derive(Clone, Copy)]
struct Begun {
    number: Ino,
    /// Whether the branch has it, and it is not new.
    is_there: bool,
    /// Whether it may begin with access control lists.
    gets_acl: bool,
}

impl Restore {
    /// Makes every name, and then says of directories what is to be said of them: what is put into them changes their times.
    pub(super) fn make_all(&mut self) -> Result<(), Missing> {
        while self.made < self.puts.len() {
            self.make(self.made)?;
            self.made += 1;
        }
        while self.finished < self.puts.len() {
            self.finish(self.puts.len() - 1 - self.finished)?;
            self.finished += 1;
        }
        Ok(())
    }

    fn make(&mut self, at: usize) -> Result<(), Missing> {
        let put = &self.puts[at];
        let (directory, there) = (self.directories[&put.directory], put.ino);
        if put.fate == Fate::Kept {
            return self.keep(at);
        }
        if put.is_directory {
            let (number, ops) = self.create(put, directory)?;
            let gives_acl = directory.gives_acl;
            self.directories.insert(there, Directory { number, gives_acl });
            self.took(directory.number, (number, there), ops);
            return Ok(());
        }
        let known = match self.numbers.get(&there) {
            Some(number) => Some(*number),
            None if self.has_elsewhere(there)? => Some(there),
            None => None,
        };
        let Some(ino) = known else {
            let (number, mut ops) = self.create(put, directory)?;
            let begun = Begun {
                number,
                is_there: false,
                gets_acl: directory.gives_acl,
            };
            ops.extend(self.becoming(begun, there)?);
            self.numbers.insert(there, number);
            self.took(directory.number, (number, there), ops);
            return Ok(());
        };
        let link = Op::Link {
            ino,
            parent: directory.number,
            name: put.name.clone(),
            time: self.time,
        };
        self.numbers.insert(there, ino);
        self.touched.insert(directory.number);
        self.ops.push(link);
        Ok(())
    }

    /// Lets a file that goes on become what it was, the first time that one of its names is met.
    fn keep(&mut self, at: usize) -> Result<(), Missing> {
        let Put {
            ino, is_directory, ..
        } = self.puts[at];
        if is_directory || self.kept.contains(&ino) {
            return Ok(());
        }
        let begun = Begun {
            number: self.numbers[&ino],
            is_there: true,
            gets_acl: false,
        };
        let ops = self.becoming(begun, ino)?;
        self.ops.extend(ops);
        self.kept.insert(ino);
        Ok(())
    }

    fn finish(&mut self, at: usize) -> Result<(), Missing> {
        let put = &self.puts[at];
        if !put.is_directory {
            return Ok(());
        }
        let directory = self.directories[&put.ino];
        let begun = Begun {
            number: directory.number,
            is_there: put.fate == Fate::Kept,
            gets_acl: directory.gives_acl,
        };
        let ops = self.becoming(begun, put.ino)?;
        self.ops.extend(ops);
        Ok(())
    }

    /// Notes what was made in a directory.
    fn took(&mut self, directory: Ino, (number, there): (Ino, Ino), ops: Vec<Op>) {
        self.taken += u64::from(number != there);
        self.touched.insert(directory);
        self.ops.extend(ops);
    }

    /// Tells whether a file stays in the branch, by another name that it had then too, as it was.
    fn has_elsewhere(&self, ino: Ino) -> Result<bool, Missing> {
        let before = self.then.places(ino);
        let is_there = self.now.places(ino).iter().any(|place| before.contains(place));
        Ok(is_there && !self.goes(ino) && !self.differs(ino, ino)?)
    }

    /// Tells whether an inode of the branch differs from one of the state in what can be restored of it.
    pub(super) fn differs(&self, now: Ino, then: Ino) -> Result<bool, Missing> {
        let (Some(was), Some(is)) = (self.now.side(now)?, self.then.side(then)?) else {
            return Ok(true);
        };
        let said = |side: &Side| {
            (
                side.attr.kind,
                side.attr.size,
                side.attr.rdev,
                side.target.clone(),
            )
        };
        let differs = said(&was) != said(&is)
            || !is_said_alike(&was.attr, &is.attr)
            || self.now.xattrs_of(now)? != self.then.xattrs_of(then)?
            || was.attr.kind == Kind::File && self.now.bytes_of(&was)? != self.then.bytes_of(&is)?;
        Ok(differs)
    }

    /// Returns the number of an inode that is made, and the op: its own where no other has it.
    fn create(&self, put: &Put, directory: Directory) -> Result<(Ino, Vec<Op>), Missing> {
        let now = self.now.attr(put.ino)?;
        // What lost its last name and is open still is that file, as it is when a whole branch goes back.
        let is_orphan = now.is_some_and(|attr| attr.nlink == 0);
        let is_free = is_orphan || now.is_none() || self.goes(put.ino);
        let number = if is_free {
            put.ino
        } else {
            Ino(self.next.0 + self.taken)
        };
        let side = self.then.side(put.ino)?.expect("what is named is there");
        let Attr {
            kind,
            mode,
            uid,
            gid,
            rdev,
            ..
        } = side.attr;
        let node = NewNode {
            kind,
            mode,
            umask: 0,
            uid,
            gid,
            rdev,
            target: side.target,
        };
        let create = Op::Create {
            parent: directory.number,
            name: put.name.clone(),
            ino: number,
            node,
            time: self.time,
        };
        let dropped = is_orphan.then_some(Op::Drop { ino: number });
        Ok((number, dropped.into_iter().chain([create]).collect()))
    }

    /// Returns the ops that let an inode have the content and attributes that one has in the state.
    fn becoming(&self, begun: Begun, there: Ino) -> Result<Vec<Op>, Missing> {
        let is = self.then.side(there)?.expect("what is named is there");
        let was = match begun.is_there {
            true => self.now.side(begun.number)?,
            false => None,
        };
        let mut ops = self.content(begun.number, was.as_ref(), &is)?;
        let said = was.as_ref().map(|was| &was.attr);
        let is_touched = !ops.is_empty() || self.touched.contains(&begun.number);
        let is_owner_same = said.is_some_and(|was| (was.uid, was.gid) == (is.attr.uid, is.attr.gid));
        if is_touched || !said.is_some_and(|was| is_said_alike(was, &is.attr)) {
            ops.push(Op::SetAttr {
                ino: begun.number,
                change: AttrChange {
                    mode: (is.attr.kind != Kind::Symlink).then_some(is.attr.mode),
                    uid: (!is_owner_same).then_some(is.attr.uid),
                    gid: (!is_owner_same).then_some(is.attr.gid),
                    size: None,
                    atime: Some(is.attr.atime),
                    mtime: Some(is.attr.mtime),
                },
                time: self.time,
            });
        }
        let mut xattrs = match &was {
            Some(was) => self.now.xattrs_of(was.ino)?,
            None => BTreeMap::new(),
        };
        if !is_owner_same {
            xattrs.remove(CAPABILITY);
        }
        ops.extend(self.xattrs(begun, &is, &xattrs)?);
        Ok(ops)
    }

    /// Returns the ops that give a file its bytes, if it has others.
    fn content(&self, ino: Ino, was: Option<&Side>, is: &Side) -> Result<Vec<Op>, Missing> {
        if is.attr.kind != Kind::File {
            return Ok(Vec::new());
        }
        if let Some(was) = was
            && was.attr.size == is.attr.size
            && self.now.bytes_of(was)? == self.then.bytes_of(is)?
        {
            return Ok(Vec::new());
        }
        let time = self.time;
        let change = AttrChange {
            size: Some(0),
            ..AttrChange::default()
        };
        Ok(vec![
            Op::SetAttr { ino, change, time },
            Op::Write {
                ino,
                pieces: self.then.branch.pieces(is.ino, 0, is.attr.size)?,
                size: is.attr.size,
                time: Some(time),
            },
        ])
    }

    fn xattrs(
        &self,
        begun: Begun,
        is: &Side,
        before: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<Vec<Op>, Missing> {
        let (ino, time) = (begun.number, self.time);
        let wanted = self.then.xattrs_of(is.ino)?;
        let named = |name: &[u8]| XattrName::parse(name).expect("only names are put");
        let set = |name: &[u8], value: &[u8]| Op::SetXattr {
            ino,
            name: named(name),
            value: value.into(),
            mode: XattrMode::Set,
            time,
        };
        let mut ops = Vec::new();
        if !begun.is_there && begun.gets_acl && is.attr.kind != Kind::Symlink {
            let lists = [(acl::ACCESS, true), (acl::DEFAULT, is.attr.is_directory())];
            let inherited = lists.into_iter().filter(|(_, has)| *has);
            ops.extend(inherited.map(|(name, _)| set(name, &NO_ACL)));
        }
        for name in before.keys().filter(|name| !wanted.contains_key(*name)) {
            let name = named(name);
            ops.push(Op::RemoveXattr { ino, name, time });
        }
        let fresh = wanted
            .iter()
            .filter(|(name, value)| before.get(*name) != Some(*value));
        ops.extend(fresh.map(|(name, value)| set(name, value)));
        Ok(ops)
    }
}

/// Tells whether two say the same of mode, owner and the time of the last change.
fn is_said_alike(one: &Attr, other: &Attr) -> bool {
    (one.mode, one.uid, one.gid, one.mtime) == (other.mode, other.uid, other.gid, other.mtime)
}
