//! `.tenure` in the root of a mount: not listed, but there for whoever asks by name. `status` in it tells how the mount is;
//! an fsync of it makes everything durable, and keeps nobody from any name meanwhile. Behind `checkpoints` is what `super::checkpoints`
//! shows.
//!
//! Invariant: a look-up of `status` gives the kernel an inode of its own with the text of that moment, so no cache ever serves
//! an old one.

use super::checkpoints::{self, Checkpoints, Shelves};
use super::content::SEEK_DATA;
use super::pending::Pending;
use crate::kernel::{Attr, DirectoryBuffer, Entry, Errno, Operation, ROOT, Reply, Request, Statx};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_client::wait;
use tenure_model::Clock;

/// The name that is taken in every root.
const NAME: &[u8] = b".tenure";
const STATUS: &[u8] = b"status";
/// The first number of what is hidden: far beyond every inode number that is lent.
pub(super) const DIRECTORY: u64 = 1 << 62;
/// Texts that are kept for readers at a time.
const TEXTS_MAX: usize = 256;

/// Requests of the kernel so far, by kind.
pub(super) type Counts = BTreeMap<String, u64>;

/// Writes the text of `status`, given what the kernel has asked so far.
pub type Status = Box<dyn Fn(Counts) -> Vec<u8> + Send + Sync>;

/// What stands in `.tenure`.
pub struct Inside {
    /// Writes the text of `status`.
    pub status: Status,
    /// What stands in `checkpoints`.
    pub checkpoints: Box<dyn Checkpoints>,
}

/// What is hidden in a mount.
pub(super) struct Hidden {
    status: Status,
    texts: Mutex<Texts>,
    shelves: Shelves,
}

#[derive(Default)]
struct Texts {
    last: u64,
    texts: BTreeMap<u64, Arc<[u8]>>,
}

impl Hidden {
    pub(super) fn new(inside: Inside, clock: Arc<dyn Clock>) -> Self {
        Hidden {
            status: inside.status,
            texts: Mutex::default(),
            shelves: Shelves::new(inside.checkpoints, clock),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "one request is waited for, and no other"
    )]
    /// Answers a request that is about something hidden; tells whether it was one.
    pub(super) fn answer(
        &self,
        request: &Request<'_>,
        pending: &mut Pending,
        counts: impl Fn() -> Counts,
    ) -> bool {
        if is_hidden(request.nodeid) {
            match &request.operation {
                // The whole mount has room, or not.
                Operation::Statfs => return false,
                // A sync of the whole mount that holds no lock but that of this one text.
                Operation::Fsync { .. } => return false,
                Operation::Lookup { name } if request.nodeid == DIRECTORY && *name == STATUS => {
                    self.tell(pending, counts);
                }
                Operation::Lookup { name } if request.nodeid == DIRECTORY && *name == checkpoints::NAME => {
                    if let Some(reply) = pending.take() {
                        reply.entry(&self.shelves.entry());
                    }
                }
                _ if checkpoints::is_one(request.nodeid) => self.shelves.answer(request, pending),
                _ => {
                    if let Some(reply) = pending.take() {
                        self.answer_hidden(request, reply);
                    }
                }
            }
            return true;
        }
        let asked = named(request);
        match asked {
            Some(Asked::Found) => {
                if let Some(reply) = pending.take() {
                    reply.entry(&entry(DIRECTORY, directory_attr()));
                }
            }
            Some(Asked::Made) => pending.error(Errno::EXIST),
            Some(Asked::Changed) => pending.error(Errno::PERM),
            None => {}
        }
        asked.is_some()
    }

    /// Forgets a text that the kernel has forgotten; true when the inode was a hidden one.
    pub(super) fn forget(&self, ino: u64) -> bool {
        if is_hidden(ino) {
            self.texts.lock().texts.remove(&ino);
        }
        is_hidden(ino)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else is asked of what is hidden is not permitted"
    )]
    fn answer_hidden(&self, request: &Request<'_>, reply: Reply) {
        let ino = request.nodeid;
        match &request.operation {
            Operation::Lookup { .. } => reply.entry(&Entry::negative(Duration::ZERO)),
            Operation::Getattr { .. } if ino == DIRECTORY => reply.attr(&directory_attr(), Duration::ZERO),
            Operation::Getattr { .. } => match self.find(ino) {
                Some(text) => reply.attr(&text_attr(&text), Duration::ZERO),
                None => reply.error(Errno::STALE),
            },
            Operation::Statx { .. } if ino == DIRECTORY => {
                reply.statx(&statx(directory_attr()), Duration::ZERO)
            }
            Operation::Statx { .. } => match self.find(ino) {
                Some(text) => reply.statx(&statx(text_attr(&text)), Duration::ZERO),
                None => reply.error(Errno::STALE),
            },
            Operation::Read { offset, size, .. } => match self.find(ino) {
                Some(text) => {
                    let from = (*offset).min(text.len() as u64) as usize;
                    let to = (from + *size as usize).min(text.len());
                    reply.data(&text[from..to]);
                }
                None => reply.error(Errno::STALE),
            },
            Operation::Lseek { offset, whence, .. } => match self.find(ino) {
                // A text has no holes but its end.
                Some(text) if *offset >= text.len() as u64 => reply.error(Errno::NXIO),
                Some(_) if *whence == SEEK_DATA => reply.lseek(*offset),
                Some(text) => reply.lseek(text.len() as u64),
                None => reply.error(Errno::STALE),
            },
            // Who copies reads it then.
            Operation::CopyFileRange { .. } => reply.error(Errno::OPNOTSUPP),
            Operation::Readdir { offset, size, .. } | Operation::Readdirplus { offset, size, .. } => {
                let plus = matches!(request.operation, Operation::Readdirplus { .. });
                reply.directory(&listing(*offset, *size, plus));
            }
            Operation::Access { .. } => reply.ok(),
            Operation::Getxattr { .. } | Operation::Listxattr { .. } => reply.error(Errno::NODATA),
            Operation::Open { .. } | Operation::Opendir { .. } | Operation::Flush { .. } => {
                reply.error(Errno::NOSYS)
            }
            Operation::Release { .. } | Operation::Releasedir { .. } => reply.ok(),
            _ => reply.error(Errno::PERM),
        }
    }

    /// Answers with the text of this moment, for which the owner is asked: the thread must be one that may wait.
    fn tell(&self, pending: &mut Pending, counts: impl Fn() -> Counts) {
        if wait::before_waiting().is_err() {
            return;
        }
        let (ino, text) = self.text(counts());
        if let Some(reply) = pending.take() {
            reply.entry(&entry(ino, text_attr(&text)));
        }
    }

    fn text(&self, counts: Counts) -> (u64, Arc<[u8]>) {
        let text: Arc<[u8]> = (self.status)(counts).into();
        let mut texts = self.texts.lock();
        texts.last += 1;
        let ino = DIRECTORY + texts.last;
        texts.texts.insert(ino, Arc::clone(&text));
        if texts.texts.len() > TEXTS_MAX {
            texts.texts.pop_first();
        }
        (ino, text)
    }

    fn find(&self, ino: u64) -> Option<Arc<[u8]>> {
        self.texts.lock().texts.get(&ino).cloned()
    }
}

/// Tells whether an inode is one of those that are hidden.
pub(super) fn is_hidden(ino: u64) -> bool {
    ino >= DIRECTORY
}

/// Tells whether a name is that of what is hidden.
pub(super) fn is_taken(parent: u64, name: &[u8]) -> bool {
    parent == ROOT && name == NAME
}

/// What a request wants of what is hidden, when it is sent to another inode.
enum Asked {
    Found,
    Made,
    Changed,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no other request can name what is hidden"
)]
fn named(request: &Request<'_>) -> Option<Asked> {
    let here = |name: &[u8]| is_taken(request.nodeid, name);
    match &request.operation {
        Operation::Lookup { name } if here(name) => Some(Asked::Found),
        Operation::Mknod { name, .. } | Operation::Mkdir { name, .. } | Operation::Symlink { name, .. }
            if here(name) =>
        {
            Some(Asked::Made)
        }
        Operation::Link { name, .. } if here(name) => Some(Asked::Made),
        Operation::Link { ino, .. } if is_hidden(*ino) => Some(Asked::Changed),
        Operation::CopyFileRange { to, .. } if is_hidden(*to) => Some(Asked::Changed),
        Operation::Unlink { name } | Operation::Rmdir { name } if here(name) => Some(Asked::Changed),
        Operation::Rename {
            name,
            new_parent,
            new_name,
            ..
        } if here(name) || is_taken(*new_parent, new_name) || is_hidden(*new_parent) => Some(Asked::Changed),
        _ => None,
    }
}

fn entry(ino: u64, attr: Attr) -> Entry {
    Entry {
        nodeid: ino,
        attr,
        ..Entry::default()
    }
}

pub(super) fn directory_attr() -> Attr {
    Attr {
        ino: DIRECTORY,
        mode: 0o040_555,
        nlink: 2,
        blksize: 4096,
        ..Attr::default()
    }
}

/// Returns what is told of a text: every one is the same file to whoever looks.
fn text_attr(text: &[u8]) -> Attr {
    Attr {
        ino: DIRECTORY + 1,
        mode: 0o100_444,
        nlink: 1,
        size: text.len() as u64,
        blksize: 4096,
        ..Attr::default()
    }
}

pub(super) fn statx(attr: Attr) -> Statx {
    Statx {
        attr,
        ..Statx::default()
    }
}

fn listing(offset: u64, size: u32, plus: bool) -> DirectoryBuffer {
    let mut listing = DirectoryBuffer::new(size);
    let names: [(&[u8], u32); 4] = [
        (b".", 0o040_000),
        (b"..", 0o040_000),
        (STATUS, 0o100_000),
        (checkpoints::NAME, 0o040_000),
    ];
    for (next, (name, mode)) in (1u64..).zip(names).filter(|(next, _)| *next > offset) {
        let attr = Attr {
            ino: DIRECTORY,
            mode,
            ..Attr::default()
        };
        // Four short names fit in the smallest listing that the kernel asks for.
        let _ = match plus {
            true => listing.add_plus(
                &Entry {
                    attr,
                    ..Entry::default()
                },
                next,
                name,
            ),
            false => listing.add(DIRECTORY, next, mode, name),
        };
    }
    listing
}
