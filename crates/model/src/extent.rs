//! Where bytes are: the address of a chunk or page, and the extents of a file over chunks.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use crate::id::{Digest, PackNumber};
use crate::limits::{CHUNK_LEN_MAX, INLINE_LEN_MAX};

/// Where an immutable chunk or page rests: a pack, and what it is called in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The pack that carries it (or carried it before a compaction: the drive's pack table tells).
    pub pack: PackNumber,
    /// The digest of its bytes.
    pub digest: Digest,
}

impl Codec for Address {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.pack.0);
        out.extend_from_slice(&self.digest.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            pack: PackNumber(input.varint()?),
            digest: input.digest()?,
        })
    }
}

/// A run of a file's bytes. What no extent covers is a hole and reads as zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// `len` bytes of a chunk, from `start` in it.
    Chunk {
        /// The chunk.
        at: Address,
        /// First byte used of the chunk.
        start: u32,
        /// Number of bytes used of it; at least 1, and no chunk is longer than `CHUNK_LEN_MAX`.
        len: u32,
    },
    /// The bytes themselves; 1 to `INLINE_LEN_MAX`.
    Inline(Box<[u8]>),
}

impl Extent {
    /// Returns how many bytes of the file it covers.
    pub fn len(&self) -> u64 {
        match self {
            Extent::Chunk { len, .. } => u64::from(*len),
            Extent::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Tells whether it covers nothing, which no stored extent does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether it is neither empty nor longer than its kind may be.
    fn is_valid(&self) -> bool {
        let (start, max) = match self {
            Extent::Chunk { start, .. } => (u64::from(*start), CHUNK_LEN_MAX),
            Extent::Inline(_) => (0, INLINE_LEN_MAX),
        };
        !self.is_empty() && start + self.len() <= max as u64
    }

    /// Returns the part that begins `from` bytes in and is `len` bytes long; both lie within.
    pub fn part(&self, from: u64, len: u64) -> Self {
        debug_assert!(from + len <= self.len());
        match self {
            Extent::Chunk { at, start, .. } => Extent::Chunk {
                at: *at,
                start: start + u32::try_from(from).expect("an extent is no longer than a chunk"),
                len: u32::try_from(len).expect("an extent is no longer than a chunk"),
            },
            Extent::Inline(bytes) => Extent::Inline(bytes[from as usize..(from + len) as usize].into()),
        }
    }
}

const INLINE: u8 = 0;
const CHUNK: u8 = 1;

impl Codec for Extent {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Extent::Inline(bytes) => {
                out.push(INLINE);
                put_bytes(out, bytes);
            }
            Extent::Chunk { at, start, len } => {
                out.push(CHUNK);
                put_varint(out, u64::from(*len));
                put_varint(out, u64::from(*start));
                at.write(out);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let extent = match input.byte()? {
            INLINE => Extent::Inline(input.bytes()?.into()),
            CHUNK => {
                let (len, start) = (input.number()?, input.number()?);
                Extent::Chunk {
                    at: Address::read(input)?,
                    start,
                    len,
                }
            }
            _ => return Err(malformed("extent")),
        };
        if extent.is_valid() {
            Ok(extent)
        } else {
            Err(malformed("extent"))
        }
    }
}

/// An extent and the place in the file where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte of the file that it covers.
    pub offset: u64,
    /// What is there.
    pub extent: Extent,
}

impl Piece {
    /// Returns the first byte of the file behind it.
    pub fn end(&self) -> u64 {
        self.offset + self.extent.len()
    }
}

impl Codec for Piece {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        self.extent.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let piece = Self {
            offset: input.varint()?,
            extent: Extent::read(input)?,
        };
        piece
            .offset
            .checked_add(piece.extent.len())
            .ok_or(malformed("piece"))?;
        Ok(piece)
    }
}
