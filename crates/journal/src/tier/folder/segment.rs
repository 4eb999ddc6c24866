//! The bytes of segments: a header block, then groups of frames. `docs/FORMAT.md` has them.
//!
//! Nothing here touches a disk. Invariant: a frame that was parsed is whole, and of the segment it was read from.

use crate::chain::Position;
use tenure_model::{Digest, Epoch, Seq};
use tenure_store::disk::BLOCK_LEN;

/// Bytes before a record in its frame.
pub(crate) const FRAME_HEAD_LEN: usize = crate::tier::FRAME_LEN;
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"TNSEGM_1";
const HEADER_LEN: usize = 76;

/// What a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) salt: u32,
    pub(crate) epoch: Epoch,
    /// The place before its first record.
    pub(crate) before: Position,
    /// How many bytes the segment has: a copy that was cut off is not taken for a shorter journal.
    pub(crate) len: u64,
}

/// Why a header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Malformed,
    /// The segment was written by a later program.
    Newer(u32),
}

impl Header {
    /// Returns a header whose salt follows from the claim's nonce and the place: no other segment has it.
    pub(crate) fn new(nonce: [u8; 16], epoch: Epoch, before: Position, len: u64) -> Self {
        let salt = Digest::of(&[&nonce[..], &before.chain.0[..]].concat());
        Self {
            salt: number32(&salt.0),
            epoch,
            before,
            len,
        }
    }

    /// Writes the header at the front of a zeroed block.
    pub(crate) fn write(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&self.salt.to_le_bytes());
        block[16..24].copy_from_slice(&self.epoch.0.to_le_bytes());
        block[24..32].copy_from_slice(&self.before.seq.next().0.to_le_bytes());
        block[32..64].copy_from_slice(&self.before.chain.0);
        block[64..72].copy_from_slice(&self.len.to_le_bytes());
        let checksum = crc32c::crc32c(&block[..72]);
        block[72..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    }

    pub(crate) fn parsed(bytes: &[u8]) -> Result<Self, BadHeader> {
        let head = bytes.get(..HEADER_LEN).ok_or(BadHeader::Malformed)?;
        let first = number64(&head[24..]);
        if head[..8] != *MAGIC || number32(&head[72..]) != crc32c::crc32c(&head[..72]) || first == 0 {
            return Err(BadHeader::Malformed);
        }
        match number32(&head[8..]) {
            VERSION => Ok(Self {
                salt: number32(&head[12..]),
                epoch: Epoch(number64(&head[16..])),
                before: Position {
                    seq: Seq(first - 1),
                    chain: digest(&head[32..]),
                },
                len: number64(&head[64..]),
            }),
            newer => Err(BadHeader::Newer(newer)),
        }
    }
}

/// One record as it stands in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its place in its group, from 0.
    pub(crate) place: u32,
    /// How many frames of its group follow.
    pub(crate) left: u32,
    pub(crate) epoch: Epoch,
    /// The place behind it.
    pub(crate) at: Position,
    pub(crate) record: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns how many bytes a record takes in a group.
    pub(crate) fn len_of(record: &[u8]) -> usize {
        FRAME_HEAD_LEN + record.len()
    }

    /// Writes the frame at the front of `out` and returns what is behind it.
    pub(crate) fn write<'o>(&self, salt: u32, out: &'o mut [u8]) -> &'o mut [u8] {
        let (frame, rest) = out.split_at_mut(Self::len_of(self.record));
        let len = u32::try_from(self.record.len()).expect("a record's length is bounded");
        frame[..4].copy_from_slice(&len.to_le_bytes());
        frame[8..12].copy_from_slice(&self.place.to_le_bytes());
        frame[12..16].copy_from_slice(&self.left.to_le_bytes());
        frame[16..24].copy_from_slice(&self.epoch.0.to_le_bytes());
        frame[24..32].copy_from_slice(&self.at.seq.0.to_le_bytes());
        frame[32..64].copy_from_slice(&self.at.chain.0);
        frame[64..].copy_from_slice(self.record);
        let checksum = checksum(salt, frame);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
        rest
    }

    /// Returns the frame at the front of `bytes`, if there is a whole one.
    pub(crate) fn parsed(salt: u32, bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.get(..FRAME_HEAD_LEN)?;
        let len = number32(head) as usize;
        let frame = bytes.get(..FRAME_HEAD_LEN.checked_add(len)?)?;
        if len == 0 || number32(&head[4..]) != checksum(salt, frame) {
            return None;
        }
        Some(Self {
            place: number32(&head[8..]),
            left: number32(&head[12..]),
            epoch: Epoch(number64(&head[16..])),
            at: Position {
                seq: Seq(number64(&head[24..])),
                chain: digest(&head[32..]),
            },
            record: &frame[FRAME_HEAD_LEN..],
        })
    }
}

/// Returns how many bytes a group takes on disk, whose frames take `len`.
pub(crate) fn group_len(len: usize) -> usize {
    len.next_multiple_of(BLOCK_LEN)
}

fn checksum(salt: u32, frame: &[u8]) -> u32 {
    let salted = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &frame[..4]);
    crc32c::crc32c_append(salted, &frame[8..])
}

fn number64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes were taken"))
}

fn number32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes were taken"))
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(bytes[..32].try_into().expect("32 bytes were taken"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position() -> impl Strategy<Value = Position> {
        (any::<[u8; 32]>(), 0..u64::MAX).prop_map(|(chain, seq)| Position {
            seq: Seq(seq),
            chain: Digest(chain),
        })
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(nonce: [u8; 16], epoch: u64, before in position(), len: u64) {
            let header = Header::new(nonce, Epoch(epoch), before, len);
            let mut block = vec![0; BLOCK_LEN];
            header.write(&mut block);
            prop_assert_eq!(Header::parsed(&block), Ok(header));
        }

        #[test]
        fn a_frame_is_read_as_it_was_written_and_only_whole(
            salt: u32,
            numbers: (u32, u32, u64),
            at in position(),
            record in prop::collection::vec(any::<u8>(), 1..300),
            change: (prop::sample::Index, u8),
        ) {
            let (place, left, epoch) = numbers;
            let frame = Frame { place, left, epoch: Epoch(epoch), at, record: &record };
            let mut bytes = vec![0; Frame::len_of(&record) + 7];
            prop_assert_eq!(frame.write(salt, &mut bytes).len(), 7);
            prop_assert_eq!(Frame::parsed(salt, &bytes), Some(frame));
            prop_assert_eq!(Frame::parsed(salt ^ 1, &bytes), None);
            let whole = bytes.len() - 7;
            prop_assert_eq!(Frame::parsed(salt, &bytes[..whole - 1]), None);
            let at = change.0.index(whole);
            if bytes[at] != change.1 {
                bytes[at] = change.1;
                prop_assert_eq!(Frame::parsed(salt, &bytes), None);
            }
        }

        #[test]
        fn no_bytes_make_the_readers_panic(salt: u32, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Frame::parsed(salt, &bytes), None);
            let _ = Header::parsed(&bytes);
        }
    }
}
