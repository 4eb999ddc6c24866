//! Listings. A cookie names an entry for ever, so a listing goes on where it was whatever changes meanwhile.

use super::pending::Pending;
use super::{Served, answer};
use crate::kernel::{DirectoryBuffer, Entry, Full};
use std::ops::ControlFlow;
use tenure_client::{DirEntry, Error, Listing, ListingRoom};
use tenure_model::{Attr, Ino, Kind};

/// Offset behind `.`; entries' cookies are larger than both.
const BEHIND_SELF: u64 = 1;
/// Offset behind `..`.
const BEHIND_PARENT: u64 = 2;

/// A listing that is being made.
struct Names {
    at: Start,
    buffer: DirectoryBuffer,
}

/// As `Names`, with attributes; lookups have to be counted before the kernel hears of them.
struct Entries<'a> {
    served: &'a Served,
    at: Start,
    buffer: DirectoryBuffer,
    told: Vec<Ino>,
}

/// Where a listing begins, and how long it may be.
#[derive(Clone, Copy)]
struct Start {
    ino: Ino,
    parent: Ino,
    offset: u64,
    size: u32,
}

impl Listing for Names {
    fn begin(&mut self) {
        self.buffer = DirectoryBuffer::new(self.at.size);
        for (behind, name, ino) in dots(self.at) {
            // Both fit: the kernel never asks for less than a page.
            let _ = self.buffer.add(ino.0, behind, Kind::Directory as u32, name);
        }
    }

    fn add(&mut self, entry: DirEntry<'_>, _: Option<&Attr>) -> ControlFlow<()> {
        flow(
            self.buffer
                .add(entry.ino.0, entry.cookie, entry.kind as u32, entry.name),
        )
    }
}

impl Listing for Entries<'_> {
    fn begin(&mut self) {
        self.buffer = DirectoryBuffer::new(self.at.size);
        self.told.clear();
        for (behind, name, ino) in dots(self.at) {
            let _ = self.buffer.add_plus(&untold(ino, Kind::Directory), behind, name);
        }
    }

    fn add(&mut self, entry: DirEntry<'_>, attr: Option<&Attr>) -> ControlFlow<()> {
        let Some(attr) = attr else {
            let untold = untold(entry.ino, entry.kind);
            return flow(self.buffer.add_plus(&untold, entry.cookie, entry.name));
        };
        let told = self.served.entry_uncounted(entry.ino, attr);
        let added = self.buffer.add_plus(&told, entry.cookie, entry.name);
        if added.is_ok() {
            self.told.push(entry.ino);
        }
        flow(added)
    }
}

impl Served {
    pub(super) fn readdir(&self, ino: Ino, offset: u64, size: u32, pending: &mut Pending) {
        let listed = self.start(ino, offset, size).and_then(|at| {
            let buffer = DirectoryBuffer::new(size);
            let mut names = Names { at, buffer };
            self.list(at, false, &mut names)?;
            Ok(names)
        });
        answer(pending, listed, |reply, names| reply.directory(&names.buffer));
    }

    pub(super) fn readdirplus(&self, ino: Ino, offset: u64, size: u32, pending: &mut Pending) {
        let listed = self.start(ino, offset, size).and_then(|at| {
            let mut entries = Entries {
                served: self,
                at,
                buffer: DirectoryBuffer::new(size),
                told: Vec::new(),
            };
            self.list(at, true, &mut entries)?;
            Ok(entries)
        });
        answer(pending, listed, |reply, entries| {
            self.known.add_all(&entries.told);
            reply.directory(&entries.buffer);
        });
    }

    fn start(&self, ino: Ino, offset: u64, size: u32) -> Result<Start, Error> {
        let parent = if offset < BEHIND_PARENT {
            self.branch.attr(ino)?.parent
        } else {
            // Nobody is told of it.
            ino
        };
        Ok(Start {
            ino,
            parent,
            offset,
            size,
        })
    }

    fn list(&self, at: Start, with_attrs: bool, listing: &mut dyn Listing) -> Result<(), Error> {
        let room = ListingRoom {
            with_attrs,
            len: at.size,
        };
        self.branch
            .list(at.ino, at.offset.max(BEHIND_PARENT), room, listing)
    }
}

/// Returns an entry that says no more than a listing without attributes: the kernel then looks the name up when it is used.
fn untold(ino: Ino, kind: Kind) -> Entry {
    Entry {
        attr: crate::kernel::Attr {
            ino: ino.0,
            mode: kind as u32,
            ..Default::default()
        },
        ..Entry::default()
    }
}

/// Returns `.` and `..`, as far as they lie behind where a listing begins.
fn dots(at: Start) -> impl Iterator<Item = (u64, &'static [u8], Ino)> {
    let dots: [(u64, &'static [u8], Ino); 2] =
        [(BEHIND_SELF, b".", at.ino), (BEHIND_PARENT, b"..", at.parent)];
    dots.into_iter().filter(move |(behind, ..)| *behind > at.offset)
}

fn flow(added: Result<(), Full>) -> ControlFlow<()> {
    match added {
        Ok(()) => ControlFlow::Continue(()),
        Err(Full) => ControlFlow::Break(()),
    }
}
