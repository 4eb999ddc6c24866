//! Content: write, punch, collapse, insert and copy.

use super::Decided;
use crate::branch::Undecided;
use crate::change::Change;
use crate::content;
use tenure_model::{Attr, Ino, Kind, Piece, Refusal, Timestamp, limits};

impl Change<'_> {
    fn file(&self, ino: Ino) -> Result<Attr, Undecided> {
        let attr = self.attr(ino)?;
        match attr.kind {
            Kind::File => Ok(attr),
            Kind::Directory => Err(Refusal::IsDirectory.into()),
            Kind::Fifo | Kind::CharDevice | Kind::BlockDevice | Kind::Symlink | Kind::Socket => {
                Err(Refusal::InvalidArgument.into())
            }
        }
    }

    pub(super) fn write(
        &mut self,
        ino: Ino,
        pieces: &[Piece],
        size: u64,
        time: Option<Timestamp>,
    ) -> Decided {
        let mut attr = self.file(ino)?;
        let rising = pieces.windows(2).all(|pair| pair[0].end() <= pair[1].offset);
        if !rising {
            return Err(Refusal::InvalidArgument.into());
        }
        let end = pieces.last().map_or(0, Piece::end).max(size);
        if end > limits::FILE_LEN_MAX {
            return Err(Refusal::TooLarge.into());
        }
        self.put_pieces(ino, &mut attr, pieces)?;
        attr.size = attr.size.max(end);
        if let Some(time) = time {
            // A write is logged when its bytes are settled; a change of the inode may have come in between.
            attr.mtime = time;
            attr.ctime = attr.ctime.max(time);
        }
        self.answer(ino, attr);
        Ok(())
    }

    pub(super) fn punch(&mut self, ino: Ino, offset: u64, len: u64, time: Timestamp) -> Decided {
        let mut attr = self.file(ino)?;
        let end = end_of(offset, len)?;
        self.clear(ino, &mut attr, offset, end)?;
        touch(&mut attr, time);
        self.answer(ino, attr);
        Ok(())
    }

    pub(super) fn collapse(&mut self, ino: Ino, offset: u64, len: u64, time: Timestamp) -> Decided {
        let mut attr = self.file(ino)?;
        let end = end_of(offset, len)?;
        // fallocate(2): a range that reaches the end is a truncation and is refused.
        if end >= attr.size {
            return Err(Refusal::InvalidArgument.into());
        }
        self.shift(ino, &mut attr, (offset, end), -signed(len)?)?;
        attr.size -= len;
        touch(&mut attr, time);
        self.answer(ino, attr);
        Ok(())
    }

    pub(super) fn insert(&mut self, ino: Ino, offset: u64, len: u64, time: Timestamp) -> Decided {
        let mut attr = self.file(ino)?;
        end_of(offset, len)?;
        if offset >= attr.size {
            return Err(Refusal::InvalidArgument.into());
        }
        let size = end_of(attr.size, len)?;
        self.shift(ino, &mut attr, (offset, offset), signed(len)?)?;
        attr.size = size;
        touch(&mut attr, time);
        self.answer(ino, attr);
        Ok(())
    }

    pub(super) fn copy(&mut self, from: (Ino, u64), to: (Ino, u64), len: u64, time: Timestamp) -> Decided {
        let source = self.file(from.0)?;
        let mut attr = self.file(to.0)?;
        let (source_end, end) = (end_of(from.1, len)?, end_of(to.1, len)?);
        if source_end > source.size {
            return Err(Refusal::InvalidArgument.into());
        }
        if from.0 == to.0 && from.1 < end && to.1 < source_end {
            return Err(Refusal::InvalidArgument.into());
        }
        let mut pieces = content::pieces(&self.branch.tree, from.0, from.1, source_end)?;
        for piece in &mut pieces {
            piece.offset = piece.offset - from.1 + to.1;
        }
        self.put_over(to.0, &mut attr, &[(to.1, end)], &pieces)?;
        attr.size = attr.size.max(end);
        touch(&mut attr, time);
        self.answer(to.0, attr);
        Ok(())
    }
}

fn touch(attr: &mut Attr, time: Timestamp) {
    attr.mtime = time;
    attr.ctime = time;
}

/// Returns the end of a range that is not empty and that a file can have.
fn end_of(offset: u64, len: u64) -> Result<u64, Refusal> {
    if len == 0 {
        return Err(Refusal::InvalidArgument);
    }
    offset
        .checked_add(len)
        .filter(|end| *end <= limits::FILE_LEN_MAX)
        .ok_or(Refusal::TooLarge)
}

fn signed(len: u64) -> Result<i64, Refusal> {
    i64::try_from(len).map_err(|_| Refusal::TooLarge)
}
