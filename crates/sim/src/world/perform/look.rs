//! Looking: what a branch says of an inode, or of all, is what the reference says.

use crate::check::{Verdict, broken, entries};
use crate::world::World;
use tenure_model::{Ino, Kind, XattrName};

/// Bytes that are read at once.
const READ_LEN: u64 = 1 << 20;
/// Bytes of holes that are read beside what is there.
const BESIDE: u64 = 10;

impl World {
    /// Compares all that an inode says with what it should say.
    pub(in crate::world) fn look(&mut self, ino: Ino) -> Verdict<()> {
        let Some(inode) = self.history.names().inodes.get(&ino).cloned() else {
            return Ok(());
        };
        let attr = self.life.branch().attr(ino);
        let Some(attr) = self.done(attr)? else {
            return Ok(());
        };
        let size = if inode.kind == Kind::File {
            self.content(ino).size()
        } else {
            // Of a directory its entries, of a symlink its target's bytes.
            (inode.entries.len() + inode.target.len()) as u64
        };
        let said = (attr.kind, attr.mode, attr.nlink, attr.uid, attr.gid, attr.size);
        let expected = (inode.kind, inode.mode, inode.nlink, inode.uid, inode.gid, size);
        if said != expected {
            return broken(format!(
                "inode {ino} says that it is {said:?} and is {expected:?}"
            ));
        }
        let touched = self.touched.get(&ino).filter(|_| inode.kind == Kind::File);
        if touched.is_some_and(|touched| *touched != attr.mtime) {
            return broken(format!("inode {ino} says that it was changed at another time"));
        }
        self.look_at_xattrs(ino)?;
        if inode.kind != Kind::Directory {
            return Ok(());
        }
        let listed = entries(self.life.branch(), ino);
        let Some(listed) = self.done(listed)? else {
            return Ok(());
        };
        let listed = listed.into_iter().map(|(name, ino, _)| (name, ino)).collect();
        if inode.entries == listed {
            Ok(())
        } else {
            broken(format!(
                "directory {ino} lists {listed:?} and has {:?}",
                inode.entries
            ))
        }
    }

    fn look_at_xattrs(&mut self, ino: Ino) -> Verdict<()> {
        let names = self.life.branch().xattrs(ino);
        let Some(names) = self.done(names)? else {
            return Ok(());
        };
        let expected = self.history.names().inodes[&ino].xattrs.clone();
        let names: Vec<_> = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .collect();
        if names.len() != expected.len() {
            return broken(format!("inode {ino} lists {} attributes", names.len()));
        }
        for name in names {
            let value = self.life.branch().xattr(ino, name);
            let Some(value) = self.done(value)? else { continue };
            let name = XattrName::parse(name).ok();
            if name.as_ref().and_then(|name| expected.get(name)) != Some(&value) {
                return broken(format!("the attribute {name:?} of inode {ino} is wrong"));
            }
        }
        Ok(())
    }

    /// Compares everything that there is.
    pub(super) fn compare(&mut self) -> Verdict<()> {
        let inodes = &self.history.names().inodes;
        let inodes: Vec<_> = inodes.iter().map(|(ino, inode)| (*ino, inode.kind)).collect();
        let totals = self.life.branch().totals();
        if totals.inodes != inodes.len() as u64 {
            return broken(format!(
                "the branch says that it has {} inodes and has {}",
                totals.inodes,
                inodes.len()
            ));
        }
        for (ino, kind) in inodes {
            self.look(ino)?;
            if kind == Kind::File {
                self.compare_content(ino)?;
            }
        }
        Ok(())
    }

    fn compare_content(&mut self, ino: Ino) -> Verdict<()> {
        for (start, end) in self.content(ino).data() {
            let (mut at, end) = (start.saturating_sub(BESIDE), end + BESIDE);
            while at < end {
                let len = READ_LEN.min(end - at);
                self.read(ino, at, len as usize)?;
                at += len;
            }
        }
        Ok(())
    }
}
