//! Steps with a file's bytes.

use crate::check::{Change, Content, Verdict, broken};
use crate::random;
use crate::workload::ContentStep;
use crate::world::World;
use bytes::Bytes;
use tenure_model::{AttrChange, Ino, Refusal};
use tenure_wire::Error;

impl World {
    pub(super) fn change_content(&mut self, ino: Ino, step: &ContentStep) -> Verdict<()> {
        let branch = self.life.branch();
        let size = self.content(ino).size();
        match *step {
            ContentStep::Write { offset, len, seed } => {
                let bytes = random::bytes(seed, len);
                let written = branch.write(ino, offset, Bytes::from(bytes.clone()));
                if self.done(written)?.is_some() {
                    self.history.write(ino, |content| content.write(offset, &bytes));
                    self.touch(ino);
                }
                Ok(())
            }
            ContentStep::Append { len, seed } => self.append(ino, &random::bytes(seed, len)),
            ContentStep::Resize(size) => {
                let wanted = AttrChange {
                    size: Some(size),
                    ..AttrChange::default()
                };
                let resized = branch.set_attr(ino, &wanted).map(drop);
                self.cut(resized, ino, Ok(()), |content| content.resize(size))
            }
            ContentStep::Punch { offset, len } => {
                let punched = branch.punch(ino, offset, len);
                self.cut(punched, ino, Ok(()), |content| content.punch(offset, len))
            }
            ContentStep::Collapse { offset, len } => {
                let collapsed = branch.collapse(ino, offset, len);
                let expected = when(offset + len < size);
                self.cut(collapsed, ino, expected, |content| content.collapse(offset, len))
            }
            ContentStep::Insert { offset, len } => {
                let inserted = branch.insert(ino, offset, len);
                let expected = when(offset < size);
                self.cut(inserted, ino, expected, |content| content.insert(offset, len))
            }
            ContentStep::Copy { offset, to, len } => self.copy((ino, offset), to, len),
            ContentStep::Read { offset, len } => self.read(ino, offset, len),
        }
    }

    fn append(&mut self, ino: Ino, bytes: &[u8]) -> Verdict<()> {
        let appended = self.life.branch().append(ino, Bytes::from(bytes.to_vec()));
        let Some(offset) = self.done(appended)? else {
            return Ok(());
        };
        let size = self.content(ino).size();
        if offset != size {
            return broken(format!("it was appended at {offset} instead of {size}"));
        }
        self.history.write(ino, |content| content.write(offset, bytes));
        self.touch(ino);
        Ok(())
    }

    fn copy(&mut self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Verdict<()> {
        let copied = self.life.branch().copy(from, to, len);
        let bytes = self.content(from.0).read(from.1, len);
        let len = bytes.len() as u64;
        if copied.as_ref().is_ok_and(|copied| *copied != len) {
            return broken(format!("{copied:?} bytes were copied instead of {len}"));
        }
        if len == 0 {
            return self.done(copied).map(|_| ());
        }
        let overlaps = from.0 == to.0 && from.1 < to.1 + len && to.1 < from.1 + len;
        self.cut(copied.map(|_| ()), to.0, when(!overlaps), |content| {
            content.write(to.1, &bytes);
        })
    }

    /// Holds the answer to a change of bytes that has its place in the log against the reference.
    fn cut(
        &mut self,
        outcome: Result<(), Error>,
        ino: Ino,
        expected: Result<(), Refusal>,
        cut: impl FnOnce(&mut Content),
    ) -> Verdict<()> {
        match (outcome, expected) {
            (Ok(()), Ok(())) => match self.history.cut(ino, cut) {
                Ok(()) => {
                    self.touch(ino);
                    Ok(())
                }
                Err(refusal) => broken(format!("it was done, and should be refused: {refusal}")),
            },
            (Ok(()), Err(expected)) => broken(format!("it was done, and should be refused: {expected}")),
            (Err(Error::Refused(refusal)), Err(expected)) if refusal == expected => Ok(()),
            (Err(Error::Refused(refusal)), _) => self.refused(&refusal, &Change::Cut { ino }),
            (Err(error @ Error::Failed(_)), _) => self.failed(&error),
        }
    }

    pub(super) fn content(&self, ino: Ino) -> &Content {
        self.history
            .content(ino)
            .expect("the workload asks only for files")
    }

    pub(super) fn read(&mut self, ino: Ino, offset: u64, len: usize) -> Verdict<()> {
        let mut bytes = Vec::new();
        let read = self.life.branch().read(ino, offset, len, &mut bytes);
        if self.done(read)?.is_some() && bytes != self.content(ino).read(offset, len as u64) {
            return broken(format!(
                "what is read from inode {ino} at {offset} is not what was written"
            ));
        }
        Ok(())
    }
}

fn when(may: bool) -> Result<(), Refusal> {
    if may {
        Ok(())
    } else {
        Err(Refusal::InvalidArgument)
    }
}
