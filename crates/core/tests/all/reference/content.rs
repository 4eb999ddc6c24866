//! Content: every byte of a file in its place, and nothing where there is a hole.

use super::{Byte, CTIME, Done, Inode, MTIME, Reference, bytes_of, refuse_unless};
use tenure_model::{Ino, Piece, Refusal, Timestamp};

impl Reference {
    pub(super) fn write(&mut self, ino: Ino, pieces: &[Piece], size: u64, time: Option<Timestamp>) -> Done {
        let inode = self.file(ino)?;
        let is_rising = pieces.is_sorted_by(|one, next| one.end() <= next.offset);
        refuse_unless(is_rising, Refusal::InvalidArgument)?;
        let end = pieces.iter().map(Piece::end).max().unwrap_or(0).max(size);
        refuse_unless(end <= i64::MAX as u64, Refusal::TooLarge)?;
        for piece in pieces {
            inode.put(piece.offset as usize, &bytes_of(&piece.extent));
        }
        inode.bytes.resize(inode.bytes.len().max(size as usize), None);
        if let Some(time) = time {
            inode.times[MTIME] = time;
            inode.times[CTIME] = inode.times[CTIME].max(time);
        }
        Ok(Some(ino))
    }

    pub(super) fn punch(&mut self, ino: Ino, range: (u64, u64), time: Timestamp) -> Done {
        let inode = self.file(ino)?;
        let end = end_of(range)?;
        inode
            .bytes
            .iter_mut()
            .take(end)
            .skip(range.0 as usize)
            .for_each(|byte| *byte = None);
        self.touch(ino, time);
        Ok(Some(ino))
    }

    pub(super) fn collapse(&mut self, ino: Ino, range: (u64, u64), time: Timestamp) -> Done {
        let inode = self.file(ino)?;
        let end = end_of(range)?;
        refuse_unless(end < inode.bytes.len(), Refusal::InvalidArgument)?;
        inode.bytes.drain(range.0 as usize..end);
        self.touch(ino, time);
        Ok(Some(ino))
    }

    pub(super) fn insert(&mut self, ino: Ino, (offset, len): (u64, u64), time: Timestamp) -> Done {
        let inode = self.file(ino)?;
        end_of((offset, len))?;
        refuse_unless(offset < inode.bytes.len() as u64, Refusal::InvalidArgument)?;
        end_of((inode.bytes.len() as u64, len))?;
        let at = offset as usize;
        inode.bytes.splice(at..at, vec![None; len as usize]);
        self.touch(ino, time);
        Ok(Some(ino))
    }

    pub(super) fn copy(&mut self, from: (Ino, u64), to: (Ino, u64), len: u64, time: Timestamp) -> Done {
        let source = self.file(from.0)?.bytes.clone();
        self.file(to.0)?;
        let (source_end, end) = (end_of((from.1, len))?, end_of((to.1, len))?);
        refuse_unless(source_end <= source.len(), Refusal::InvalidArgument)?;
        let overlaps = from.0 == to.0 && (from.1 as usize) < end && (to.1 as usize) < source_end;
        refuse_unless(!overlaps, Refusal::InvalidArgument)?;
        self.file(to.0)?
            .put(to.1 as usize, &source[from.1 as usize..source_end]);
        self.touch(to.0, time);
        Ok(Some(to.0))
    }
}

impl Inode {
    fn put(&mut self, offset: usize, bytes: &[Byte]) {
        let end = offset + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), None);
        self.bytes[offset..end].copy_from_slice(bytes);
    }
}

fn end_of((offset, len): (u64, u64)) -> Result<usize, Refusal> {
    refuse_unless(len > 0, Refusal::InvalidArgument)?;
    let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    end.map(|end| end as usize).ok_or(Refusal::TooLarge)
}
