//! What is given up of a drive's bucket, as records and rows say it.

use crate::codec::{Codec, Malformed, Reader, put_varint};
use crate::id::PackNumber;
use crate::time::Timestamp;

/// An object of a pack; one of several where a pack has more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackObject {
    /// The pack.
    pub pack: PackNumber,
    /// What its key carries behind the number: the beginning of its index's digest.
    pub tag: [u8; 8],
}

impl Codec for PackObject {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.pack.0);
        out.extend_from_slice(&self.tag);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            pack: PackNumber(input.varint()?),
            tag: input.take(8)?.try_into().expect("8 bytes were taken"),
        })
    }
}

/// How much was given up at once, or since the drive was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Objects.
    pub objects: u64,
    /// Their bytes, less those that were written again.
    pub bytes: u64,
    /// When, or when last.
    pub time: Timestamp,
}

impl Reclaimed {
    /// Returns both together, by the later time.
    pub fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
            time: self.time.max(other.time),
        }
    }
}

impl Codec for Reclaimed {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.objects);
        put_varint(out, self.bytes);
        self.time.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            objects: input.varint()?,
            bytes: input.varint()?,
            time: Timestamp::read(input)?,
        })
    }
}
