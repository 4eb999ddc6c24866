//! `.tenure/checkpoints` in a mount: each checkpoint of the branch is a directory there, to be read.
//!
//! Invariant: what is in a checkpoint never changes, so the kernel may remember it for ever, and its inode numbers are no number of the
//! branch or of another checkpoint: a number says which checkpoint it is of. A checkpoint that is gone is ESTALE from then on, also
//! where another has its name.

use super::attribute::stat;
use super::content::{SEEK_DATA, SEEK_HOLE};
use super::hidden::{DIRECTORY, directory_attr, statx};
use super::pending::Pending;
use super::xattr::answer_sized;
use super::{answer, name};
use crate::kernel::{Attr, DirectoryBuffer, Entry, Errno, FOREVER, Operation, Request, Statx, Time};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tenure_client::{DirEntry, Error, Files, Listing, ListingRoom, Seek, wait};
use tenure_model::{Clock, Ino, Kind, Refusal};

/// The name in `.tenure`.
pub(super) const NAME: &[u8] = b"checkpoints";
/// The number of the directory of all checkpoints, and the first of those in them: above those of the other hidden things.
pub(super) const FIRST: u64 = DIRECTORY | 1 << 61;
/// Bits of a number that are the inode's own; those above say which checkpoint it is in.
const INO_BITS: u32 = 48;
/// Checkpoints that can be looked into while a mount is there.
const SHELVES_MAX: usize = 1 << 13;
/// Checkpoints that are open at a time: each has pages in memory.
const OPEN_MAX: usize = 8;

const WRITE: u32 = 2;

/// The checkpoints of the branch that is mounted, as its owner has them now. Each call may ask the owner.
pub trait Checkpoints: Send + Sync {
    /// Returns the names that a listing shows.
    fn names(&self) -> Result<Vec<String>, Error>;

    /// Returns the number of the checkpoint of a name, if there is one; no other ever has that.
    fn find(&self, name: &str) -> Result<Option<u64>, Error>;

    /// Returns what is in the checkpoint of a number, if it is still there.
    fn open(&self, number: u64) -> Result<Option<Arc<dyn Files>>, Error>;
}

/// Those that were looked into.
pub(super) struct Shelves {
    all: Box<dyn Checkpoints>,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The number of the checkpoint on each shelf.
    numbers: Vec<u64>,
    /// The shelves that are open, the one used last at the end.
    open: Vec<(usize, Arc<dyn Files>)>,
}

/// Something in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    shelf: usize,
    ino: Ino,
}

impl At {
    /// Returns what a number of the kernel's stands for; none for the directory of all.
    fn of(nodeid: u64) -> Option<At> {
        let rest = nodeid - FIRST;
        let shelf = usize::try_from(rest >> INO_BITS).expect("the shelves have few bits");
        (rest != 0).then_some(At {
            shelf,
            ino: Ino(rest & ((1 << INO_BITS) - 1)),
        })
    }

    /// Returns the number by which the kernel knows another inode of the same checkpoint.
    fn nodeid(self, ino: Ino) -> Result<u64, Error> {
        if ino.0 >> INO_BITS != 0 {
            return Err(Refusal::TooLarge.into());
        }
        Ok(FIRST + ((self.shelf as u64) << INO_BITS | ino.0))
    }
}

/// Tells whether a number is of what stands here.
pub(super) fn is_one(nodeid: u64) -> bool {
    nodeid >= FIRST
}

/// Tells whether a number is of something in a checkpoint.
pub(super) fn is_inside(nodeid: u64) -> bool {
    nodeid > FIRST
}

impl Shelves {
    pub(super) fn new(all: Box<dyn Checkpoints>, clock: Arc<dyn Clock>) -> Self {
        Self {
            all,
            clock,
            known: Mutex::default(),
        }
    }

    /// Returns the entry of the directory of all checkpoints.
    pub(super) fn entry(&self) -> Entry {
        Entry {
            nodeid: FIRST,
            attr: self.attr_of_all(),
            ..Entry::default()
        }
    }

    /// Returns the attributes of the directory of all checkpoints. It was changed just now: else the kernel would list it as it was.
    fn attr_of_all(&self) -> Attr {
        Attr {
            ino: FIRST,
            mtime: super::attribute::time(self.clock.now()),
            ..directory_attr()
        }
    }

    /// Answers a request about one of these numbers.
    pub(super) fn answer(&self, request: &Request<'_>, pending: &mut Pending) {
        match At::of(request.nodeid) {
            None => self.answer_all(request, pending),
            Some(at) => match self.files(at.shelf) {
                Ok(files) => at.answer(&*files, request, pending),
                Err(error) => answer(pending, Err::<(), _>(error), |_, ()| {}),
            },
        }
    }

    /// Answers a request about the directory of all checkpoints.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else is asked would change something"
    )]
    fn answer_all(&self, request: &Request<'_>, pending: &mut Pending) {
        match &request.operation {
            Operation::Lookup { name } => {
                let found = self.look_up(name);
                answer(pending, found, |reply, found| match found {
                    // Another may have the name soon.
                    Some(entry) => reply.entry(&entry),
                    None => reply.entry(&Entry::negative(Duration::ZERO)),
                });
            }
            Operation::Readdir { offset, size, .. } => self.list(*offset, *size, false, pending),
            Operation::Readdirplus { offset, size, .. } => self.list(*offset, *size, true, pending),
            Operation::Getattr { .. } => answer(pending, Ok(()), |reply, ()| {
                reply.attr(&self.attr_of_all(), Duration::ZERO)
            }),
            Operation::Statx { .. } => answer(pending, Ok(()), |reply, ()| {
                reply.statx(&statx(self.attr_of_all()), Duration::ZERO)
            }),
            Operation::Getxattr { .. } | Operation::Listxattr { .. } => pending.error(Errno::NODATA),
            _ => answer_opening(request, pending),
        }
    }

    fn look_up(&self, bytes: &[u8]) -> Result<Option<Entry>, Error> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Ok(None);
        };
        wait::before_waiting()?;
        let Some(number) = self.all.find(text)? else {
            return Ok(None);
        };
        let shelf = self.shelf(number)?;
        let files = self.files(shelf)?;
        let at = At {
            shelf,
            ino: Ino::ROOT,
        };
        Ok(Some(Entry {
            entry_ttl: Duration::ZERO,
            ..at.entry(&*files, Ino::ROOT)?
        }))
    }

    /// Returns the shelf of a checkpoint, a new one the first time.
    fn shelf(&self, number: u64) -> Result<usize, Error> {
        let mut known = self.known.lock();
        if let Some(shelf) = known.numbers.iter().position(|known| *known == number) {
            return Ok(shelf);
        }
        if known.numbers.len() == SHELVES_MAX {
            let full =
                "so many checkpoints were looked into that this mount can look into no other: mount it again";
            return Err(Refusal::Because(full.to_owned()).into());
        }
        known.numbers.push(number);
        Ok(known.numbers.len() - 1)
    }

    /// Returns what is in the checkpoint on a shelf.
    fn files(&self, shelf: usize) -> Result<Arc<dyn Files>, Error> {
        let number = {
            let mut known = self.known.lock();
            if let Some(at) = known.open.iter().position(|(open, _)| *open == shelf) {
                let used = known.open.remove(at);
                let files = Arc::clone(&used.1);
                known.open.push(used);
                return Ok(files);
            }
            *known.numbers.get(shelf).ok_or(Refusal::Stale)?
        };
        wait::before_waiting()?;
        let files = self.all.open(number)?.ok_or(Refusal::Stale)?;
        let mut known = self.known.lock();
        known.open.retain(|(open, _)| *open != shelf);
        known.open.push((shelf, Arc::clone(&files)));
        if known.open.len() > OPEN_MAX {
            known.open.remove(0);
        }
        Ok(files)
    }

    fn list(&self, offset: u64, size: u32, plus: bool, pending: &mut Pending) {
        let listed = wait::before_waiting().and_then(|()| self.all.names());
        answer(pending, listed, |reply, names| {
            let mut listing = Listed::new(size, plus);
            let dots = [(&b"."[..], FIRST), (b"..", DIRECTORY)];
            let names = names.iter().map(|name| (name.as_bytes(), FIRST));
            for (behind, (name, ino)) in (1..).zip(dots.into_iter().chain(names)).skip(offset as usize) {
                if listing.add(ino, behind, Kind::Directory, name).is_break() {
                    break;
                }
            }
            reply.directory(&listing.buffer);
        });
    }
}

impl At {
    /// Answers a request about something in a checkpoint.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else is asked would change something"
    )]
    fn answer(self, files: &dyn Files, request: &Request<'_>, pending: &mut Pending) {
        let ino = self.ino;
        match &request.operation {
            Operation::Lookup { name: bytes } => {
                let found = name(bytes).and_then(|name| files.lookup(ino, &name));
                let found = match found.and_then(|(ino, _)| self.entry(files, ino)) {
                    Err(Error::Refused(Refusal::NotFound)) => Ok(Entry::negative(FOREVER)),
                    found => found,
                };
                answer(pending, found, |reply, entry| reply.entry(&entry));
            }
            Operation::Getattr { .. } => answer(pending, self.stat(files), |reply, (attr, _)| {
                reply.attr(&attr, FOREVER)
            }),
            Operation::Statx { .. } => answer(pending, self.stat(files), |reply, (attr, born)| {
                let statx = Statx {
                    attr,
                    btime: Some(born),
                    ..Statx::default()
                };
                reply.statx(&statx, FOREVER);
            }),
            Operation::Readlink => answer(pending, files.target(ino), |reply, target| reply.data(&target)),
            Operation::Read { offset, size, .. } => {
                let mut bytes = vec![0; *size as usize];
                let read = files.read_into(ino, *offset, &mut bytes);
                answer(pending, read, |reply, len| reply.data(&bytes[..len]));
            }
            Operation::Lseek { offset, whence, .. } => {
                let to = match *whence {
                    SEEK_DATA => Ok(Seek::Data),
                    SEEK_HOLE => Ok(Seek::Hole),
                    _ => Err(super::invalid()),
                };
                let found = to.and_then(|to| files.seek(ino, *offset, to));
                answer(pending, found, |reply, offset| reply.lseek(offset));
            }
            // Who copies reads it then.
            Operation::CopyFileRange { .. } => pending.error(Errno::OPNOTSUPP),
            Operation::Readdir { offset, size, .. } => self.list(files, (*offset, *size), false, pending),
            Operation::Readdirplus { offset, size, .. } => {
                self.list(files, (*offset, *size), true, pending);
            }
            Operation::Getxattr { name, size } => answer(pending, files.xattr(ino, name), |reply, value| {
                answer_sized(reply, &value, *size)
            }),
            Operation::Listxattr { size } => answer(pending, files.xattrs(ino), |reply, names| {
                answer_sized(reply, &names, *size)
            }),
            Operation::Access { mask } if mask & WRITE != 0 => pending.error(Errno::ROFS),
            _ => answer_opening(request, pending),
        }
    }

    fn stat(self, files: &dyn Files) -> Result<(Attr, Time), Error> {
        let attr = files.attr(self.ino)?;
        let born = super::attribute::time(attr.btime);
        Ok((stat(Ino(self.nodeid(self.ino)?), &attr), born))
    }

    /// Returns the entry that tells the kernel of an inode.
    fn entry(self, files: &dyn Files, ino: Ino) -> Result<Entry, Error> {
        let nodeid = self.nodeid(ino)?;
        Ok(Entry {
            nodeid,
            generation: 0,
            entry_ttl: FOREVER,
            attr_ttl: FOREVER,
            attr: stat(Ino(nodeid), &files.attr(ino)?),
        })
    }

    fn list(self, files: &dyn Files, (offset, size): (u64, u32), plus: bool, pending: &mut Pending) {
        let listed = self.listed(files, (offset, size), plus);
        answer(pending, listed, |reply, listed| reply.directory(&listed.buffer));
    }

    fn listed(self, files: &dyn Files, (offset, size): (u64, u32), plus: bool) -> Result<Listed, Error> {
        let parent = match self.ino {
            Ino::ROOT => FIRST,
            ino if offset < BEHIND_DOTS => self.nodeid(files.attr(ino)?.parent)?,
            // Nobody is told of it.
            _ => FIRST,
        };
        let mut inside = Inside {
            at: self,
            dots: [(1, b".", self.nodeid(self.ino)?), (BEHIND_DOTS, b"..", parent)],
            offset,
            listed: Listed::new(size, plus),
            size,
        };
        let room = ListingRoom {
            with_attrs: false,
            len: size,
        };
        files.list(self.ino, offset.max(BEHIND_DOTS), room, &mut inside)?;
        Ok(inside.listed)
    }
}

/// Offset behind `..`; entries' cookies are larger.
const BEHIND_DOTS: u64 = 2;

/// Answers what is asked of whatever is opened and closed, or that it cannot be changed.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else is asked would change something"
)]
fn answer_opening(request: &Request<'_>, pending: &mut Pending) {
    match &request.operation {
        Operation::Access { .. } | Operation::Release { .. } | Operation::Releasedir { .. } => pending.ok(),
        Operation::Open { .. } | Operation::Opendir { .. } | Operation::Flush { .. } => {
            pending.error(Errno::NOSYS);
        }
        Operation::Getlk { .. } | Operation::Setlk { .. } => pending.error(Errno::NOLCK),
        Operation::Ioctl { .. } => pending.error(Errno::NOTTY),
        _ => pending.error(Errno::ROFS),
    }
}

/// A listing that is being made; it tells no more than names, so the kernel looks up what is used.
struct Listed {
    buffer: DirectoryBuffer,
    plus: bool,
}

impl Listed {
    fn new(size: u32, plus: bool) -> Self {
        Self {
            buffer: DirectoryBuffer::new(size),
            plus,
        }
    }

    fn add(&mut self, ino: u64, behind: u64, kind: Kind, name: &[u8]) -> ControlFlow<()> {
        let attr = Attr {
            ino,
            mode: kind as u32,
            ..Attr::default()
        };
        let added = match self.plus {
            true => self.buffer.add_plus(
                &Entry {
                    attr,
                    ..Entry::default()
                },
                behind,
                name,
            ),
            false => self.buffer.add(ino, behind, kind as u32, name),
        };
        match added {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// A listing of a directory in a checkpoint.
struct Inside {
    at: At,
    dots: [(u64, &'static [u8], u64); 2],
    offset: u64,
    size: u32,
    listed: Listed,
}

impl Listing for Inside {
    fn begin(&mut self) {
        self.listed = Listed::new(self.size, self.listed.plus);
        for (behind, name, ino) in self.dots {
            if behind > self.offset {
                // Both fit: the kernel never asks for less than a page.
                let _ = self.listed.add(ino, behind, Kind::Directory, name);
            }
        }
    }

    fn add(&mut self, entry: DirEntry<'_>, _: Option<&tenure_model::Attr>) -> ControlFlow<()> {
        // One that has no number here is looked up, and refused, by who uses it.
        let ino = self.at.nodeid(entry.ino).unwrap_or(FIRST);
        self.listed.add(ino, entry.cookie, entry.kind, entry.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::Timestamp;

    #[test]
    fn a_number_says_in_which_checkpoint_what_is() {
        let at = |shelf, ino| At { shelf, ino: Ino(ino) };
        for there in [
            at(0, 1),
            at(1, 1),
            at(7, 1 << 20),
            at(SHELVES_MAX - 1, (1 << INO_BITS) - 1),
        ] {
            let nodeid = there.nodeid(there.ino).expect("it fits");
            assert_eq!(At::of(nodeid), Some(there));
            assert!(is_inside(nodeid) && nodeid < 1 << 63, "{nodeid:x}");
        }
        assert_eq!(At::of(FIRST), None);
        assert!(at(0, 0).nodeid(Ino(1 << INO_BITS)).is_err());
    }

    struct Named(u64);

    impl Checkpoints for Named {
        fn names(&self) -> Result<Vec<String>, Error> {
            Ok(Vec::new())
        }

        fn find(&self, _: &str) -> Result<Option<u64>, Error> {
            Ok(Some(self.0))
        }

        fn open(&self, _: u64) -> Result<Option<Arc<dyn Files>>, Error> {
            Ok(None)
        }
    }

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::default()
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn a_checkpoint_has_one_shelf_and_what_is_gone_is_stale() {
        let shelves = Shelves::new(Box::new(Named(300)), Arc::new(Still));
        assert_eq!(
            [300, 301, 300].map(|number| shelves.shelf(number).expect("there is room")),
            [0, 1, 0]
        );
        let stale = shelves.files(0).map(drop).expect_err("it is gone");
        assert_eq!(stale, Refusal::Stale.into());
        for number in 302..300 + SHELVES_MAX as u64 {
            shelves.shelf(number).expect("there is room");
        }
        assert!(shelves.shelf(1).is_err() && shelves.shelf(301).is_ok());
    }
}
