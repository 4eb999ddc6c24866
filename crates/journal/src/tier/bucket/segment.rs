//! The bytes of segments, and what else may stand at their names: objects of one shape. `docs/FORMAT.md` has them.
//!
//! Invariant: a segment that was read is whole, and belongs to the name under which it stands.

use crate::chain::Position;
use crate::envelope::Kind;
use crate::epoch::{Claim, drive_name};
use crate::seal::{self, Seal};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::key::number_text;
use tenure_store::{Bucket, Key};

const KIND: Kind = Kind {
    magic: b"TNSEGOBJ",
    version: 1,
    what: "segment",
};

/// Which name of an epoch: they are counted from the opening on.
pub(crate) type Number = u64;

/// The first name of an epoch.
pub(crate) const OPENING: Number = 0;

/// A segment that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    drive: DriveName,
    epoch: Epoch,
    number: Number,
    /// Drawn when it was first sent.
    nonce: [u8; 16],
    /// The place before its first record: on what it stands.
    pub(crate) before: Position,
    pub(crate) records: Vec<Vec<u8>>,
}

/// What stands at a name of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Free,
    Segment(Segment),
    Seal(Seal),
}

impl Codec for Segment {
    fn write(&self, out: &mut Vec<u8>) {
        let records = self.records.iter().map(Vec::as_slice);
        write(
            out,
            (&self.drive, self.epoch, self.number),
            self.nonce,
            self.before,
            records,
        );
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let drive = drive_name(input)?;
        let (epoch, number) = (Epoch(input.varint()?), input.varint()?);
        let nonce = input.take(16)?.try_into().expect("16 bytes were taken");
        let before = Position {
            seq: Seq(input.varint()?),
            chain: input.digest()?,
        };
        let count: usize = input.number()?;
        // Each takes two bytes at least, so a count beyond what is left is a lie.
        if count > input.remaining() / 2 {
            return Err(malformed("segment"));
        }
        let record = |_| match input.bytes()? {
            [] => Err(malformed("record")),
            record => Ok(record.to_vec()),
        };
        Ok(Self {
            drive,
            epoch,
            number,
            nonce,
            before,
            records: (0..count).map(record).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the bytes of the segment of `claim` with that number.
pub(super) fn bytes<'a>(
    claim: &Claim,
    number: Number,
    nonce: [u8; 16],
    before: Position,
    records: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    KIND.wrapped_by(|out| write(out, (&claim.drive, claim.epoch, number), nonce, before, records))
}

fn write<'a>(
    out: &mut Vec<u8>,
    (drive, epoch, number): (&DriveName, Epoch, Number),
    nonce: [u8; 16],
    before: Position,
    records: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    put_bytes(out, drive.as_str().as_bytes());
    put_varint(out, epoch.0);
    put_varint(out, number);
    out.extend_from_slice(&nonce);
    put_varint(out, before.seq.0);
    out.extend_from_slice(&before.chain.0);
    put_varint(out, records.len() as u64);
    records.for_each(|record| put_bytes(out, record));
}

/// Returns the name of an epoch's segment.
pub(crate) fn key(drive: &DriveName, epoch: Epoch, number: Number) -> Key {
    Key::in_drive(drive, &["journal", &number_text(epoch.0), &number_text(number)])
}

/// Tells whether an object begins as segments and seals do.
pub(crate) fn is_object(bucket: &dyn Bucket, key: &Key) -> Result<bool, Failure> {
    let magics = [KIND.magic, seal::KIND.magic];
    let mut magic = [0; 8];
    let is_long = bucket.size(key)?.is_some_and(|size| size >= magic.len() as u64);
    if is_long {
        bucket.get_range(key, 0, &mut magic)?;
    }
    Ok(magics.contains(&&magic))
}

/// Returns what the bytes at a name are: a segment of that name, or a seal of its epoch.
pub(super) fn parsed(
    (drive, epoch, number): (&DriveName, Epoch, Number),
    bytes: &[u8],
) -> Result<Standing, Failure> {
    let key = key(drive, epoch, number);
    let strange = || Failure::Corrupt(format!("{key}: it belongs to another name"));
    if seal::KIND.is_whole(bytes) {
        let seal: Seal = seal::KIND.opened(&key, bytes)?;
        let is_here = seal.epoch == epoch && seal.drive == *drive;
        return if is_here {
            Ok(Standing::Seal(seal))
        } else {
            Err(strange())
        };
    }
    let segment: Segment = KIND.opened(&key, bytes)?;
    let is_here = (&segment.drive, segment.epoch, segment.number) == (drive, epoch, number);
    if is_here {
        Ok(Standing::Segment(segment))
    } else {
        Err(strange())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tenure_model::Digest;

    fn claim(epoch: u64) -> Claim {
        Claim {
            drive: DriveName::parse("work").expect("a literal name"),
            epoch: Epoch(epoch),
            previous: Epoch(epoch.wrapping_sub(1)),
            nonce: [0; 16],
            who: String::new(),
        }
    }

    proptest! {
        #[test]
        fn a_segment_is_read_as_it_was_written_only_whole_and_only_at_its_name(
            numbers: (u64, u64),
            nonce: [u8; 16],
            before: (u64, [u8; 32]),
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5),
            change: (prop::sample::Index, u8),
        ) {
            let (claim, number) = (claim(numbers.0), numbers.1);
            let before = Position { seq: Seq(before.0), chain: Digest(before.1) };
            let mut bytes = bytes(&claim, number, nonce, before, records.iter().map(Vec::as_slice));
            let name = (&claim.drive, claim.epoch, number);
            let read = parsed(name, &bytes);
            let is_right = matches!(&read, Ok(Standing::Segment(read))
                if read.before == before && read.records == records && read.nonce == nonce);
            prop_assert!(is_right, "{:?}", read);
            prop_assert!(parsed((&claim.drive, claim.epoch, number ^ 1), &bytes).is_err());
            prop_assert!(parsed((&claim.drive, Epoch(claim.epoch.0 ^ 1), number), &bytes).is_err());
            let at = change.0.index(bytes.len());
            prop_assert!(parsed(name, &bytes[..at]).is_err());
            if bytes[at] != change.1 {
                bytes[at] = change.1;
                prop_assert!(parsed(name, &bytes).is_err());
            }
        }

        #[test]
        fn no_body_makes_the_reader_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = KIND.wrapped_by(|out| out.extend_from_slice(&body));
            let _ = parsed((&claim(1).drive, Epoch(1), 0), &bytes);
        }
    }
}
