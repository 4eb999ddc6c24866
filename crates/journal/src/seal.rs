//! Seals: where an epoch ended. Nothing that its owner wrote behind that counts. Seals are never deleted.

use crate::chain::Position;
use crate::envelope::Kind;
use crate::epoch::drive_name;
use tenure_model::codec::{Codec, Malformed, Reader, put_bytes, put_varint};
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::key::number_text;
use tenure_store::{Bucket, Key};

pub(crate) const KIND: Kind = Kind {
    magic: b"TNSEAL_1",
    version: 1,
    what: "seal",
};

/// What the last component of a seal's key is.
pub(crate) const SEALED: &str = "sealed";

/// Where an epoch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The drive.
    pub drive: DriveName,
    /// The epoch that is over.
    pub epoch: Epoch,
    /// Its last record, or that of the epochs before it.
    pub end: Position,
    /// The epoch that sealed it.
    pub by: Epoch,
}

impl Codec for Seal {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.drive.as_str().as_bytes());
        put_varint(out, self.epoch.0);
        put_varint(out, self.end.seq.0);
        out.extend_from_slice(&self.end.chain.0);
        put_varint(out, self.by.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            drive: drive_name(input)?,
            epoch: Epoch(input.varint()?),
            end: Position {
                seq: Seq(input.varint()?),
                chain: input.digest()?,
            },
            by: Epoch(input.varint()?),
        })
    }
}

/// Returns an epoch's seal, if it has one.
pub fn read(bucket: &dyn Bucket, drive: &DriveName, epoch: Epoch) -> Result<Option<Seal>, Failure> {
    let key = key(drive, epoch);
    let Some(bytes) = bucket.get(&key)? else {
        return Ok(None);
    };
    let seal: Seal = KIND.opened(&key, &bytes)?;
    if seal.epoch == epoch && seal.drive == *drive {
        Ok(Some(seal))
    } else {
        Err(Failure::Corrupt(format!(
            "{key}: it is the seal of another epoch or drive"
        )))
    }
}

/// Returns an epoch's seal if it has a whole one, or why it is damaged or another's. One of a newer version is a failure.
pub(crate) fn look(
    bucket: &dyn Bucket,
    drive: &DriveName,
    epoch: Epoch,
) -> Result<(Option<Seal>, Option<Failure>), Failure> {
    match read(bucket, drive, epoch) {
        Ok(seal) => Ok((seal, None)),
        Err(failure @ Failure::Corrupt(_)) => Ok((None, Some(failure))),
        Err(failure) => Err(failure),
    }
}

/// Seals an epoch. One that is sealed already must have ended in the same place.
pub(crate) fn put(bucket: &dyn Bucket, seal: &Seal) -> Result<(), Failure> {
    let key = key(&seal.drive, seal.epoch);
    let put = bucket.put_if_absent(&key, &KIND.wrapped(seal));
    match (put, read(bucket, &seal.drive, seal.epoch)?) {
        (_, Some(found)) if found.end == seal.end => Ok(()),
        (_, Some(found)) => Err(Failure::Corrupt(format!(
            "{key}: the epoch was sealed behind record {}, and {} is its last one",
            found.end.seq, seal.end.seq
        ))),
        (Err(failure), None) => Err(failure),
        (Ok(_), None) => Err(Failure::Unknown(format!("{key} was put and cannot be found"))),
    }
}

/// Returns the key of an epoch's seal.
pub(crate) fn key(drive: &DriveName, epoch: Epoch) -> Key {
    Key::in_drive(drive, &["journal", &number_text(epoch.0), SEALED])
}
