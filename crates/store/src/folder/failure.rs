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
    match errno {
        Errno::NOSPC => "the disk is full".to_owned(),
        Errno::DQUOT => "the disk quota is used up".to_owned(),
        Errno::ROFS => "the file system is read-only".to_owned(),
        Errno::ACCESS | Errno::PERM => "permission denied; check the owner and mode of the folder".to_owned(),
        _ => std::io::Error::from(errno).to_string(),
    }
}
