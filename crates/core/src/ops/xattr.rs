//! Extended attributes, and what access control lists and modes say to each other (acl(5)).

use super::Decided;
use crate::branch::Undecided;
use crate::change::Change;
use crate::key::Key;
use std::ops::{Bound, ControlFlow};
use tenure_model::acl::{self, Acl};
use tenure_model::attr::Xattrs;
use tenure_model::{Attr, Ino, Kind, Refusal, Timestamp, XattrMode, XattrName, limits};

const CAPABILITY: &[u8] = b"security.capability";
const PERMISSIONS: u32 = 0o777;

impl Change<'_> {
    pub(super) fn set_xattr(
        &mut self,
        ino: Ino,
        name: &XattrName,
        value: &[u8],
        mode: XattrMode,
        time: Timestamp,
    ) -> Decided {
        let mut attr = self.attr(ino)?;
        if value.len() > limits::XATTR_VALUE_LEN_MAX {
            return Err(Refusal::Range.into());
        }
        let name = name.as_bytes();
        let exists = self.get(&Key::xattr(ino, name), |_| ())?.is_some();
        match (mode, exists) {
            (XattrMode::Create, true) => return Err(Refusal::Exists.into()),
            (XattrMode::Replace, false) => return Err(Refusal::NoAttribute.into()),
            (XattrMode::Set | XattrMode::Create | XattrMode::Replace, _) => {}
        }
        if !exists && attr.xattrs.has(Xattrs::ANY) {
            self.refuse_long_list(ino, name)?;
        }
        match name {
            acl::ACCESS => self.set_access_acl(ino, &mut attr, value)?,
            acl::DEFAULT => self.set_default_acl(ino, &mut attr, value)?,
            _ => self.put_xattr(ino, &mut attr, name, value)?,
        }
        attr.ctime = time;
        self.answer(ino, attr);
        Ok(())
    }

    /// Refuses a name with which all names would be more than one answer can list.
    fn refuse_long_list(&self, ino: Ino, name: &[u8]) -> Decided {
        let mut len = name.len() + 1;
        self.branch.xattrs(ino, |other| len += other.len() + 1)?;
        if len > limits::XATTR_LIST_LEN_MAX {
            Err(Refusal::NoSpace.into())
        } else {
            Ok(())
        }
    }

    pub(super) fn remove_xattr(&mut self, ino: Ino, name: &XattrName, time: Timestamp) -> Decided {
        let mut attr = self.attr(ino)?;
        let name = name.as_bytes();
        self.get(&Key::xattr(ino, name), |_| ())?
            .ok_or(Refusal::NoAttribute)?;
        self.take_xattr(ino, &mut attr, name)?;
        attr.ctime = time;
        self.answer(ino, attr);
        Ok(())
    }

    fn set_access_acl(&mut self, ino: Ino, attr: &mut Attr, value: &[u8]) -> Decided {
        if attr.kind == Kind::Symlink {
            return Err(Refusal::NotSupported.into());
        }
        if acl::has_no_lines(value) {
            return self.take_xattr(ino, attr, acl::ACCESS);
        }
        let list = Acl::parse(value).map_err(|_| Refusal::InvalidArgument)?;
        attr.mode = attr.mode & !PERMISSIONS | list.mode();
        if list.is_mode_alone() {
            return self.take_xattr(ino, attr, acl::ACCESS);
        }
        self.put_xattr(ino, attr, acl::ACCESS, &list.to_value())
    }

    fn set_default_acl(&mut self, ino: Ino, attr: &mut Attr, value: &[u8]) -> Decided {
        if !attr.is_directory() {
            return Err(Refusal::AccessDenied.into());
        }
        if acl::has_no_lines(value) {
            return self.take_xattr(ino, attr, acl::DEFAULT);
        }
        let list = Acl::parse(value).map_err(|_| Refusal::InvalidArgument)?;
        self.put_xattr(ino, attr, acl::DEFAULT, &list.to_value())
    }

    /// Gives a new inode what its directory's default ACL says, or else takes the umask from its mode.
    pub(super) fn inherit_acl(
        &mut self,
        directory: &Attr,
        parent: Ino,
        ino: Ino,
        attr: &mut Attr,
        umask: u32,
    ) -> Decided {
        if attr.kind == Kind::Symlink {
            return Ok(());
        }
        if !directory.xattrs.has(Xattrs::DEFAULT_ACL) {
            attr.mode &= !(umask & PERMISSIONS);
            return Ok(());
        }
        let mut list = self.acl(parent, acl::DEFAULT)?;
        if attr.is_directory() {
            self.put_xattr(ino, attr, acl::DEFAULT, &list.to_value())?;
        }
        attr.mode = attr.mode & !PERMISSIONS | list.narrow(attr.mode);
        if !list.is_mode_alone() {
            self.put_xattr(ino, attr, acl::ACCESS, &list.to_value())?;
        }
        Ok(())
    }

    /// Lets the access ACL say what `chmod` has set.
    pub(super) fn follow_mode(&mut self, ino: Ino, attr: &Attr) -> Decided {
        if attr.xattrs.has(Xattrs::ACCESS_ACL) {
            let mut list = self.acl(ino, acl::ACCESS)?;
            list.set_mode(attr.mode);
            self.edits.put(&Key::xattr(ino, acl::ACCESS), &list.to_value());
        }
        Ok(())
    }

    /// Takes file capabilities away, as a change of owner does.
    pub(super) fn drop_capability(&mut self, ino: Ino, attr: &mut Attr) -> Decided {
        if attr.xattrs.has(Xattrs::ANY) {
            self.take_xattr(ino, attr, CAPABILITY)
        } else {
            Ok(())
        }
    }

    fn acl(&self, ino: Ino, name: &[u8]) -> Result<Acl, Undecided> {
        let list = self.get(&Key::xattr(ino, name), |value| {
            Acl::parse(value).expect("only valid ACLs are put")
        })?;
        Ok(list.expect("the attributes say that there is an ACL"))
    }

    fn put_xattr(&mut self, ino: Ino, attr: &mut Attr, name: &[u8], value: &[u8]) -> Decided {
        let key = Key::xattr(ino, name);
        self.get(&key, |_| ())?;
        self.edits.put(&key, value);
        attr.xattrs.0 |= Xattrs::of(name).0;
        Ok(())
    }

    /// Removes an attribute that may be there, and notes which kinds are left.
    fn take_xattr(&mut self, ino: Ino, attr: &mut Attr, name: &[u8]) -> Decided {
        let key = Key::xattr(ino, name);
        if self.get(&key, |_| ())?.is_none() {
            return Ok(());
        }
        self.edits.remove(&key);
        attr.xattrs.0 &= !Xattrs::of(name).0 | Xattrs::ANY;
        let (from, to) = (Key::xattr(ino, &[]), Key::xattrs_end(ino));
        let mut others = false;
        self.branch
            .tree
            .scan(Bound::Included(&*from), Bound::Excluded(&*to), |found, _| {
                others |= *found != *key;
                if others {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        if !others {
            attr.xattrs = Xattrs::default();
        }
        Ok(())
    }
}
