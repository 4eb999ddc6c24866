//! Every bound of the product, with its reason. A queue, loop, size or wait without a line here is a defect.

use std::time::Duration;

/// Bytes in a name of a directory entry (POSIX `NAME_MAX`).
pub const NAME_LEN_MAX: usize = 255;
/// Bytes in a symlink's target (Linux `PATH_MAX` less its NUL).
pub const SYMLINK_LEN_MAX: usize = 4095;
/// Bytes in one extended attribute's value (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_LEN_MAX: usize = 65536;
/// Bytes in an extended attribute's name (Linux `XATTR_NAME_MAX`).
pub const XATTR_NAME_LEN_MAX: usize = 255;
/// Bytes of all names that `listxattr` returns at once (Linux `XATTR_LIST_MAX`).
pub const XATTR_LIST_LEN_MAX: usize = 65536;
/// Links to one inode (ext4 has 65,000; `st_nlink` of old programs is 16 bits wide).
pub const LINKS_MAX: u32 = 65_000;
/// Bytes in a file: the largest offset that `off_t` can name on Linux.
pub const FILE_LEN_MAX: u64 = i64::MAX as u64;
/// Content up to this many bytes sits in the extent's record itself: an address alone is 40 bytes.
pub const INLINE_LEN_MAX: usize = 128;
/// Bytes in a chunk: bounds what one changed byte can make a reader fetch.
pub const CHUNK_LEN_MAX: usize = 1 << 20;
/// Bytes of records in one batch; a larger log is shipped as several batches.
pub const BATCH_LEN_MAX: usize = 16 << 20;
/// Bytes of chunks that come at once up to which they are little, as what somebody syncs is: on their way they wait for no bulk.
pub const LITTLE_LEN_MAX: usize = 64 << 10;
/// Bytes of chunks that ride in the journal with the batch that names them where a pack becomes durable only as a whole: waiting for
/// it takes as long as the record itself.
pub const RIDING_LEN_MAX: u64 = 256 << 10;
/// Bytes in one message between client and server: a batch with its inline contents, and some.
pub const MESSAGE_LEN_MAX: usize = 64 << 20;
/// Bytes of a pack that a client asks for at once: the neighbours of what it needs, and a chunk.
pub const PART_LEN_MAX: usize = 4 << 20;
/// Entries that may share one 60-bit hash of their names in a directory.
pub const HASH_COLLISIONS_MAX: u64 = 16;
/// Numbers from the oldest act of a session that was not answered to the next that it asks for: more than a mount has underway. An
/// act that is as far behind another one was put in order before it.
pub const ACT_SPAN_MAX: u64 = 128;
/// Entries that directories may have which are lent at once to a session that shares a branch: each is looked at then, some ten
/// milliseconds' work, and their inodes are told in one message. A larger directory stays at the owner.
pub const LENT_ENTRIES_MAX: u64 = 10_000;
/// Directories that are lent at once: the one that was asked for, and some below it that nobody else has touched.
pub const LENT_DIRECTORIES_MAX: usize = 64;
/// Inode numbers lent at once: a branch rarely creates more between two syncs.
pub const INO_RANGE_LEN: u64 = 1 << 20;
/// How long a session whose branch was taken may take to bring what it had not shipped: a machine that was switched off over a
/// holiday is on again by then, and what waits for it costs a row or two.
pub const STRAY_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes in the name of a drive, branch or checkpoint: it becomes part of an object's key.
pub const REF_LEN_MAX: usize = 100;
/// Bytes in the key of a request: a digest in hexadecimal, or the name of a job and of what it does, with room beside.
pub const KEY_LEN_MAX: usize = 200;
/// Checkpoints of one branch that an owner has made by itself and keeps: those of the last hour, at the usual time apart, and one of
/// each hour of two days.
pub const AUTOMATIC_CHECKPOINTS_MAX: usize = 64;
/// Bytes in an object that is read whole: one record may be as long as a message, and a pack or segment has room beside it. What is
/// longer was never written, and is refused before memory is asked for.
pub const OBJECT_LEN_MAX: u64 = 128 << 20;
/// Claims of a drive that may be missing before its newest one: an accident takes a few. Where more are, the newest is none of ours,
/// and following it would take as long as its number is high.
pub const CLAIMS_MISSING_MAX: u64 = 16;
/// Inodes that a line may have changed which is merged: what is known of each takes some hundred bytes meanwhile.
pub const MERGED_INODES_MAX: usize = 1_000_000;
/// Bytes of a file that a driver is given: three of them are in memory at once, and work on them takes moments.
pub const MERGED_FILE_LEN_MAX: u64 = 16 << 20;
/// How long a caller waits for what may come back by itself: an owner that is silent or gone, a store that refuses, a token that
/// has ended. A server is replaced in that time, and a token renewed by somebody who looks; and nobody waits for ever.
pub const WAIT_MAX: Duration = Duration::from_secs(120);
