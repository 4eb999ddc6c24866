//! What sessions that share a branch do to it: each op has its own place in the order of the branch.

use crate::batch::ChunkPlace;
use crate::codec::{Codec, Malformed, Reader, put_list, put_varint};
use crate::id::{BranchId, Digest, SessionId};
use crate::op::Op;

/// Which act it is: no session gives two acts one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActId {
    /// Whose.
    pub session: SessionId,
    /// Which of its acts.
    pub number: u64,
}

impl Codec for ActId {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.session.0);
        put_varint(out, self.number);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: SessionId(input.varint()?),
            number: input.varint()?,
        })
    }
}

/// An op of a session that shares a branch, as its owner has put it in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Which it is.
    pub id: ActId,
    /// The branch that it changes.
    pub branch: BranchId,
    /// The digest of what was asked, by which it is known when it is asked again.
    pub mark: Digest,
    /// The chunks that it is the first to name.
    pub chunks: Vec<ChunkPlace>,
    /// What it does.
    pub op: Op,
}

impl Codec for Act {
    fn write(&self, out: &mut Vec<u8>) {
        self.id.write(out);
        put_varint(out, self.branch.0);
        out.extend_from_slice(&self.mark.0);
        put_list(out, &self.chunks);
        self.op.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: ActId::read(input)?,
            branch: BranchId(input.varint()?),
            mark: input.digest()?,
            chunks: input.list()?,
            op: Op::read(input)?,
        })
    }
}
