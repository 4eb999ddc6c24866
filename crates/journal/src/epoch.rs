//! Claims: who owns a drive from an epoch on.
//!
//! A claim is a put-if-absent of the next number: that is the whole lock between machines. Invariant: of two
//! claimants of one number at most one believes that it has it. Claims are never deleted.

use crate::claimant::Claimant;
use crate::envelope::Kind;
use crate::put::{self, Standing};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use tenure_model::{DriveName, Epoch, Failure, Refusal};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Key, OpenError};

const KIND: Kind = Kind {
    magic: b"TNCLAIM1",
    version: 1,
    what: "claim",
};

/// A claim of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The drive.
    pub drive: DriveName,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The epoch before; 0 for the first.
    pub previous: Epoch,
    /// Drawn by the claimant when it was sent: tells two claimants apart.
    pub nonce: [u8; 16],
    /// Who claims it, in words: agent, host, process.
    pub who: String,
}

impl Codec for Claim {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.drive.as_str().as_bytes());
        put_varint(out, self.epoch.0);
        put_varint(out, self.previous.0);
        out.extend_from_slice(&self.nonce);
        put_bytes(out, self.who.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            drive: drive_name(input)?,
            epoch: Epoch(input.varint()?),
            previous: Epoch(input.varint()?),
            nonce: input.take(16)?.try_into().expect("16 bytes were taken"),
            who: input.text()?.to_owned(),
        })
    }
}

/// Claims the epoch after the newest one. The nonce is drawn when the claim is sent.
///
/// Refuses when another claimant was faster: it has the drive.
pub fn claim(bucket: &dyn Bucket, drive: &DriveName, claimant: &Claimant) -> Result<Claim, OpenError> {
    let previous = newest(bucket, drive)?;
    if claimant.after.is_some_and(|after| after != previous) {
        return Err(held(bucket, drive, previous)?.into());
    }
    refuse_newer(bucket, drive, previous)?;
    let claim = Claim {
        drive: drive.clone(),
        epoch: previous.next(),
        previous,
        nonce: (claimant.means.draw)(),
        who: claimant.who.clone(),
    };
    let key = key(drive, claim.epoch);
    if let Standing::Others(bytes) = put::settled(bucket, &key, &KIND.wrapped(&claim), is_claim)? {
        let other: Claim = KIND.opened(&key, &bytes)?;
        return Err(Refusal::Held { by: other.who }.into());
    }
    match newest(bucket, drive)? {
        newest if newest == claim.epoch => Ok(claim),
        newer => Err(held(bucket, drive, newer)?.into()),
    }
}

fn held(bucket: &dyn Bucket, drive: &DriveName, by: Epoch) -> Result<Refusal, Failure> {
    let claim = read(bucket, drive, by)?;
    let by = claim.map_or_else(|| "another owner".to_owned(), |claim| claim.who);
    Ok(Refusal::Held { by })
}

/// Fails where the owner before was a newer program: what it has written cannot be read here. A claim that is damaged says
/// nothing, and stops nobody.
fn refuse_newer(bucket: &dyn Bucket, drive: &DriveName, epoch: Epoch) -> Result<(), Failure> {
    if epoch == Epoch(0) {
        return Ok(());
    }
    let key = key(drive, epoch);
    match bucket.get(&key) {
        Ok(Some(bytes)) if KIND.is_whole(&bytes) && !KIND.is_version_of(&bytes) => {
            KIND.opened::<Claim>(&key, &bytes).map(drop)
        }
        Ok(_) | Err(Failure::Corrupt(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Returns the newest epoch that is claimed; 0 in a drive that nobody owned yet.
pub fn newest(bucket: &dyn Bucket, drive: &DriveName) -> Result<Epoch, Failure> {
    let names = bucket.children(&format!("drives/{drive}/epochs/"))?;
    let newest = names.iter().filter_map(|name| parse_number(name)).max();
    Ok(Epoch(newest.unwrap_or(0)))
}

/// Returns the claim of an epoch, if there is one.
pub fn read(bucket: &dyn Bucket, drive: &DriveName, epoch: Epoch) -> Result<Option<Claim>, Failure> {
    let key = key(drive, epoch);
    let Some(bytes) = bucket.get(&key)? else {
        return Ok(None);
    };
    let claim: Claim = KIND.opened(&key, &bytes)?;
    if claim.epoch == epoch && claim.drive == *drive {
        Ok(Some(claim))
    } else {
        Err(Failure::Corrupt(format!(
            "{key}: it is the claim of another epoch or drive"
        )))
    }
}

fn is_claim(bytes: &[u8]) -> bool {
    KIND.is_whole(bytes)
}

/// Returns the key of an epoch's claim.
pub(crate) fn key(drive: &DriveName, epoch: Epoch) -> Key {
    Key::in_drive(drive, &["epochs", &number_text(epoch.0)])
}

/// Takes a drive's name.
pub(crate) fn drive_name(input: &mut Reader<'_>) -> Result<DriveName, Malformed> {
    DriveName::parse(input.text()?).map_err(|_| malformed("drive name"))
}
