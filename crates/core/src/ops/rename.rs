//! Renames: replacing, refusing to replace, exchanging, and leaving a whiteout (rename(2)).

use super::Decided;
use crate::branch::Undecided;
use crate::change::{Change, Found};
use tenure_model::attr::Xattrs;
use tenure_model::{Attr, Ino, Kind, Name, Refusal, RenameMode, Timestamp};

/// One end of a rename.
type Place<'a> = (Ino, &'a Name);

impl Change<'_> {
    pub(super) fn rename(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        mode: RenameMode,
        time: Timestamp,
    ) -> Decided {
        let (moved, attr) = self.entry(from.0, from.1)?;
        self.directory(to.0)?;
        if attr.is_directory() && from.0 != to.0 {
            self.refuse_into_itself(moved.ino, to.0)?;
        }
        let replaced = match self.find(to.0, to.1)? {
            None => None,
            Some(found) => Some((found, self.attr(found.ino)?)),
        };
        match (mode, replaced) {
            (RenameMode::Exchange, None) => Err(Refusal::NotFound.into()),
            (RenameMode::Exchange, Some(other)) => self.exchange(from, (moved, attr), to, other, time),
            (RenameMode::NoReplace, Some(_)) => Err(Refusal::Exists.into()),
            // Two names of one inode: POSIX says that nothing happens.
            (_, Some((found, _))) if found.ino == moved.ino => Ok(()),
            (_, replaced) => {
                if let Some((_, old)) = &replaced {
                    self.refuse_unlike(&attr, old)?;
                }
                self.move_over(from, (moved, attr), to, replaced, time)?;
                match mode {
                    RenameMode::Whiteout(ino) => self.leave_whiteout(from, ino, &attr, time),
                    RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => Ok(()),
                }
            }
        }
    }

    fn refuse_unlike(&self, moved: &Attr, replaced: &Attr) -> Decided {
        match (moved.is_directory(), replaced.is_directory()) {
            (true, true) => self.refuse_full_directory(replaced),
            (true, false) => Err(Refusal::NotDirectory.into()),
            (false, true) => Err(Refusal::IsDirectory.into()),
            (false, false) => Ok(()),
        }
    }

    /// Refuses to move a directory below itself.
    fn refuse_into_itself(&self, moved: Ino, to: Ino) -> Decided {
        let mut at = to;
        while at != Ino::ROOT {
            if at == moved {
                return Err(Refusal::InvalidArgument.into());
            }
            at = self.attr(at)?.parent;
        }
        if moved == Ino::ROOT {
            Err(Refusal::InvalidArgument.into())
        } else {
            Ok(())
        }
    }

    fn move_over(
        &mut self,
        from: Place<'_>,
        (moved, attr): (Found, Attr),
        to: Place<'_>,
        replaced: Option<(Found, Attr)>,
        time: Timestamp,
    ) -> Decided {
        let is_directory = i32::from(attr.is_directory());
        self.remove_entry(from.0, moved.cookie);
        self.touch_directory(from.0, -1, -is_directory, time)?;
        match replaced {
            Some((old, old_attr)) => {
                self.put_entry(to.0, to.1, old.cookie, moved.ino, moved.d_type);
                self.touch_directory(to.0, 0, is_directory - i32::from(old_attr.is_directory()), time)?;
                self.unlink(old.ino, to.0, time)?;
            }
            None => {
                self.add_entry(to.0, to.1, moved.ino, moved.d_type)?;
                self.touch_directory(to.0, 1, is_directory, time)?;
            }
        }
        self.settle(moved.ino, to.0, time)
    }

    fn exchange(
        &mut self,
        from: Place<'_>,
        (one, one_attr): (Found, Attr),
        to: Place<'_>,
        (other, other_attr): (Found, Attr),
        time: Timestamp,
    ) -> Decided {
        if other_attr.is_directory() && from.0 != to.0 {
            self.refuse_into_itself(other.ino, from.0)?;
        }
        if one.ino == other.ino {
            return Ok(());
        }
        let gained = i32::from(other_attr.is_directory()) - i32::from(one_attr.is_directory());
        self.put_entry(from.0, from.1, one.cookie, other.ino, other.d_type);
        self.put_entry(to.0, to.1, other.cookie, one.ino, one.d_type);
        self.touch_directory(from.0, 0, gained, time)?;
        self.touch_directory(to.0, 0, -gained, time)?;
        self.settle(other.ino, from.0, time)?;
        self.settle(one.ino, to.0, time)
    }

    /// Notes when an inode was moved, and where it is now.
    fn settle(&mut self, ino: Ino, parent: Ino, time: Timestamp) -> Result<(), Undecided> {
        let mut attr = self.attr(ino)?;
        attr.ctime = time;
        attr.parent = parent;
        self.answer(ino, attr);
        Ok(())
    }

    fn leave_whiteout(
        &mut self,
        (parent, name): Place<'_>,
        ino: Ino,
        like: &Attr,
        time: Timestamp,
    ) -> Decided {
        let attr = Attr {
            kind: Kind::CharDevice,
            mode: 0,
            nlink: 1,
            rdev: 0,
            size: 0,
            allocated: 0,
            parent,
            xattrs: Xattrs::default(),
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            ..*like
        };
        self.begin(ino, attr)?;
        self.add_entry(parent, name, ino, attr.kind.d_type())?;
        self.touch_directory(parent, 1, 0, time)
    }
}
