//! Bytes from the kernel to requests.
//!
//! The only place that says what the kernel wrote. Invariant: no input makes it panic; whatever has a wrong size, lacks
//! a NUL or says two different things is [`Malformed`] and answered with an errno.

use rustix::io::Errno;
use zerocopy::FromBytes;

use super::body::{Body, Parsed};
use super::{Lock, LockKind, Operation, Request, SetTime, Setattr, Time};
use crate::kernel::abi::{self, bits, opcode};
use crate::kernel::flags::InitFlags;

mod file;

use file::file_operation;

/// A message of the kernel: a request to answer, or one of those that are handled inside this room.
#[derive(Debug)]
pub(in crate::kernel) enum Message<'a> {
    Init(Init),
    Forget {
        nodeid: u64,
        lookups: u64,
    },
    BatchForget(&'a [abi::ForgetOne]),
    Interrupt {
        unique: u64,
    },
    Request(Request<'a>),
    /// An answer to a notification that asked for one, which this code never does.
    NotifyReply,
}

/// What the kernel offers when a mount begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) struct Init {
    pub(in crate::kernel) unique: u64,
    pub(in crate::kernel) major: u32,
    pub(in crate::kernel) minor: u32,
    pub(in crate::kernel) max_readahead: u32,
    pub(in crate::kernel) flags: InitFlags,
}

/// A request that cannot be understood, and what its caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) struct Malformed {
    pub(in crate::kernel) unique: u64,
    pub(in crate::kernel) opcode: u32,
    pub(in crate::kernel) errno: Errno,
}

/// Returns the message that `header` and `body` are, in a mount that agreed on `flags`.
pub(in crate::kernel) fn decode<'a>(
    header: &abi::InHeader,
    mut body: Body<'a>,
    flags: InitFlags,
) -> Result<Message<'a>, Malformed> {
    let malformed = |errno| Malformed {
        unique: header.unique,
        opcode: header.opcode,
        errno,
    };
    let message = match header.opcode {
        opcode::INIT => init(header.unique, &mut body).map(Message::Init),
        opcode::FORGET => body.fixed::<abi::ForgetIn>().map(|forget| Message::Forget {
            nodeid: header.nodeid,
            lookups: forget.nlookup,
        }),
        opcode::BATCH_FORGET => batch_forget(&mut body),
        opcode::INTERRUPT => body.fixed::<abi::WideIn>().map(|interrupt| Message::Interrupt {
            unique: interrupt.value,
        }),
        opcode::NOTIFY_REPLY => Ok(Message::NotifyReply),
        _ => request(header, body, flags).map(Message::Request),
    };
    message.map_err(malformed)
}

fn init(unique: u64, body: &mut Body<'_>) -> Parsed<Init> {
    let mut bytes = [0; size_of::<abi::InitIn>()];
    let sent = body.rest.get(..bytes.len()).unwrap_or(body.rest);
    if sent.len() < 16 {
        return Err(Errno::IO);
    }
    bytes[..sent.len()].copy_from_slice(sent);
    let init: abi::InitIn = zerocopy::transmute!(bytes);
    let offered = InitFlags::from_words(init.flags, 0);
    let flags2 = if offered.contains(InitFlags::INIT_EXT) {
        init.flags2
    } else {
        0
    };
    let flags = InitFlags::from_words(init.flags, flags2);
    Ok(Init {
        unique,
        major: init.major,
        minor: init.minor,
        max_readahead: init.max_readahead,
        flags,
    })
}

fn batch_forget<'a>(body: &mut Body<'a>) -> Parsed<Message<'a>> {
    let count = body.fixed::<abi::BatchForgetIn>()?.count as usize;
    let (forgets, _) =
        <[abi::ForgetOne]>::ref_from_prefix_with_elems(body.rest, count).map_err(|_| Errno::IO)?;
    Ok(Message::BatchForget(forgets))
}

fn request<'a>(header: &abi::InHeader, mut body: Body<'a>, flags: InitFlags) -> Parsed<Request<'a>> {
    let extensions = body.extensions(header.total_extlen)?;
    let operation = match header.opcode {
        opcode::GETATTR
        | opcode::STATX
        | opcode::SETATTR
        | opcode::READLINK
        | opcode::SETXATTR..=opcode::REMOVEXATTR => attribute_operation(header.opcode, &mut body, flags),
        opcode::LOOKUP..=opcode::LINK | opcode::RENAME2 | opcode::CREATE | opcode::TMPFILE => {
            name_operation(header.opcode, &mut body)
        }
        _ => file_operation(header.opcode, &mut body),
    }?;
    body.end()?;
    Ok(Request {
        unique: header.unique,
        nodeid: header.nodeid,
        uid: header.uid,
        gid: header.gid,
        pid: header.pid,
        supplementary_group: supplementary_group(extensions)?,
        is_lone: false,
        operation,
    })
}

/// The operations on names.
fn name_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::SYMLINK => Operation::Symlink {
            name: body.name()?,
            target: body.name()?,
        },
        opcode::MKNOD => {
            let abi::MknodIn {
                mode, rdev, umask, ..
            } = body.fixed()?;
            Operation::Mknod {
                name: body.name()?,
                mode,
                rdev,
                umask,
            }
        }
        opcode::MKDIR => {
            let abi::MkdirIn { mode, umask } = body.fixed()?;
            Operation::Mkdir {
                name: body.name()?,
                mode,
                umask,
            }
        }
        opcode::TMPFILE => {
            let abi::CreateIn {
                flags, mode, umask, ..
            } = body.fixed()?;
            // What follows is the name of a dentry that has none: whatever it says, it means nothing.
            body.skip();
            Operation::Tmpfile { flags, mode, umask }
        }
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::Rmdir { name: body.name()? },
        opcode::RENAME => {
            let new_parent = body.fixed::<abi::WideIn>()?.value;
            Operation::Rename {
                name: body.name()?,
                new_parent,
                new_name: body.name()?,
                flags: 0,
            }
        }
        opcode::RENAME2 => {
            let abi::Rename2In {
                newdir: new_parent,
                flags,
                ..
            } = body.fixed()?;
            Operation::Rename {
                name: body.name()?,
                new_parent,
                new_name: body.name()?,
                flags,
            }
        }
        opcode::LINK => {
            let ino = body.fixed::<abi::WideIn>()?.value;
            Operation::Link {
                ino,
                name: body.name()?,
            }
        }
        opcode::CREATE => {
            let abi::CreateIn {
                flags,
                mode,
                umask,
                open_flags,
            } = body.fixed()?;
            let kill_suidgid = open_flags & bits::OPEN_KILL_SUIDGID != 0;
            Operation::Create {
                name: body.name()?,
                flags,
                mode,
                umask,
                kill_suidgid,
            }
        }
        opcode => unknown(opcode, body),
    })
}

/// The operations on what an inode has.
fn attribute_operation<'a>(code: u32, body: &mut Body<'a>, agreed: InitFlags) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::GETATTR => {
            let getattr = body.fixed::<abi::GetattrIn>()?;
            Operation::Getattr {
                fh: handle(getattr.getattr_flags, getattr.fh),
            }
        }
        opcode::STATX => {
            let statx = body.fixed::<abi::StatxIn>()?;
            let fh = handle(statx.getattr_flags, statx.fh);
            Operation::Statx {
                fh,
                flags: statx.sx_flags,
                mask: statx.sx_mask,
            }
        }
        opcode::SETATTR => Operation::Setattr(setattr(body)?),
        opcode::READLINK => Operation::Readlink,
        opcode::SETXATTR => {
            let (size, flags, more) = if agreed.contains(InitFlags::SETXATTR_EXT) {
                let setxattr = body.fixed::<abi::SetxattrIn>()?;
                (setxattr.size, setxattr.flags, setxattr.setxattr_flags)
            } else {
                let setxattr = body.fixed::<abi::SetxattrCompatIn>()?;
                (setxattr.size, setxattr.flags, 0)
            };
            let acl_kill_sgid = more & bits::SETXATTR_ACL_KILL_SGID != 0;
            Operation::Setxattr {
                name: body.name()?,
                value: body.bytes(size)?,
                flags,
                acl_kill_sgid,
            }
        }
        opcode::GETXATTR => {
            let size = body.fixed::<abi::GetxattrIn>()?.size;
            Operation::Getxattr {
                name: body.name()?,
                size,
            }
        }
        opcode::LISTXATTR => Operation::Listxattr {
            size: body.fixed::<abi::GetxattrIn>()?.size,
        },
        opcode::REMOVEXATTR => Operation::Removexattr { name: body.name()? },
        opcode => unknown(opcode, body),
    })
}

fn rare_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::STATFS => Operation::Statfs,
        opcode::ACCESS => Operation::Access {
            mask: body.fixed::<abi::AccessIn>()?.mask,
        },
        opcode::GETLK => {
            let (fh, lock) = lock(body)?;
            Operation::Getlk { fh, lock }
        }
        opcode::SETLK | opcode::SETLKW => {
            let (fh, lock) = lock(body)?;
            Operation::Setlk {
                fh,
                lock,
                wait: code == opcode::SETLKW,
            }
        }
        opcode::SYNCFS => {
            body.fixed::<abi::WideIn>()?;
            Operation::Syncfs
        }
        opcode::IOCTL => {
            let abi::IoctlIn {
                fh,
                flags,
                cmd: command,
                arg: argument,
                in_size,
                out_size,
            } = body.fixed()?;
            Operation::Ioctl {
                fh,
                flags,
                command,
                argument,
                data: body.bytes(in_size)?,
                out_size,
            }
        }
        opcode::POLL => {
            let abi::PollIn {
                fh,
                kh: wakeup,
                flags,
                events,
            } = body.fixed()?;
            Operation::Poll {
                fh,
                wakeup,
                flags,
                events,
            }
        }
        opcode::BMAP => {
            let abi::BmapIn { block, blocksize, .. } = body.fixed()?;
            Operation::Bmap { block, blocksize }
        }
        opcode::DESTROY => Operation::Destroy,
        opcode => unknown(opcode, body),
    })
}

/// An operation that is only named: what it carries is skipped.
fn unknown<'a>(opcode: u32, body: &mut Body<'a>) -> Operation<'a> {
    body.skip();
    Operation::Unknown { opcode }
}

fn handle(getattr_flags: u32, fh: u64) -> Option<u64> {
    (getattr_flags & bits::GETATTR_FH != 0).then_some(fh)
}

fn setattr(body: &mut Body<'_>) -> Parsed<Setattr> {
    let setattr = body.fixed::<abi::SetattrIn>()?;
    let has = |bit| setattr.valid & bit != 0;
    let set_time = |set, now, seconds, nanoseconds| {
        Ok(match (has(set), has(now)) {
            (false, _) => None,
            (true, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(time(seconds, nanoseconds)?)),
        })
    };
    Ok(Setattr {
        mode: has(bits::FATTR_MODE).then_some(setattr.mode),
        uid: has(bits::FATTR_UID).then_some(setattr.uid),
        gid: has(bits::FATTR_GID).then_some(setattr.gid),
        size: has(bits::FATTR_SIZE).then_some(setattr.size),
        atime: set_time(
            bits::FATTR_ATIME,
            bits::FATTR_ATIME_NOW,
            setattr.atime,
            setattr.atimensec,
        )?,
        mtime: set_time(
            bits::FATTR_MTIME,
            bits::FATTR_MTIME_NOW,
            setattr.mtime,
            setattr.mtimensec,
        )?,
        ctime: has(bits::FATTR_CTIME)
            .then(|| time(setattr.ctime, setattr.ctimensec))
            .transpose()?,
        fh: has(bits::FATTR_FH).then_some(setattr.fh),
        lock_owner: has(bits::FATTR_LOCKOWNER).then_some(setattr.lock_owner),
        kill_suidgid: has(bits::FATTR_KILL_SUIDGID),
    })
}

fn time(seconds: u64, nanoseconds: u32) -> Parsed<Time> {
    if nanoseconds >= 1_000_000_000 {
        return Err(Errno::INVAL);
    }
    Ok(Time {
        seconds: seconds.cast_signed(),
        nanoseconds,
    })
}

fn lock(body: &mut Body<'_>) -> Parsed<(u64, Lock)> {
    let abi::LkIn {
        fh,
        owner,
        lk,
        lk_flags,
        ..
    } = body.fixed()?;
    let kind = match i32::try_from(lk.kind).map_err(|_| Errno::INVAL)? {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::INVAL),
    };
    let flock = lk_flags & bits::LK_FLOCK != 0;
    Ok((
        fh,
        Lock {
            owner,
            start: lk.start,
            end: lk.end,
            kind,
            pid: lk.pid,
            flock,
        },
    ))
}

/// Returns the group in a `FUSE_EXT_GROUPS` extension, of which the kernel sends at most one with one group.
fn supplementary_group(mut extensions: &[u8]) -> Parsed<Option<u32>> {
    while !extensions.is_empty() {
        let (header, _) = abi::ExtHeader::read_from_prefix(extensions).map_err(|_| Errno::IO)?;
        let size = header.size as usize;
        if size < size_of::<abi::ExtHeader>() || size > extensions.len() {
            return Err(Errno::IO);
        }
        let (extension, rest) = extensions.split_at(size);
        if header.kind == bits::EXT_GROUPS {
            let groups = &extension[size_of::<abi::ExtHeader>()..];
            let ([count, group], _) = <[u32; 2]>::read_from_prefix(groups).map_err(|_| Errno::IO)?;
            return Ok((count > 0).then_some(group));
        }
        extensions = rest;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
