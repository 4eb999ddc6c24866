//! Attributes, extended attributes, and access control lists (acl(5)): the list and the mode say the same.

use super::{ACCESS, ATIME, CTIME, DEFAULT, Done, Inode, MTIME, Reference, refuse_unless};
use tenure_model::{AttrChange, Ino, Kind, Refusal, Timestamp, XattrMode};

impl Reference {
    pub(super) fn set_attr(&mut self, ino: Ino, change: &AttrChange, time: Timestamp) -> Done {
        let inode = match change.size {
            Some(_) => self.file(ino)?,
            None => self.inode(ino)?,
        };
        if let Some(size) = change.size {
            refuse_unless(size <= i64::MAX as u64, Refusal::TooLarge)?;
            inode.bytes.resize(size as usize, None);
            inode.times[MTIME] = time;
        }
        if change.uid.is_some() || change.gid.is_some() {
            inode.owner = (
                change.uid.unwrap_or(inode.owner.0),
                change.gid.unwrap_or(inode.owner.1),
            );
            inode.xattrs.remove(&b"security.capability"[..]);
            if inode.kind != Kind::Directory {
                let keeps_setgid = inode.mode & 0o010 == 0;
                inode.mode &= if keeps_setgid { 0o3777 } else { 0o1777 };
            }
        }
        if let Some(mode) = change.mode {
            inode.mode = mode & 0o7777;
            if let Some(value) = inode.xattrs.get_mut(ACCESS) {
                *value = with_mode(value, mode);
            }
        }
        inode.times[ATIME] = change.atime.unwrap_or(inode.times[ATIME]);
        inode.times[MTIME] = change.mtime.unwrap_or(inode.times[MTIME]);
        inode.times[CTIME] = time;
        Ok(Some(ino))
    }

    pub(super) fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        time: Timestamp,
    ) -> Done {
        let inode = self.inode(ino)?;
        refuse_unless(value.len() <= 65536, Refusal::Range)?;
        let exists = inode.xattrs.contains_key(name);
        refuse_unless(mode != XattrMode::Create || !exists, Refusal::Exists)?;
        refuse_unless(mode != XattrMode::Replace || exists, Refusal::NoAttribute)?;
        if name == ACCESS {
            refuse_unless(inode.kind != Kind::Symlink, Refusal::NotSupported)?;
        } else if name == DEFAULT {
            refuse_unless(inode.kind == Kind::Directory, Refusal::AccessDenied)?;
        }
        let is_list = name == ACCESS || name == DEFAULT;
        inode.xattrs.remove(name);
        // A list without lines is none, as Linux has it.
        if !is_list || value.len() > 4 {
            inode.xattrs.insert(name.to_vec(), value.to_vec());
        }
        if name == ACCESS && value.len() > 4 {
            inode.mode = inode.mode & 0o7000 | mode_of(value);
            // Owner, group and other are all in the mode.
            if value.len() == 4 + 3 * 8 {
                inode.xattrs.remove(name);
            }
        }
        inode.times[CTIME] = time;
        Ok(Some(ino))
    }
}

impl Inode {
    /// Takes over the default list of the directory (acl(5), "object creation and default ACLs").
    pub(super) fn inherit(&mut self, value: &[u8]) {
        if self.kind == Kind::Directory {
            self.xattrs.insert(DEFAULT.to_vec(), value.to_vec());
        }
        let mode = mode_of(value) & self.mode;
        self.mode = self.mode & 0o7000 | mode;
        if value.len() > 4 + 3 * 8 {
            self.xattrs.insert(ACCESS.to_vec(), with_mode(value, mode));
        }
    }
}

/// The place of each permission that the mode has too: owner, mask or else group, other.
fn places(value: &[u8]) -> [usize; 3] {
    let place = |tag: u8| {
        (4..value.len())
            .step_by(8)
            .find(|at| value[*at] == tag)
            .map(|at| at + 2)
    };
    let group = place(16).or(place(4));
    [place(1), group, place(32)].map(|place| place.expect("the tests' lists are valid"))
}

fn mode_of(value: &[u8]) -> u32 {
    places(value)
        .iter()
        .fold(0, |mode, place| mode << 3 | u32::from(value[*place]))
}

fn with_mode(value: &[u8], mode: u32) -> Vec<u8> {
    let mut value = value.to_vec();
    for (place, shift) in places(&value).into_iter().zip([6, 3, 0]) {
        value[place] = (mode >> shift & 7) as u8;
    }
    value
}
