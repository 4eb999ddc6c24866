//! What is said of a branch besides its name: that it waits for a review, or takes changes only by one.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use crate::id::BranchId;
use crate::time::Timestamp;

/// What is said of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// What it has changed is to be looked at before it becomes part of another.
    Staged {
        /// The branch into which it is accepted.
        into: BranchId,
    },
    /// It changes only by what is accepted into it.
    Protected,
}

/// Something is said of a branch from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Of which.
    pub branch: BranchId,
    /// What; nothing any more where it is none.
    pub mark: Option<Mark>,
    /// Who has said so, in words.
    pub by: String,
    /// When.
    pub time: Timestamp,
}

/// A branch waits for a review from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staging {
    /// The branch into which it is accepted.
    pub into: BranchId,
    /// Who has said so, in words.
    pub by: String,
}

impl Codec for Staging {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.into.0);
        put_bytes(out, self.by.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            into: BranchId(input.varint()?),
            by: input.text()?.to_owned(),
        })
    }
}

impl Codec for Marking {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.branch.0);
        match self.mark {
            None => out.push(0),
            Some(Mark::Staged { into }) => {
                out.push(1);
                put_varint(out, into.0);
            }
            Some(Mark::Protected) => out.push(2),
        }
        put_bytes(out, self.by.as_bytes());
        self.time.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: BranchId(input.varint()?),
            mark: match input.byte()? {
                0 => None,
                1 => Some(Mark::Staged {
                    into: BranchId(input.varint()?),
                }),
                2 => Some(Mark::Protected),
                _ => return Err(malformed("what is said of a branch")),
            },
            by: input.text()?.to_owned(),
            time: Timestamp::read(input)?,
        })
    }
}
