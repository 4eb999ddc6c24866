//! What a holder ships: a consistent cut of its log, as one unit. Recovery lands on the end of a batch.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_varint};
use crate::extent::Address;
use crate::id::{BranchId, Digest, Epoch, Ino, SessionId};
use crate::limits::CHUNK_LEN_MAX;

/// The ops of one holder since its last batch, and where the chunks that they name are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Who ships it.
    pub session: SessionId,
    /// The branch that it changes.
    pub branch: BranchId,
    /// The drive's epoch that the holder knows.
    pub epoch: Epoch,
    /// 1 for a grant's first batch, and one more for each that follows.
    pub number: u64,
    /// Digest of the batch before; for the first, what `chain_start` says of the grant.
    pub previous: Digest,
    /// The chunks that this batch is the first to name.
    pub chunks: Vec<ChunkPlace>,
    /// Ops, one behind the other, as `Op` writes them.
    pub ops: Vec<u8>,
}

/// Returns what the first batch under a grant names as the one before it: a digest that no other grant has, because no
/// inode number is lent twice. A late copy of an earlier grant's first batch thereby names another grant.
pub fn chain_start(session: SessionId, branch: BranchId, first_lent: Ino) -> Digest {
    let mut grant = b"grant".to_vec();
    for number in [session.0, branch.0, first_lent.0] {
        put_varint(&mut grant, number);
    }
    Digest::of(&grant)
}

/// Returns what the next batch under a grant names as the one before it, once the branch has become another state under it by
/// a `Turned`: whoever has not heard so cannot go on from what the branch was.
pub fn chain_turned(previous: Digest, root: Digest) -> Digest {
    Digest::of(&[b"turned", &previous.0[..], &root.0[..]].concat())
}

/// Where a chunk lies in its pack, as the pack's index will say once it is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The pack, and the digest of the chunk's bytes.
    pub at: Address,
    /// First byte in the pack.
    pub offset: u64,
    /// Number of bytes; 1 to `CHUNK_LEN_MAX`.
    pub len: u32,
    /// The bytes themselves where the pack did not hold them durably yet when the batch was shipped.
    pub inline: Option<Box<[u8]>>,
}

impl Codec for ChunkPlace {
    fn write(&self, out: &mut Vec<u8>) {
        self.at.write(out);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
        match &self.inline {
            None => out.push(0),
            Some(bytes) => {
                out.push(1);
                out.extend_from_slice(bytes);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (at, offset, len) = (Address::read(input)?, input.varint()?, input.number::<u32>()?);
        let is_chunk = (1..=CHUNK_LEN_MAX).contains(&(len as usize));
        if !is_chunk || offset.checked_add(u64::from(len)).is_none() {
            return Err(malformed("chunk place"));
        }
        let inline = if input.flag()? {
            Some(input.take(len as usize)?.into())
        } else {
            None
        };
        Ok(Self {
            at,
            offset,
            len,
            inline,
        })
    }
}

impl Codec for Batch {
    fn write(&self, out: &mut Vec<u8>) {
        for number in [self.session.0, self.branch.0, self.epoch.0, self.number] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.previous.0);
        put_list(out, &self.chunks);
        put_bytes(out, &self.ops);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: SessionId(input.varint()?),
            branch: BranchId(input.varint()?),
            epoch: Epoch(input.varint()?),
            number: input.varint()?,
            previous: input.digest()?,
            chunks: input.list()?,
            ops: input.bytes()?.to_vec(),
        })
    }
}
