//! Extended attributes.

use super::pending::Pending;
use super::{Served, answer, invalid};
use crate::kernel::{Errno, Reply};
use tenure_client::Error;
use tenure_model::attr::SETGID;
use tenure_model::{AttrChange, Ino, Refusal, XattrMode, XattrName, acl};

const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// The namespaces in which a name can be set (xattr(7)), and the names of the one in which no others exist.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
const SYSTEM: [&[u8]; 2] = [acl::ACCESS, acl::DEFAULT];

impl Served {
    pub(super) fn setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        (flags, acl_kill_sgid): (u32, bool),
        pending: &mut Pending,
    ) {
        let mode = match flags {
            0 => Ok(XattrMode::Set),
            XATTR_CREATE => Ok(XattrMode::Create),
            XATTR_REPLACE => Ok(XattrMode::Replace),
            _ => Err(invalid()),
        };
        let set = mode.and_then(|mode| {
            in_namespace(name)?;
            self.branch.set_xattr(ino, xattr_name(name)?, value, mode)?;
            if acl_kill_sgid {
                self.drop_setgid(ino)
            } else {
                Ok(())
            }
        });
        answer(pending, set, |reply, ()| reply.ok());
    }

    fn drop_setgid(&self, ino: Ino) -> Result<(), Error> {
        let mode = Some(self.branch.attr(ino)?.mode & !SETGID);
        self.branch
            .set_attr(
                ino,
                &AttrChange {
                    mode,
                    ..AttrChange::default()
                },
            )
            .map(drop)
    }

    pub(super) fn getxattr(&self, ino: Ino, name: &[u8], size: u32, pending: &mut Pending) {
        let value = self.branch.xattr(ino, name);
        let value = value.map_err(|error| or_out_of_namespace(error, name));
        answer(pending, value, |reply, value| answer_sized(reply, &value, size));
    }

    pub(super) fn listxattr(&self, ino: Ino, size: u32, pending: &mut Pending) {
        answer(pending, self.branch.xattrs(ino), |reply, names| {
            answer_sized(reply, &names, size)
        });
    }

    pub(super) fn removexattr(&self, ino: Ino, name: &[u8], pending: &mut Pending) {
        let removed = xattr_name(name).and_then(|name| self.branch.remove_xattr(ino, name));
        let removed = removed.map_err(|error| or_out_of_namespace(error, name));
        answer(pending, removed, |reply, ()| reply.ok());
    }
}

/// Answers with the bytes, or with how many there are where the caller asks for that.
pub(super) fn answer_sized(reply: Reply, bytes: &[u8], size: u32) {
    match size as usize {
        0 => reply.xattr_size(bytes.len() as u32),
        size if bytes.len() > size => reply.error(Errno::RANGE),
        _ => reply.data(bytes),
    }
}

/// Refuses a name in no namespace. Which files can have it, and who may set it, the kernel has checked.
fn in_namespace(name: &[u8]) -> Result<(), Error> {
    if SYSTEM.contains(&name) {
        return Ok(());
    }
    let rest = NAMESPACES
        .iter()
        .find_map(|namespace| name.strip_prefix(*namespace));
    match rest {
        None => Err(Error::Refused(Refusal::NotSupported)),
        Some([]) => Err(invalid()),
        Some(_) => Ok(()),
    }
}

/// Returns why an attribute is not there where it could not be. One of an older drive is there, and can be removed.
fn or_out_of_namespace(error: Error, name: &[u8]) -> Error {
    match error {
        Error::Refused(Refusal::NoAttribute) => in_namespace(name).err().unwrap_or(error),
        Error::Refused(_) | Error::Failed(_) => error,
    }
}

fn xattr_name(bytes: &[u8]) -> Result<XattrName, Error> {
    XattrName::parse(bytes).map_err(Error::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_set_only_in_a_namespace_that_exists() {
        let (unsupported, invalid) = (Some(libc::EOPNOTSUPP), Some(libc::EINVAL));
        let cases: [(&[u8], Option<i32>); 10] = [
            (b"user.k", None),
            (b"trusted.overlay.opaque", None),
            (b"security.capability", None),
            (b"system.posix_acl_access", None),
            (b"system.posix_acl_default", None),
            (b"system.nfs4_acl", unsupported),
            (b"foo.k", unsupported),
            (b"user", unsupported),
            (b"userk", unsupported),
            (b"user.", invalid),
        ];
        for (name, refusal) in cases {
            let refused = in_namespace(name).err().map(|error| error.errno());
            assert_eq!(refused, refusal, "{}", name.escape_ascii());
            let absent = or_out_of_namespace(Error::Refused(Refusal::NoAttribute), name);
            assert_eq!(absent.errno(), refusal.unwrap_or(libc::ENODATA));
        }
    }
}
