//! Reading a range of a pack's body, verified by the checksums of the blocks that it touches.

use std::fmt::Display;
use std::io::IoSliceMut;
use tenure_model::Failure;

/// Bytes of a pack's body under one checksum: what a read of one byte costs, and 1 in 4,096 for the checksums.
pub(crate) const CHECKED_LEN: usize = 16 << 10;

/// Bytes of a pack that are read at once to verify all of it: it takes a far store about as long to send as to be asked.
pub(super) const SCRUB_LEN: usize = 256 * CHECKED_LEN;

/// Fills parts, one behind the other, from an offset.
pub(super) type ReadParts<'a> = &'a dyn Fn(u64, &mut [IoSliceMut<'_>]) -> Result<(), Failure>;

/// Returns the checksums of all the blocks that begin in `bytes`; the last may be short.
pub(super) fn checksums(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks(CHECKED_LEN).map(crc32c::crc32c)
}

/// Returns the numbers of the blocks that a range touches, which is not empty.
pub(crate) fn touched(offset: u64, len: usize) -> std::ops::Range<usize> {
    let index = |at: u64| usize::try_from(at / CHECKED_LEN as u64).expect("a pack's blocks fit memory");
    index(offset)..index(offset + len as u64 - 1) + 1
}

/// Fills `into` from `offset` of a body of `body_len` bytes. `checksums` are those of the touched blocks.
///
/// Only what the range's first and last block hold besides is read elsewhere: the rest arrives where it is wanted.
pub(super) fn read_verified(
    read: ReadParts<'_>,
    checksums: &[u32],
    body_len: u64,
    offset: u64,
    into: &mut [u8],
    name: &dyn Display,
) -> Result<(), Failure> {
    if into.is_empty() {
        return Ok(());
    }
    let blocks = touched(offset, into.len());
    let start = (blocks.start * CHECKED_LEN) as u64;
    let end = ((blocks.end * CHECKED_LEN) as u64).min(body_len);
    let range_end = offset + into.len() as u64;
    let (mut before, mut behind) = ([0; CHECKED_LEN], [0; CHECKED_LEN]);
    let before = &mut before[..(offset - start) as usize];
    let behind = &mut behind[..(end - range_end) as usize];
    read(
        start,
        &mut [
            IoSliceMut::new(before),
            IoSliceMut::new(into),
            IoSliceMut::new(behind),
        ],
    )?;
    let mut pieces = Pieces([before, into, behind]);
    for (number, checksum) in blocks.zip(checksums) {
        if pieces.checksum(CHECKED_LEN) != *checksum {
            return Err(damaged(name, number));
        }
    }
    Ok(())
}

/// Says that a block of a pack is not what it was.
pub(crate) fn damaged(name: &dyn Display, block: usize) -> Failure {
    let at = block * CHECKED_LEN;
    Failure::Corrupt(format!("{name}: the {CHECKED_LEN} bytes at {at} are damaged"))
}

/// Bytes that lie in three places, one behind the other.
struct Pieces<'a>([&'a [u8]; 3]);

impl Pieces<'_> {
    /// Takes up to `len` bytes and returns their checksum.
    fn checksum(&mut self, len: usize) -> u32 {
        let (mut checksum, mut wanted) = (0, len);
        for piece in &mut self.0 {
            let (front, rest) = piece.split_at(wanted.min(piece.len()));
            checksum = crc32c::crc32c_append(checksum, front);
            wanted -= front.len();
            *piece = rest;
        }
        checksum
    }
}
