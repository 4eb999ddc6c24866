//! Attributes: mode, owner, times and size.

use super::Decided;
use crate::change::Change;
use tenure_model::attr::{MODE_BITS, SETGID, SETUID};
use tenure_model::{Attr, AttrChange, Ino, Kind, Refusal, Timestamp, limits};

/// Execution by the group (`S_IXGRP`).
const GROUP_EXECUTE: u32 = 0o010;

impl Change<'_> {
    pub(super) fn set_attr(&mut self, ino: Ino, wanted: &AttrChange, time: Timestamp) -> Decided {
        let mut attr = self.attr(ino)?;
        if let Some(size) = wanted.size {
            self.resize(ino, &mut attr, size)?;
            attr.mtime = time;
        }
        if wanted.uid.is_some() || wanted.gid.is_some() {
            attr.uid = wanted.uid.unwrap_or(attr.uid);
            attr.gid = wanted.gid.unwrap_or(attr.gid);
            drop_set_ids(&mut attr);
            self.drop_capability(ino, &mut attr)?;
        }
        if let Some(mode) = wanted.mode {
            attr.mode = mode & MODE_BITS;
            self.follow_mode(ino, &attr)?;
        }
        attr.atime = wanted.atime.unwrap_or(attr.atime);
        attr.mtime = wanted.mtime.unwrap_or(attr.mtime);
        attr.ctime = time;
        self.answer(ino, attr);
        Ok(())
    }

    fn resize(&mut self, ino: Ino, attr: &mut Attr, size: u64) -> Decided {
        match attr.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsDirectory.into()),
            Kind::Fifo | Kind::CharDevice | Kind::BlockDevice | Kind::Symlink | Kind::Socket => {
                return Err(Refusal::InvalidArgument.into());
            }
        }
        if size > limits::FILE_LEN_MAX {
            return Err(Refusal::TooLarge.into());
        }
        if size < attr.size {
            self.clear(ino, attr, size, u64::MAX)?;
        }
        attr.size = size;
        Ok(())
    }
}

/// A change of owner takes the set-id bits of anything but a directory (chown(2)).
fn drop_set_ids(attr: &mut Attr) {
    if attr.is_directory() {
        return;
    }
    attr.mode &= !SETUID;
    if attr.mode & GROUP_EXECUTE != 0 {
        attr.mode &= !SETGID;
    }
}
