//! The operations on open files and their contents.

use super::rare_operation;
use crate::kernel::abi::{self, bits, opcode};
use crate::kernel::request::body::{Body, Parsed};
use crate::kernel::request::{Operation, WriteFlags};

/// The operations on open files, and on the whole file system.
pub(super) fn file_operation<'a>(code: u32, body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    Ok(match code {
        opcode::OPEN => {
            let abi::OpenIn { flags, open_flags } = body.fixed()?;
            Operation::Open {
                flags,
                kill_suidgid: open_flags & bits::OPEN_KILL_SUIDGID != 0,
            }
        }
        opcode::OPENDIR => Operation::Opendir {
            flags: body.fixed::<abi::OpenIn>()?.flags,
        },
        opcode::READ => read(body)?,
        opcode::WRITE => write(body)?,
        opcode::READDIR => {
            let abi::ReadIn { fh, offset, size, .. } = body.fixed()?;
            Operation::Readdir { fh, offset, size }
        }
        opcode::READDIRPLUS => {
            let abi::ReadIn { fh, offset, size, .. } = body.fixed()?;
            Operation::Readdirplus { fh, offset, size }
        }
        opcode::FLUSH => {
            let abi::FlushIn { fh, lock_owner, .. } = body.fixed()?;
            Operation::Flush { fh, lock_owner }
        }
        opcode::RELEASE => {
            let abi::ReleaseIn {
                fh,
                flags,
                release_flags,
                lock_owner,
            } = body.fixed()?;
            let flush = release_flags & bits::RELEASE_FLUSH != 0;
            let flock_unlock = release_flags & bits::RELEASE_FLOCK_UNLOCK != 0;
            Operation::Release {
                fh,
                flags,
                flush,
                flock_unlock,
                lock_owner,
            }
        }
        opcode::RELEASEDIR => {
            let abi::ReleaseIn { fh, flags, .. } = body.fixed()?;
            Operation::Releasedir { fh, flags }
        }
        opcode::FSYNC => {
            let (fh, datasync) = fsync(body)?;
            Operation::Fsync { fh, datasync }
        }
        opcode::FSYNCDIR => {
            let (fh, datasync) = fsync(body)?;
            Operation::Fsyncdir { fh, datasync }
        }
        opcode::FALLOCATE => {
            let abi::FallocateIn {
                fh,
                offset,
                length,
                mode,
                ..
            } = body.fixed()?;
            Operation::Fallocate {
                fh,
                offset,
                length,
                mode,
            }
        }
        opcode::LSEEK => {
            let abi::LseekIn {
                fh, offset, whence, ..
            } = body.fixed()?;
            Operation::Lseek { fh, offset, whence }
        }
        opcode::COPY_FILE_RANGE => copy_file_range(body, false)?,
        opcode::COPY_FILE_RANGE_64 => copy_file_range(body, true)?,
        code => rare_operation(code, body)?,
    })
}

fn read<'a>(body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    let abi::ReadIn {
        fh,
        offset,
        size,
        read_flags,
        lock_owner,
        flags,
        ..
    } = body.fixed()?;
    let lock_owner = (read_flags & bits::READ_LOCKOWNER != 0).then_some(lock_owner);
    Ok(Operation::Read {
        fh,
        offset,
        size,
        flags,
        lock_owner,
    })
}

fn write<'a>(body: &mut Body<'a>) -> Parsed<Operation<'a>> {
    let abi::WriteIn {
        fh,
        offset,
        size,
        write_flags,
        lock_owner,
        flags,
        ..
    } = body.fixed()?;
    let data = body.payload(size)?;
    let lock_owner = (write_flags & bits::WRITE_LOCKOWNER != 0).then_some(lock_owner);
    let write_flags = WriteFlags {
        cache: write_flags & bits::WRITE_CACHE != 0,
        kill_suidgid: write_flags & bits::WRITE_KILL_SUIDGID != 0,
    };
    Ok(Operation::Write {
        fh,
        offset,
        data,
        write_flags,
        flags,
        lock_owner,
    })
}

fn fsync(body: &mut Body<'_>) -> Parsed<(u64, bool)> {
    let abi::FsyncIn { fh, fsync_flags, .. } = body.fixed()?;
    Ok((fh, fsync_flags & bits::FSYNC_FDATASYNC != 0))
}

fn copy_file_range<'a>(body: &mut Body<'a>, wide: bool) -> Parsed<Operation<'a>> {
    let copy = body.fixed::<abi::CopyFileRangeIn>()?;
    Ok(Operation::CopyFileRange {
        fh: copy.fh_in,
        offset: copy.off_in,
        to: copy.nodeid_out,
        to_fh: copy.fh_out,
        to_offset: copy.off_out,
        length: copy.len,
        flags: copy.flags,
        wide,
    })
}
