//! Who owns a drive, as its lock or its newest claim says in words: how other processes find the owner.
//!
//! It is a note, not the lock: what a dead owner wrote stays until the next one comes.

use crate::drive::Options;
use std::fmt;
use tenure_journal::epoch;
use tenure_model::{DriveName, Epoch, Failure};
use tenure_store::{Bucket, Key};
use tenure_wire::{Error, ServerAddress};

/// The process that owns a drive, or did last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// The process on that machine.
    pub pid: u32,
    /// Where it answers for the drive, if it does.
    pub address: Option<ServerAddress>,
}

const AT: &str = ", at ";

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)?;
        match &self.address {
            Some(address) => write!(f, "{AT}{address}"),
            None => Ok(()),
        }
    }
}

impl Holder {
    /// Returns who opens a drive with these options.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            host: options.host.clone(),
            pid: options.pid,
            address: options.address.clone(),
        }
    }

    /// Returns the holder that `text` names, if it is one as [`Holder`] is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (process, address) = match text.split_once(AT) {
            Some((process, address)) => (process, address.parse().ok()),
            None => (text, None),
        };
        let (pid, host) = process.strip_prefix("process ")?.split_once(" on ")?;
        Some(Self {
            host: host.to_owned(),
            pid: pid.parse().ok()?,
            address,
        })
    }
}

/// Returns who owns a drive, or did last; ask there whether it still does.
pub fn holder(bucket: &dyn Bucket, drive: &DriveName) -> Result<Option<Holder>, Error> {
    if bucket.disk().is_none() {
        return Ok(claimant(bucket, drive, epoch::newest(bucket, drive)?)?);
    }
    let text = bucket.get(&Key::in_drive(drive, &["lock"]))?;
    Ok(text.and_then(|text| Holder::parse(&String::from_utf8_lossy(&text))))
}

/// Returns who has claimed an epoch, if its claim is there and says so.
pub(crate) fn claimant(
    bucket: &dyn Bucket,
    drive: &DriveName,
    epoch: Epoch,
) -> Result<Option<Holder>, Failure> {
    if epoch == Epoch(0) {
        return Ok(None);
    }
    match epoch::read(bucket, drive, epoch) {
        // One that is damaged says nothing of its owner.
        Err(Failure::Corrupt(_)) => Ok(None),
        claim => Ok(claim?.and_then(|claim| Holder::parse(&claim.who))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_is_written() {
        for address in [
            None,
            Some("unix:/run/user/0/tenure/a drive.sock"),
            Some("https://[::1]:7000"),
        ] {
            let address = address.map(|address| address.parse().expect("a literal address"));
            let holder = Holder {
                host: "box-1".into(),
                pid: 42,
                address,
            };
            assert_eq!(Holder::parse(&holder.to_string()), Some(holder));
        }
        assert_eq!(Holder::parse(""), None);
        assert_eq!(Holder::parse("process x on y"), None);
    }
}
