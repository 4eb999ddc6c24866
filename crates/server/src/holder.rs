//! Who owns a drive, as its lock says in words: how other processes find the owner's socket.
//!
//! It is a note, not the lock: what a dead owner wrote stays until the next one comes.

use std::fmt;
use std::path::PathBuf;
use tenure_model::DriveName;
use tenure_store::{Bucket, Key};
use tenure_wire::Error;

/// The process that owns a drive, or did last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// The process on that machine.
    pub pid: u32,
    /// The socket at which it answers for the drive, if it does.
    pub socket: Option<PathBuf>,
}

const AT: &str = ", at the socket ";

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)?;
        match &self.socket {
            Some(socket) => write!(f, "{AT}{}", socket.display()),
            None => Ok(()),
        }
    }
}

impl Holder {
    /// Returns the holder that `text` names, if it is one as [`Holder`] is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (process, socket) = match text.split_once(AT) {
            Some((process, socket)) => (process, Some(PathBuf::from(socket))),
            None => (text, None),
        };
        let (pid, host) = process.strip_prefix("process ")?.split_once(" on ")?;
        Some(Self {
            host: host.to_owned(),
            pid: pid.parse().ok()?,
            socket,
        })
    }
}

/// Returns who owns a drive, or did last; ask its socket whether it still does.
pub fn holder(bucket: &dyn Bucket, drive: &DriveName) -> Result<Option<Holder>, Error> {
    let text = bucket.get(&Key::in_drive(drive, &["lock"]))?;
    Ok(text.and_then(|text| Holder::parse(&String::from_utf8_lossy(&text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_is_written() {
        for socket in [None, Some(PathBuf::from("/run/user/0/tenure/a drive.sock"))] {
            let holder = Holder {
                host: "box-1".into(),
                pid: 42,
                socket,
            };
            assert_eq!(Holder::parse(&holder.to_string()), Some(holder));
        }
        assert_eq!(Holder::parse(""), None);
        assert_eq!(Holder::parse("process x on y"), None);
    }
}
