//! What is agreed on with the kernel when a mount begins, and what an opened file is told: the flag words of
//! FUSE_INIT (both halves in one word) and of OPEN's answer.
//!
//! Sets of named bits only. Invariant: a bit has the value of its namesake in Linux `include/uapi/linux/fuse.h`.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of FUSE_INIT flags: `flags` in the low 32 bits and `flags2` in the high ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InitFlags(u64);

macro_rules! init_flags {
    ($($name:ident = $bit:literal,)*) => {
        impl InitFlags { $(
            #[doc = concat!("`FUSE_", stringify!($name), "`.")]
            pub const $name: InitFlags = InitFlags(1 << $bit);
        )* }
        const INIT_FLAG_NAMES: &[(&str, InitFlags)] = &[$((stringify!($name), InitFlags::$name),)*];
    };
}
init_flags! {
    ASYNC_READ = 0, POSIX_LOCKS = 1, ATOMIC_O_TRUNC = 3, EXPORT_SUPPORT = 4, BIG_WRITES = 5, DONT_MASK = 6,
    SPLICE_WRITE = 7, SPLICE_MOVE = 8, SPLICE_READ = 9, FLOCK_LOCKS = 10, HAS_IOCTL_DIR = 11,
    AUTO_INVAL_DATA = 12, DO_READDIRPLUS = 13, READDIRPLUS_AUTO = 14, ASYNC_DIO = 15, WRITEBACK_CACHE = 16,
    NO_OPEN_SUPPORT = 17, PARALLEL_DIROPS = 18, HANDLE_KILLPRIV = 19, POSIX_ACL = 20, ABORT_ERROR = 21,
    MAX_PAGES = 22, CACHE_SYMLINKS = 23, NO_OPENDIR_SUPPORT = 24, EXPLICIT_INVAL_DATA = 25, MAP_ALIGNMENT = 26,
    SUBMOUNTS = 27, HANDLE_KILLPRIV_V2 = 28, SETXATTR_EXT = 29, INIT_EXT = 30, SECURITY_CTX = 32,
    HAS_INODE_DAX = 33, CREATE_SUPP_GROUP = 34, HAS_EXPIRE_ONLY = 35, DIRECT_IO_ALLOW_MMAP = 36,
    PASSTHROUGH = 37, NO_EXPORT_SUPPORT = 38, HAS_RESEND = 39, ALLOW_IDMAP = 40, OVER_IO_URING = 41,
    REQUEST_TIMEOUT = 42,
}

impl InitFlags {
    /// No flag.
    pub const NONE: InitFlags = InitFlags(0);

    /// Returns whether every flag of `other` is in this set.
    pub const fn contains(self, other: InitFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the flags in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        INIT_FLAG_NAMES
            .iter()
            .filter(move |(_, flag)| self.contains(*flag))
            .map(|(name, _)| *name)
    }

    pub(super) fn from_words(flags: u32, flags2: u32) -> InitFlags {
        InitFlags(u64::from(flags) | u64::from(flags2) << 32)
    }

    /// Returns the two words of `fuse_init_out`: `flags` and `flags2`.
    pub(super) fn words(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }
}

impl BitOr for InitFlags {
    type Output = InitFlags;
    fn bitor(self, other: InitFlags) -> InitFlags {
        InitFlags(self.0 | other.0)
    }
}

impl BitOrAssign for InitFlags {
    fn bitor_assign(&mut self, other: InitFlags) {
        self.0 |= other.0;
    }
}

impl BitAnd for InitFlags {
    type Output = InitFlags;
    fn bitand(self, other: InitFlags) -> InitFlags {
        InitFlags(self.0 & other.0)
    }
}

impl Not for InitFlags {
    type Output = InitFlags;
    fn not(self) -> InitFlags {
        InitFlags(!self.0)
    }
}

/// A set of the flags that OPEN, OPENDIR and CREATE answer with (`FOPEN_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// No flag.
    pub const NONE: OpenFlags = OpenFlags(0);
    /// `FOPEN_DIRECT_IO`: the page cache is not used for this open file.
    pub const DIRECT_IO: OpenFlags = OpenFlags(1);
    /// `FOPEN_KEEP_CACHE`: what the page cache holds stays valid.
    pub const KEEP_CACHE: OpenFlags = OpenFlags(1 << 1);
    /// `FOPEN_NONSEEKABLE`.
    pub const NONSEEKABLE: OpenFlags = OpenFlags(1 << 2);
    /// `FOPEN_CACHE_DIR`: the kernel may cache this listing.
    pub const CACHE_DIR: OpenFlags = OpenFlags(1 << 3);
    /// `FOPEN_STREAM`.
    pub const STREAM: OpenFlags = OpenFlags(1 << 4);
    /// `FOPEN_NOFLUSH`: no FLUSH at close (unless the cache is written back).
    pub const NOFLUSH: OpenFlags = OpenFlags(1 << 5);
    /// `FOPEN_PARALLEL_DIRECT_WRITES`.
    pub const PARALLEL_DIRECT_WRITES: OpenFlags = OpenFlags(1 << 6);

    pub(super) fn word(self) -> u32 {
        self.0
    }
}

impl BitOr for OpenFlags {
    type Output = OpenFlags;
    fn bitor(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::InitFlags;

    #[test]
    fn the_two_words_are_one_set() {
        let flags = InitFlags::from_words(1 << 16, 1 << 9);
        assert_eq!(flags, InitFlags::WRITEBACK_CACHE | InitFlags::OVER_IO_URING);
        assert_eq!(flags.words(), (1 << 16, 1 << 9));
        assert_eq!(
            flags.names().collect::<Vec<_>>(),
            ["WRITEBACK_CACHE", "OVER_IO_URING"]
        );
        assert!(!flags.contains(InitFlags::POSIX_ACL));
    }
}
