//! Entries: create, link, unlink, rmdir, and the end of an inode that has none.

use super::Decided;
use crate::branch::Undecided;
use crate::change::{Change, Found};
use crate::key::Key;
use std::ops::{Bound, ControlFlow};
use tenure_model::attr::{MODE_BITS, SETGID, Xattrs};
use tenure_model::{Attr, Ino, Kind, Name, NewNode, Refusal, Timestamp, limits};

impl Change<'_> {
    pub(super) fn create(
        &mut self,
        parent: Ino,
        name: &Name,
        ino: Ino,
        node: &NewNode,
        time: Timestamp,
    ) -> Decided {
        let directory = self.directory(parent)?;
        let cookie = self.vacant(parent, name)?;
        let attr = self.new_inode(&directory, parent, ino, node, time)?;
        self.answer(ino, attr);
        self.put_entry(parent, name, cookie, ino, attr.kind.d_type());
        self.touch_directory(parent, 1, i32::from(attr.is_directory()), time)
    }

    pub(super) fn create_unnamed(
        &mut self,
        parent: Ino,
        ino: Ino,
        node: &NewNode,
        time: Timestamp,
    ) -> Decided {
        if node.kind != Kind::File {
            return Err(Refusal::InvalidArgument.into());
        }
        let directory = self.directory(parent)?;
        let attr = self.new_inode(&directory, parent, ino, node, time)?;
        let attr = Attr {
            nlink: 0,
            parent: Ino(0),
            ..attr
        };
        self.answer(ino, attr);
        self.orphan(ino)
    }

    fn new_inode(
        &mut self,
        directory: &Attr,
        parent: Ino,
        ino: Ino,
        node: &NewNode,
        time: Timestamp,
    ) -> Result<Attr, Undecided> {
        let is_directory = node.kind == Kind::Directory;
        let is_device = matches!(node.kind, Kind::CharDevice | Kind::BlockDevice);
        let inherits_group = directory.mode & SETGID != 0;
        let mut attr = Attr {
            kind: node.kind,
            mode: node.mode & MODE_BITS,
            nlink: 1 + u32::from(is_directory),
            uid: node.uid,
            gid: if inherits_group { directory.gid } else { node.gid },
            rdev: if is_device { node.rdev } else { 0 },
            size: 0,
            allocated: 0,
            parent,
            xattrs: Xattrs::default(),
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        };
        if is_directory && inherits_group {
            attr.mode |= SETGID;
        }
        if node.kind == Kind::Symlink {
            self.put_target(ino, &mut attr, &node.target)?;
        }
        self.inherit_acl(directory, parent, ino, &mut attr, node.umask)?;
        self.begin(ino, attr)?;
        Ok(attr)
    }

    fn put_target(&mut self, ino: Ino, attr: &mut Attr, target: &[u8]) -> Decided {
        if target.is_empty() || target.contains(&0) {
            return Err(Refusal::NotFound.into());
        }
        if target.len() > limits::SYMLINK_LEN_MAX {
            return Err(Refusal::NameTooLong.into());
        }
        attr.size = target.len() as u64;
        let key = Key::target(ino);
        self.get(&key, |_| ())?;
        self.edits.put(&key, target);
        Ok(())
    }

    pub(super) fn link(&mut self, ino: Ino, parent: Ino, name: &Name, time: Timestamp) -> Decided {
        let mut attr = self.attr(ino)?;
        self.directory(parent)?;
        if attr.is_directory() {
            return Err(Refusal::NotPermitted.into());
        }
        let cookie = self.vacant(parent, name)?;
        if attr.nlink >= limits::LINKS_MAX {
            return Err(Refusal::TooManyLinks.into());
        }
        if attr.nlink == 0 {
            self.adopt_orphan(ino)?;
        }
        attr.nlink += 1;
        attr.parent = parent;
        attr.ctime = time;
        self.answer(ino, attr);
        self.put_entry(parent, name, cookie, ino, attr.kind.d_type());
        self.touch_directory(parent, 1, 0, time)
    }

    fn adopt_orphan(&mut self, ino: Ino) -> Decided {
        let key = Key::orphan(ino);
        self.get(&key, |_| ())?.ok_or(Refusal::NotFound)?;
        self.edits.remove(&key);
        Ok(())
    }

    pub(super) fn entry(&self, parent: Ino, name: &Name) -> Result<(Found, Attr), Undecided> {
        self.directory(parent)?;
        let found = self.find(parent, name)?.ok_or(Refusal::NotFound)?;
        let attr = self.attr(found.ino)?;
        Ok((found, attr))
    }

    pub(super) fn unlink_file(&mut self, parent: Ino, name: &Name, time: Timestamp) -> Decided {
        let (found, attr) = self.entry(parent, name)?;
        if attr.is_directory() {
            return Err(Refusal::IsDirectory.into());
        }
        self.remove_entry(parent, found.cookie);
        self.touch_directory(parent, -1, 0, time)?;
        self.unlink(found.ino, parent, time)
    }

    pub(super) fn rmdir(&mut self, parent: Ino, name: &Name, time: Timestamp) -> Decided {
        let (found, attr) = self.entry(parent, name)?;
        self.refuse_full_directory(&attr)?;
        self.remove_entry(parent, found.cookie);
        self.touch_directory(parent, -1, -1, time)?;
        self.unlink(found.ino, parent, time)
    }

    pub(super) fn refuse_full_directory(&self, attr: &Attr) -> Decided {
        if !attr.is_directory() {
            return Err(Refusal::NotDirectory.into());
        }
        if attr.size > 0 {
            Err(Refusal::NotEmpty.into())
        } else {
            Ok(())
        }
    }

    /// Ends an inode that has no entry, with all that belongs to it.
    pub(super) fn drop_orphan(&mut self, ino: Ino) -> Decided {
        let orphan = Key::orphan(ino);
        self.get(&orphan, |_| ())?.ok_or(Refusal::NotFound)?;
        let mut attr = self.attr(ino)?;
        self.clear(ino, &mut attr, 0, u64::MAX)?;
        let (first, last) = (Key::attr(ino), Key::entries_end(ino));
        let edits = &mut self.edits;
        self.branch
            .tree
            .scan(Bound::Included(&*first), Bound::Excluded(&*last), |key, _| {
                edits.remove(key);
                ControlFlow::Continue(())
            })?;
        self.edits.remove(&orphan);
        self.totals.inodes -= 1;
        Ok(())
    }
}
