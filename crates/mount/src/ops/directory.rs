//! Listings. A cookie names an entry for ever, so a listing goes on where it was whatever changes meanwhile.

use super::pending::Pending;
use super::{Served, answer};
use crate::kernel::{DirectoryBuffer, Entry, Full};
use std::ops::ControlFlow;
use tenure_client::Error;
use tenure_model::{Ino, Kind};

/// Offset behind `.`; entries' cookies are larger than both.
const BEHIND_SELF: u64 = 1;
/// Offset behind `..`.
const BEHIND_PARENT: u64 = 2;

/// A listing that is being made, and whose lookups have to be counted before the kernel hears of them.
struct Listing {
    buffer: DirectoryBuffer,
    told: Vec<Ino>,
}

impl Served {
    pub(super) fn readdir(&self, ino: Ino, offset: u64, size: u32, pending: &mut Pending) {
        let parent = self.branch.parent(ino);
        let listed = parent.and_then(|parent| {
            let start = || begin(ino, parent, offset, size);
            self.branch.list(
                ino,
                offset.max(BEHIND_PARENT),
                false,
                start,
                |listing, entry, _| {
                    flow(
                        listing
                            .buffer
                            .add(entry.ino.0, entry.cookie, entry.kind as u32, entry.name),
                    )
                },
            )
        });
        answer(pending, listed, |reply, listing| reply.directory(&listing.buffer));
    }

    pub(super) fn readdirplus(&self, ino: Ino, offset: u64, size: u32, pending: &mut Pending) {
        let listed: Result<Listing, Error> = self.branch.parent(ino).and_then(|parent| {
            let start = || begin_plus(ino, parent, offset, size);
            self.branch.list(
                ino,
                offset.max(BEHIND_PARENT),
                true,
                start,
                |listing, entry, attr| {
                    let Some(attr) = attr else {
                        let untold = untold(entry.ino, entry.kind);
                        return flow(listing.buffer.add_plus(&untold, entry.cookie, entry.name));
                    };
                    let told = self.entry_uncounted(entry.ino, attr);
                    let added = listing.buffer.add_plus(&told, entry.cookie, entry.name);
                    if added.is_ok() {
                        listing.told.push(entry.ino);
                    }
                    flow(added)
                },
            )
        });
        answer(pending, listed, |reply, listing| {
            self.known.add_all(&listing.told);
            reply.directory(&listing.buffer);
        });
    }
}

fn begin(ino: Ino, parent: Ino, offset: u64, size: u32) -> Listing {
    let mut buffer = DirectoryBuffer::new(size);
    for (behind, name, ino) in dots(ino, parent, offset) {
        // Both fit: the kernel never asks for less than a page.
        let _ = buffer.add(ino.0, behind, Kind::Directory as u32, name);
    }
    Listing {
        buffer,
        told: Vec::new(),
    }
}

fn begin_plus(ino: Ino, parent: Ino, offset: u64, size: u32) -> Listing {
    let mut buffer = DirectoryBuffer::new(size);
    for (behind, name, ino) in dots(ino, parent, offset) {
        let _ = buffer.add_plus(&untold(ino, Kind::Directory), behind, name);
    }
    Listing {
        buffer,
        told: Vec::new(),
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

/// Returns `.` and `..`, as far as they lie behind `offset`.
fn dots(ino: Ino, parent: Ino, offset: u64) -> impl Iterator<Item = (u64, &'static [u8], Ino)> {
    let dots: [(u64, &'static [u8], Ino); 2] = [(BEHIND_SELF, b".", ino), (BEHIND_PARENT, b"..", parent)];
    dots.into_iter().filter(move |(behind, ..)| *behind > offset)
}

fn flow(added: Result<(), Full>) -> ControlFlow<()> {
    match added {
        Ok(()) => ControlFlow::Continue(()),
        Err(Full) => ControlFlow::Break(()),
    }
}
