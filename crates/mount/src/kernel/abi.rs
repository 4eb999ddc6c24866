//! The bytes of the FUSE protocol: Linux `include/uapi/linux/fuse.h`, versions 7.31 to 7.45, in the machine's byte order.
//!
//! Layouts and numbers only; what a message means stands in `request` and `reply`.
//! Invariant: every struct has the size and the field offsets of its namesake in the kernel header (tested below).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol's major version.
pub(super) const MAJOR: u32 = 7;
/// The newest minor version that this code speaks.
pub(super) const MINOR: u32 = 45;
/// The oldest minor version that this code accepts.
pub(super) const MINOR_OLDEST: u32 = 31;
/// The size of a page, which the protocol counts requests in.
pub(super) const PAGE: usize = 4096;
/// The smallest buffer that the kernel lets a daemon read with.
pub(super) const READ_BUFFER_MIN: usize = 8192;

/// The numbers of the requests (`enum fuse_opcode`).
pub(super) mod opcode {
    macro_rules! opcodes {
        ($($name:ident = $number:literal,)*) => { $(
            #[doc = concat!("`FUSE_", stringify!($name), "`.")]
            pub(in crate::kernel) const $name: u32 = $number;
        )* };
    }
    opcodes! {
        LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9,
        UNLINK = 10, RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17,
        RELEASE = 18, FSYNC = 20, SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, FLUSH = 25,
        INIT = 26, OPENDIR = 27, READDIR = 28, RELEASEDIR = 29, FSYNCDIR = 30, GETLK = 31, SETLK = 32,
        SETLKW = 33, ACCESS = 34, CREATE = 35, INTERRUPT = 36, BMAP = 37, DESTROY = 38, IOCTL = 39, POLL = 40,
        NOTIFY_REPLY = 41, BATCH_FORGET = 42, FALLOCATE = 43, READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46,
        COPY_FILE_RANGE = 47, SYNCFS = 50, TMPFILE = 51, STATX = 52, COPY_FILE_RANGE_64 = 53,
    }
}

/// The numbers of the notifications (`enum fuse_notify_code`).
pub(super) mod notify {
    /// `FUSE_NOTIFY_INVAL_INODE`.
    pub(in crate::kernel) const INVAL_INODE: i32 = 2;
    /// `FUSE_NOTIFY_INVAL_ENTRY`.
    pub(in crate::kernel) const INVAL_ENTRY: i32 = 3;
    /// `FUSE_NOTIFY_STORE`.
    pub(in crate::kernel) const STORE: i32 = 4;
    /// `FUSE_NOTIFY_DELETE`.
    pub(in crate::kernel) const DELETE: i32 = 6;
    /// `FUSE_EXPIRE_ONLY`: the entry is looked up again, and not dropped with what is below it.
    pub(in crate::kernel) const EXPIRE_ONLY: u32 = 1;
}

/// Bits of the smaller flag words, by the struct that carries them.
pub(super) mod bits {
    /// `FATTR_MODE` of [`super::SetattrIn`].
    pub(in crate::kernel) const FATTR_MODE: u32 = 1;
    /// `FATTR_UID`.
    pub(in crate::kernel) const FATTR_UID: u32 = 1 << 1;
    /// `FATTR_GID`.
    pub(in crate::kernel) const FATTR_GID: u32 = 1 << 2;
    /// `FATTR_SIZE`.
    pub(in crate::kernel) const FATTR_SIZE: u32 = 1 << 3;
    /// `FATTR_ATIME`.
    pub(in crate::kernel) const FATTR_ATIME: u32 = 1 << 4;
    /// `FATTR_MTIME`.
    pub(in crate::kernel) const FATTR_MTIME: u32 = 1 << 5;
    /// `FATTR_FH`.
    pub(in crate::kernel) const FATTR_FH: u32 = 1 << 6;
    /// `FATTR_ATIME_NOW`.
    pub(in crate::kernel) const FATTR_ATIME_NOW: u32 = 1 << 7;
    /// `FATTR_MTIME_NOW`.
    pub(in crate::kernel) const FATTR_MTIME_NOW: u32 = 1 << 8;
    /// `FATTR_LOCKOWNER`.
    pub(in crate::kernel) const FATTR_LOCKOWNER: u32 = 1 << 9;
    /// `FATTR_CTIME`.
    pub(in crate::kernel) const FATTR_CTIME: u32 = 1 << 10;
    /// `FATTR_KILL_SUIDGID`.
    pub(in crate::kernel) const FATTR_KILL_SUIDGID: u32 = 1 << 11;
    /// `FUSE_GETATTR_FH` of [`super::GetattrIn`] and [`super::StatxIn`].
    pub(in crate::kernel) const GETATTR_FH: u32 = 1;
    /// `FUSE_OPEN_KILL_SUIDGID` of [`super::OpenIn`] and [`super::CreateIn`].
    pub(in crate::kernel) const OPEN_KILL_SUIDGID: u32 = 1;
    /// `FUSE_READ_LOCKOWNER` of [`super::ReadIn`].
    pub(in crate::kernel) const READ_LOCKOWNER: u32 = 1 << 1;
    /// `FUSE_WRITE_CACHE` of [`super::WriteIn`].
    pub(in crate::kernel) const WRITE_CACHE: u32 = 1;
    /// `FUSE_WRITE_LOCKOWNER`.
    pub(in crate::kernel) const WRITE_LOCKOWNER: u32 = 1 << 1;
    /// `FUSE_WRITE_KILL_SUIDGID`.
    pub(in crate::kernel) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
    /// `FUSE_RELEASE_FLUSH` of [`super::ReleaseIn`].
    pub(in crate::kernel) const RELEASE_FLUSH: u32 = 1;
    /// `FUSE_RELEASE_FLOCK_UNLOCK`.
    pub(in crate::kernel) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
    /// `FUSE_FSYNC_FDATASYNC` of [`super::FsyncIn`].
    pub(in crate::kernel) const FSYNC_FDATASYNC: u32 = 1;
    /// `FUSE_SETXATTR_ACL_KILL_SGID` of [`super::SetxattrIn`].
    pub(in crate::kernel) const SETXATTR_ACL_KILL_SGID: u32 = 1;
    /// `FUSE_LK_FLOCK` of [`super::LkIn`].
    pub(in crate::kernel) const LK_FLOCK: u32 = 1;
    /// `FUSE_EXT_GROUPS`: the extension that carries a supplementary group.
    pub(in crate::kernel) const EXT_GROUPS: u32 = 32;
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $type,)* }
    )* };
}

layouts! {
    /// `fuse_in_header`: what every request begins with.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16,
        padding: u16,
    }
    /// `fuse_out_header`: what every reply and notification begins with.
    OutHeader { len: u32, error: i32, unique: u64, }
    /// `fuse_init_in` as of 7.36; older kernels send its first 16 bytes.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11], }
    /// `fuse_init_out`.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    /// `fuse_attr`.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// `fuse_entry_out`.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    /// `fuse_attr_out`.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr, }
    /// `fuse_open_out`.
    OpenOut { fh: u64, open_flags: u32, backing_id: i32, }
    /// `fuse_entry_out` and `fuse_open_out`: the answer to CREATE and TMPFILE.
    CreateOut { entry: EntryOut, open: OpenOut, }
    /// `fuse_write_out` and `fuse_getxattr_out`.
    SizeOut { size: u32, padding: u32, }
    /// `fuse_lseek_out`, `fuse_bmap_out` and `fuse_copy_file_range_out`.
    WideOut { value: u64, }
    /// `fuse_statfs_out`.
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    /// `fuse_file_lock`, which is `fuse_lk_out` too.
    FileLock { start: u64, end: u64, kind: u32, pid: u32, }
    /// `fuse_sx_time`.
    StatxTime { seconds: i64, nanoseconds: u32, reserved: i32, }
    /// `fuse_statx_out` with its `fuse_statx`.
    StatxOut {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], mask: u32, blksize: u32,
        attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64, size: u64,
        blocks: u64, attributes_mask: u64, atime: StatxTime, btime: StatxTime, ctime: StatxTime,
        mtime: StatxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// `fuse_ioctl_out`.
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// `fuse_poll_out`.
    PollOut { revents: u32, padding: u32, }
    /// `fuse_dirent` before its name.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32, }
    /// `fuse_forget_in`.
    ForgetIn { nlookup: u64, }
    /// `fuse_batch_forget_in`.
    BatchForgetIn { count: u32, dummy: u32, }
    /// `fuse_forget_one`.
    ForgetOne { nodeid: u64, nlookup: u64, }
    /// `fuse_getattr_in`.
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64, }
    /// `fuse_setattr_in`.
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// `fuse_mknod_in`.
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// `fuse_mkdir_in`.
    MkdirIn { mode: u32, umask: u32, }
    /// `fuse_rename2_in`.
    Rename2In { newdir: u64, flags: u32, padding: u32, }
    /// A single number: `fuse_rename_in`, `fuse_link_in`, `fuse_interrupt_in`, `fuse_syncfs_in`.
    WideIn { value: u64, }
    /// `fuse_open_in`.
    OpenIn { flags: u32, open_flags: u32, }
    /// `fuse_create_in`.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// `fuse_release_in`.
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// `fuse_flush_in`.
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64, }
    /// `fuse_read_in`.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// `fuse_write_in`.
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// `fuse_fsync_in`.
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32, }
    /// `fuse_setxattr_in` where `FUSE_SETXATTR_EXT` was not agreed on.
    SetxattrCompatIn { size: u32, flags: u32, }
    /// `fuse_setxattr_in`.
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32, }
    /// `fuse_getxattr_in`.
    GetxattrIn { size: u32, padding: u32, }
    /// `fuse_lk_in`.
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32, }
    /// `fuse_access_in`.
    AccessIn { mask: u32, padding: u32, }
    /// `fuse_bmap_in`.
    BmapIn { block: u64, blocksize: u32, padding: u32, }
    /// `fuse_ioctl_in`.
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    /// `fuse_poll_in`.
    PollIn { fh: u64, kh: u64, flags: u32, events: u32, }
    /// `fuse_fallocate_in`.
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// `fuse_lseek_in`.
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32, }
    /// `fuse_copy_file_range_in`.
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    /// `fuse_statx_in`.
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, }
    /// `fuse_ext_header`.
    ExtHeader { size: u32, kind: u32, }
    /// `fuse_notify_inval_inode_out`.
    NotifyInvalInode { ino: u64, off: i64, len: i64, }
    /// `fuse_notify_inval_entry_out` before the name.
    NotifyInvalEntry { parent: u64, namelen: u32, flags: u32, }
    /// `fuse_notify_delete_out` before the name.
    NotifyDelete { parent: u64, child: u64, namelen: u32, padding: u32, }
    /// `fuse_notify_store_out` before the bytes.
    NotifyStore { nodeid: u64, offset: u64, size: u32, padding: u32, }
    /// `fuse_uring_ent_in_out`.
    RingEntry { flags: u64, commit_id: u64, payload_size: u32, padding: u32, reserved: u64, }
    /// `fuse_uring_cmd_req`: what stands in the command bytes of a submission.
    RingCommand { flags: u64, commit_id: u64, queue: u16, padding: [u8; 6], }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_sizes_of_the_kernel_header() {
        let sizes = [
            (size_of::<InHeader>(), 40, "fuse_in_header"),
            (size_of::<OutHeader>(), 16, "fuse_out_header"),
            (size_of::<InitIn>(), 64, "fuse_init_in"),
            (size_of::<InitOut>(), 64, "fuse_init_out"),
            (size_of::<Attr>(), 88, "fuse_attr"),
            (size_of::<EntryOut>(), 128, "fuse_entry_out"),
            (size_of::<AttrOut>(), 104, "fuse_attr_out"),
            (size_of::<CreateOut>(), 144, "fuse_entry_out + fuse_open_out"),
            (size_of::<StatfsOut>(), 80, "fuse_kstatfs"),
            (size_of::<FileLock>(), 24, "fuse_file_lock"),
            (size_of::<StatxOut>(), 288, "fuse_statx_out"),
            (size_of::<SetattrIn>(), 88, "fuse_setattr_in"),
            (size_of::<ReadIn>(), 40, "fuse_read_in"),
            (size_of::<WriteIn>(), 40, "fuse_write_in"),
            (size_of::<LkIn>(), 48, "fuse_lk_in"),
            (size_of::<CopyFileRangeIn>(), 56, "fuse_copy_file_range_in"),
            (size_of::<RingEntry>(), 32, "fuse_uring_ent_in_out"),
            (size_of::<RingCommand>(), 24, "fuse_uring_cmd_req"),
        ];
        for (ours, kernels, name) in sizes {
            assert_eq!(ours, kernels, "{name}");
        }
    }
}
