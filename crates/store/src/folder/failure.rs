//! What an error of the operating system means for a bucket.

use rustix::io::Errno;
use std::fmt::Display;
use tenure_model::Failure;

/// Says that `doing` something to `what` failed, in words that tell what a person can do.
pub(super) fn failed(doing: &str, what: &dyn Display, errno: Errno) -> Failure {
    let text = format!("cannot {doing} {what}: {}", words(errno));
    match errno {
        Errno::NOSPC | Errno::DQUOT => Failure::NoSpace(text),
        _ => Failure::DidNotHappen(text),
    }
}

fn words(errno: Errno) -> String {
    let words = match errno {
        Errno::NOSPC => {
            "the disk is full: free space on it outside the bucket, or copy the bucket to a disk with more"
        }
        Errno::DQUOT => "the disk quota is used up: free space outside the bucket, or have the quota raised",
        Errno::ROFS => {
            "the file system is read-only: mount it writable (mount -o remount,rw), or copy the bucket to one that is"
        }
        Errno::ACCESS => "permission denied: check the owner and mode of the bucket's folders (ls -ld)",
        Errno::PERM => {
            "the operation is not permitted: the file or its folder is held immutable or append-only (lsattr -d; chattr -i -a), or is another user's (ls -ld)"
        }
        Errno::MFILE | Errno::NFILE => "too many files are open: raise that limit (ulimit -n)",
        _ => return std::io::Error::from(errno).to_string(),
    };
    words.to_owned()
}
